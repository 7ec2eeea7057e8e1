// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/storedversions"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/checkpoint"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/refusal"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/retire"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// retiring is a run of the command whose state is in dir.
func retiring(t *testing.T, dir string, arguments ...string) *retirement {
	t.Helper()
	env := &environment{name: "kube-migrator", Streams: Streams{In: strings.NewReader(""), Err: io.Discard}}
	command, _, err := newRoot(env).Find([]string{"retire"})
	if err != nil {
		t.Fatal(err)
	}
	if err := command.ParseFlags(arguments); err != nil {
		t.Fatal(err)
	}
	r := &retirement{migration: migration{environment: env, command: command, cluster: "c", dir: dir},
		dryRun: slices.Contains(arguments, "--dry-run")}
	r.resource.GroupResource, r.resource.CRD = schema.GroupResource{Group: "demo.example.com", Resource: "widgets"},
		&inventory.CRD{Name: "widgets.demo.example.com"}
	r.facts.CRD = new(crd.CRD)
	r.facts.CRD.Metadata.Name, r.facts.CRD.Metadata.UID = "widgets.demo.example.com", "u"
	return r
}

func TestADryRunKeepsNothingOnThisMachine(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	dry := retiring(t, dir, "--dry-run")
	look := func() error {
		unlock, err := dry.lock()
		if err != nil {
			return err
		}
		defer unlock()
		return dry.recall()
	}
	if err := look(); err != nil || dry.facts.Attempted != nil {
		t.Errorf("without a folder: begun %v, error %v", dry.facts.Attempted, err)
	}
	if migrates, err := dry.migrating(dry.resource.GroupResource); migrates || err != nil {
		t.Errorf("another migrates: %v, %v", migrates, err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is there: %v", err)
	}

	earnest := retiring(t, dir)
	earnest.intent.Version = "v1"
	unlock, err := earnest.lock()
	if err != nil {
		t.Fatal(err)
	}
	if err := earnest.remember(); err != nil {
		t.Fatal(err)
	}
	if err := look(); err == nil || !strings.Contains(err.Error(), "is retiring a version") {
		t.Errorf("while another is at work: %v, want it refused", err)
	}
	unlock()
	if err := look(); err != nil || !slices.Equal(dry.facts.Attempted, []string{"v1"}) {
		t.Errorf("afterwards: begun %v, error %v, want v1", dry.facts.Attempted, err)
	}
}

func TestAnotherMigrationOfThisMachineIsSeen(t *testing.T) {
	r := retiring(t, t.TempDir())
	place, err := checkpoint.New(r.dir, r.cluster, r.resource.GroupResource.String())
	if err != nil {
		t.Fatal(err)
	}
	unlock, err := place.Lock()
	if err != nil {
		t.Fatal(err)
	}
	if migrates, err := r.migrating(r.resource.GroupResource); !migrates || err != nil {
		t.Errorf("while it runs: %v, %v", migrates, err)
	}
	unlock()
	if migrates, err := r.migrating(r.resource.GroupResource); migrates || err != nil {
		t.Errorf("when it has ended: %v, %v", migrates, err)
	}
}

func TestABrokenNoteOfWhatWasBegunComesWithTheCommandThatRemovesIt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b")
	path := filepath.Join(dir, "c", "retire-widgets.demo.example.com.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"uid":`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := retiring(t, dir)
	unlock, err := r.lock()
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	known := (*exit.Hint)(nil)
	if err := r.recall(); !errors.As(err, &known) || known.Command() != "rm '"+path+"'" {
		t.Errorf("%v with the hint %+v, want rm", err, known)
	}

	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	if err := r.recall(); !errors.As(err, &known) || known.Command() != "ls -ld '"+path+"'" {
		t.Errorf("what cannot be read: %v with the hint %+v, want ls", err, known)
	}
}

func TestWhatToTryWhereObjectsCannotBeListedDependsOnWhy(t *testing.T) {
	r := retiring(t, t.TempDir(), "--version=v1", "--dry-run")
	widgets := r.resource.GroupResource
	for name, test := range map[string]struct {
		err   error
		scope string
		want  string
	}{
		"forbidden": {apierrors.NewForbidden(widgets, "", nil), "Cluster",
			"kubectl auth can-i list widgets.demo.example.com"},
		"forbidden in namespaces": {apierrors.NewForbidden(widgets, "", nil), "Namespaced",
			"kubectl auth can-i list widgets.demo.example.com --all-namespaces"},
		"an API server that does not answer": {apierrors.NewServiceUnavailable("x"), "Namespaced",
			"kube-migrator retire widgets.demo.example.com --dry-run=true --version=v1"},
	} {
		r.facts.CRD.Spec.Scope = test.scope
		known := (*exit.Hint)(nil)
		if err := r.unlisted(fmt.Errorf("list: %w", test.err)); !errors.As(err, &known) ||
			known.Command() != test.want ||
			known.Code() != exit.Error {
			t.Errorf("%s: %+v, want the hint %s", name, known, test.want)
		}
	}
}

func TestTheExitCodeOfARetirementSaysWhy(t *testing.T) {
	for _, test := range []struct {
		err  error
		want int
	}{
		{&refusal.Error{Reason: retire.Changed}, exit.WorkLeft},
		{fmt.Errorf("prune: %w", storedversions.ErrChanged), exit.WorkLeft},
		{fmt.Errorf("%w: 3", retire.ErrNotMoved), exit.Failures},
		{fmt.Errorf("%w: 3", migrate.ErrObjectsFailed), exit.Failures},
		{migrate.ErrNotProven, exit.Undetermined},
		{migrate.ErrStopped, exit.Interrupted},
		{errors.New("anything else"), exit.Error},
	} {
		if got := retireCode(test.err); got != test.want {
			t.Errorf("%v: exit code %d, want %d", test.err, got, test.want)
		}
	}
}
