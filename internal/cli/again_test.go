// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAProposedCommandKeepsWhatMattersAndNoSecrets(t *testing.T) {
	env := &environment{name: "kube-migrator"}
	root := newRoot(env)
	command, _, err := root.Find([]string{"migrate"})
	if err != nil {
		t.Fatal(err)
	}
	if err := command.ParseFlags([]string{
		"--all", "--exclude=events", "--max-rate=5", "--reason=it's time", "--token=s3cret", "--as=a", "--as-group=x", "--as-group=y z",
		"--min-evidence=declared", "--resume", "-o", "json",
	}); err != nil {
		t.Fatal(err)
	}
	m := &migration{env: env, command: command}
	for name, test := range map[string]struct {
		arguments []string
		want      string
	}{
		"one resource": {[]string{"widgets", "--resume"},
			`kube-migrator migrate widgets --resume --as=a --as-group=x '--as-group=y z' --max-rate=5 --min-evidence=declared '--reason=it'\''s time' --token="$TOKEN"`},
		"other evidence": {[]string{"widgets", "--min-evidence=sampled"},
			`kube-migrator migrate widgets --min-evidence=sampled --as=a --as-group=x '--as-group=y z' --max-rate=5 '--reason=it'\''s time' --token="$TOKEN"`},
		"the same selection": {(&selection{all: true, exclude: []string{"*.example.com"}}).arguments(),
			`kube-migrator migrate --all '--exclude=*.example.com' --resume --as=a --as-group=x '--as-group=y z' --max-rate=5 --min-evidence=declared '--reason=it'\''s time' --token="$TOKEN"`},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, m.again(test.arguments...)); diff != "" {
				t.Errorf("command (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheWorstOutcomeDecidesTheExitCode(t *testing.T) {
	for _, test := range []struct{ a, b, want int }{
		{exitDone, exitDone, exitDone}, {exitDone, exitWorkLeft, exitWorkLeft}, {exitUndetermined, exitWorkLeft, exitUndetermined},
		{exitFailures, exitUndetermined, exitFailures}, {exitFailures, exitError, exitError}, {exitInterrupted, exitError, exitInterrupted},
	} {
		if got := worse(test.a, test.b); got != test.want {
			t.Errorf("worse(%d, %d) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
