// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"fmt"
	"testing"

	"github.com/kube-migrator/kube-migrator/migrate"
)

// A run that ends with one of these has an outcome at once, so the turn passes to another migration; without one the
// worker would try for a quarter of an hour.
func TestWhatAHostileServerDoesEndsTheRun(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want Result
	}{
		{migrate.ErrUntrustedAnswer, ResultUntrustedAnswer},
		{migrate.ErrEndlessList, ResultUntrustedAnswer},
		{migrate.ErrAnswerTooLarge, ResultUntrustedAnswer},
		{migrate.ErrStalled, ResultNoProgress},
	} {
		if got := resultOf(fmt.Errorf("list: %w", tt.err)); got != tt.want {
			t.Errorf("%v: verdict %q, want %q", tt.err, got, tt.want)
		}
	}
}
