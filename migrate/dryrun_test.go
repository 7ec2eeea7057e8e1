// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/compare"
)

// In a dry run, no resourceVersion moves, whether or not an object is stale.
func TestADryRunCountsWhatIsAcceptedAndWhatIsRefused(t *testing.T) {
	f := &scripted{n: 3, resourceVersion: "1000"}
	f.patch = func(name string, w http.ResponseWriter) bool {
		if name == "o1" {
			return refuse(w, http.StatusUnprocessableEntity, "no color")
		}
		fmt.Fprint(w, object1(name, f.version(name)))
		return true
	}
	result, err := sweepOf(t, f, nil, Options{DryRun: true}).Run(t.Context())
	if !errors.Is(err, ErrObjectsFailed) {
		t.Errorf("error %v, want ErrObjectsFailed", err)
	}
	got := result.Counts
	got.Retried = 0
	if diff := compare.Diff(Counts{Accepted: 2, Failed: 1}, got); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if accounted(result) != 2 || got.Done() != 3 {
		t.Errorf("%d accounted, %d done, want 2 and 3", accounted(result), got.Done())
	}
}
