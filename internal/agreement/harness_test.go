// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/agreement/look"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func observe(t *testing.T, config *rest.Config, target migrate.Target) *Resource {
	t.Helper()
	r, err := New(config, target, look.Options{ShutdownDelay: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// lookAt looks once.
func lookAt(t *testing.T, r *Resource) (migrate.Epoch, Explanation) {
	t.Helper()
	epoch, explanation, err := r.Look(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if last := r.Explanation(); last != explanation {
		t.Errorf("the last explanation is %+v, want %+v", last, explanation)
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

// verdictOf returns the verdict of a resource.
func verdictOf(t *testing.T, r *Round, group, plural string) Verdict {
	t.Helper()
	resource := schema.GroupResource{Group: group, Resource: plural}
	i := slices.IndexFunc(r.Verdicts, func(v Verdict) bool { return v.Resource == resource })
	if i < 0 {
		t.Fatalf("no verdict of %s among %d", resource, len(r.Verdicts))
	}
	return r.Verdicts[i]
}
