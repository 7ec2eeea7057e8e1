// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestATableHasNoTrailingSpacesAndNoControlCharacters(t *testing.T) {
	var out strings.Builder
	err := Tabulate(&out, []string{"RESOURCE", "WHY"}, [][]string{
		{"widgets.demo.example.com", "webhook said:\x1b[31m no\n\tway"},
		{"secrets", ""},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := "RESOURCE                   WHY\n" +
		"widgets.demo.example.com   webhook said: [31m no  way\n" +
		"secrets                    -\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestNumbersOfObjectsAreGroupedInThousands(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 123456: "123,456",
		1234567: "1,234,567", -1234: "-1,234"} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestDurationsHaveAtMostTwoUnits(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                                    "0s",
		20 * time.Millisecond:                "<1s",
		42 * time.Second:                     "42s",
		59600 * time.Millisecond:             "1m",
		200 * time.Second:                    "3m20s",
		2*time.Hour + 10*time.Minute + 31e9:  "2h11m",
		time.Hour - time.Second:              "59m59s",
		time.Hour:                            "1h",
		76 * time.Hour:                       "3d4h",
		23*time.Hour + 59*time.Minute + 59e9: "24h",
	} {
		if got := Duration(d); got != want {
			t.Errorf("Duration(%v) = %q, want %q", d, got, want)
		}
	}
}
