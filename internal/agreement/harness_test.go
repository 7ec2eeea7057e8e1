// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/migrate"
)

func observe(t *testing.T, config *rest.Config, target migrate.Target) *Resource {
	t.Helper()
	r, err := New(config, target, Options{ShutdownDelay: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// look looks once.
func look(t *testing.T, r *Resource) (migrate.Epoch, Explanation) {
	t.Helper()
	epoch, explanation, err := r.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return epoch, explanation
}

// roundOf looks at everything.
func roundOf(t *testing.T, o *Observer) *Round {
	t.Helper()
	for {
		r, err := o.Round(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !r.Moved {
			return r
		}
	}
}

// viewOf returns the view of a resource.
func viewOf(t *testing.T, r *Round, group, plural string) View {
	t.Helper()
	resource := schema.GroupResource{Group: group, Resource: plural}
	i := slices.IndexFunc(r.Views, func(v View) bool { return v.Resource == resource })
	if i < 0 {
		t.Fatalf("no view of %s among %d", resource, len(r.Views))
	}
	return r.Views[i]
}
