// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/etcdaudit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

func TestAProposedCommandKeepsWhatMattersAndNoSecrets(t *testing.T) {
	env := &environment{name: "kube-migrator"}
	root := newRoot(env)
	command, _, err := root.Find([]string{"migrate"})
	if err != nil {
		t.Fatal(err)
	}
	if err := command.ParseFlags([]string{
		"--all", "--exclude=events", "--max-rate=5", "--reason=it's time", "--token=s3cret", "--as=a",
		"--as-group=x", "--as-group=y z",
		"--min-evidence=declared", "--resume", "-o", "json",
	}); err != nil {
		t.Fatal(err)
	}
	m := &migration{environment: env, command: command}
	for name, test := range map[string]struct {
		arguments []string
		want      string
	}{
		"one resource": {[]string{"widgets", "--resume"},
			`kube-migrator migrate widgets --resume --as=a --as-group=x '--as-group=y z' --max-rate=5 --min-evidence=declared '--reason=it'\''s time' --token="$TOKEN"`},
		"other evidence": {[]string{"widgets", "--min-evidence=sampled"},
			`kube-migrator migrate widgets --min-evidence=sampled --as=a --as-group=x '--as-group=y z' --max-rate=5 '--reason=it'\''s time' --token="$TOKEN"`},
		"the same selection": {(&records.Selection{All: true, Exclude: []string{"*.example.com"}}).Arguments(),
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
		{exit.Done, exit.Done, exit.Done}, {exit.Done, exit.WorkLeft, exit.WorkLeft},
		{exit.Undetermined, exit.WorkLeft, exit.Undetermined},
		{exit.Failures, exit.Undetermined, exit.Failures}, {exit.Failures, exit.Error, exit.Error},
		{exit.Interrupted, exit.Error, exit.Interrupted},
	} {
		if got := exit.Worse(test.a, test.b); got != test.want {
			t.Errorf("exit.Worse(%d, %d) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

// What follows "Try:" can be copied as it is: one command, without a word that stands for something else.
func TestWhatIsToBeTriedIsOneCommand(t *testing.T) {
	t.Parallel()
	env := &environment{name: "kube-migrator"}
	audit := func(arguments ...string) *cobra.Command {
		command, rest, err := newRoot(env).Find(append([]string{"audit"}, arguments...))
		if err == nil {
			err = command.ParseFlags(rest)
		}
		if err != nil {
			t.Fatal(err)
		}
		return command
	}
	etcd := []string{"--etcd-endpoints=https://a:2379,https://b:2379", "--cacert=my ca.crt",
		"--cert=c.crt", "--key=c.key"}
	unknown := &inventory.NotFoundError{Near: []string{"widgets.demo.example.com", "gadgets.demo.example.com"}}
	migrations := []v1alpha1.StorageVersionMigration{
		{Spec: v1alpha1.StorageVersionMigrationSpec{Resource: v1alpha1.GroupVersionResource{Group: "demo.example.com",
			Resource: "widgets"}}},
		{Spec: v1alpha1.StorageVersionMigrationSpec{Resource: v1alpha1.GroupVersionResource{Group: "demo.example.com",
			Resource: "wigets"}}},
	}
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	for want, err := range map[string]error{
		"etcdctl endpoint health --endpoints=https://a:2379,https://b:2379 '--cacert=my ca.crt' --cert=c.crt " +
			"--key=c.key": explainAudit(audit(etcd...), &etcdaudit.UnreachableError{}),
		"etcdctl get / --prefix --keys-only --limit=10 --endpoints=http://a": explainAudit(
			audit("--etcd-endpoints=http://a"), &etcdaudit.EmptyError{},
		),
		"etcdctl snapshot status db":                   explainAudit(audit("--snapshot=db"), &etcdaudit.EmptyError{}),
		"kube-migrator audit widgets.demo.example.com": exit.NotFound(env.name, audit(), unknown),
		"kube-migrator audit widgets.demo.example.com ": (&records.Client{Program: env.name}).NoneOf(audit(),
			"widgts.demo.example.com", migrations),
		"kube-migrator audit --snapshot=db": (&setup{env, audit("--snapshot=db")}).explained(interrupted, "",
			errors.New("it ended")),
	} {
		known := (*exit.Hint)(nil)
		if want = strings.TrimSpace(want); !errors.As(err, &known) || known.Command() != want {
			t.Errorf("%v, Try: %s, want %s", err, known.Command(), want)
		}
	}
}
