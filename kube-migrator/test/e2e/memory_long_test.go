// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package e2e

import (
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func TestMemoryIsTheSameForTwoHundredThousandObjects(t *testing.T) {
	cluster := testbed.New(t, testbed.Options{})
	ten := peakOf(t, cluster, "tens", testbed.Bulk{Count: 10_000, Bytes: kib})
	twoHundred := peakOf(t, cluster, "hundreds", testbed.Bulk{Count: 200_000, Bytes: kib})
	large := peakOf(t, cluster, "larges", testbed.Bulk{Count: 2000, Bytes: 200 * kib})
	differsByLessThanTenPercent(t, "10,000 and 200,000 objects", ten, twoHundred)
	differsByLessThanTenPercent(t, "objects of 1 KiB and of 200 KiB", ten, large)
}
