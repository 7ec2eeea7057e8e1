// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestWhatWorkersMayNotMigrateOnPurposeNamesTheWayOut(t *testing.T) {
	err := fmt.Errorf("%w: cannot patch it", migrate.ErrForbidden)
	for name, want := range map[string]string{
		"widgets.demo.example.com": "forbidden: cannot patch it",
		"validatingadmissionpolicies.admissionregistration.k8s.io": "forbidden: cannot patch it; no " +
			"admission policy can guard this resource, so an administrator migrates it: " +
			"kube-migrator migrate validatingadmissionpolicies.admissionregistration.k8s.io",
	} {
		if got := forbidden(err, schema.ParseGroupResource(name)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
