// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/retire"
	"github.com/kube-migrator/kube-migrator/internal/storedversions"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestFlagsOfRetireThatCannotBeMeantAreRefusedInTwoLines(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"no version":                      {[]string{"widgets"}, "--version is missing"},
		"no CRD":                          {[]string{"--version=v1"}, "give one CRD"},
		"two CRDs":                        {[]string{"a", "b", "--version=v1"}, "give one CRD"},
		"a rescue that removes":           {[]string{"widgets", "--version=v1", "--rescue", "--remove"}, "--rescue removes"},
		"a schema without a rescue":       {[]string{"widgets", "--version=v1", "--schema-from=crd.yaml"}, "--schema-from is for --rescue"},
		"a rate that cannot be":           {[]string{"widgets", "--version=v1", "--max-rate=-1"}, "--max-rate"},
		"evidence that does not exist":    {[]string{"widgets", "--version=v1", "--min-evidence=hearsay"}, "hearsay"},
		"a format that is not offered":    {[]string{"widgets", "--version=v1", "-o", "wide"}, "wide"},
		"a settle time that is not there": {[]string{"widgets", "--version=v1", "--settle-time=-1s"}, "--settle-time"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, err bytes.Buffer
			code := Run(t.Context(), append([]string{"kube-migrator", "retire"}, test.args...), Streams{Out: &out, Err: &err})
			lines := strings.Split(strings.TrimSuffix(err.String(), "\n"), "\n")
			if code != exitError || out.Len() > 0 || len(lines) != 2 || !strings.Contains(lines[0], test.want) || lines[1] != "Try: kube-migrator retire --help" {
				t.Errorf("exit code %d, stdout %q, stderr %q, want 1 and two lines with %q", code, out.String(), err.String(), test.want)
			}
		})
	}
}

func TestTheExitCodeOfARetirementSaysWhy(t *testing.T) {
	for _, test := range []struct {
		err  error
		want int
	}{
		{&retire.Refusal{Reason: retire.Changed}, exitWorkLeft},
		{fmt.Errorf("prune: %w", storedversions.ErrChanged), exitWorkLeft},
		{fmt.Errorf("%w: 3", retire.ErrNotMoved), exitFailures},
		{fmt.Errorf("%w: 3", migrate.ErrObjectsFailed), exitFailures},
		{migrate.ErrNotProven, exitUndetermined},
		{migrate.ErrStopped, exitInterrupted},
		{errors.New("anything else"), exitError},
	} {
		if got := retireCode(test.err); got != test.want {
			t.Errorf("%v: exit code %d, want %d", test.err, got, test.want)
		}
	}
}
