// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/compare"
)

// Names that an API server accepts for some resources, such as Roles.
var (
	oddNames = []string{"a\u00a0b", "a\x1b[2J", "a\u202eb", "a\nb", "a\x00", "...", "a?b#c;d e+", "system:a", `a"\`,
		strings.Repeat("x", 1100)}
	// unsendable has a path of more than 1 MiB.
	unsendable = strings.Repeat("\x01", 500<<10)
)

func TestAnObjectOfAnyNameIsRewritten(t *testing.T) {
	l := &liar{list: func(int, string) (int, string) {
		var items []string
		for _, name := range oddNames {
			items = append(items, about("d", name, "9"))
		}
		return http.StatusOK, listOf("", items...)
	}}
	result, err := l.sweep(t, nil, Options{}).Run(t.Context())
	if err != nil || !result.Proven || result.Counts != (Counts{Rewritten: int64(len(oddNames))}) {
		t.Errorf("error %v, proven %t, counts %+v, want a proof", err, result.Proven, result.Counts)
	}
	var want []string
	for _, name := range oddNames {
		want = append(want, "PATCH /apis/wardle.example.com/v1/namespaces/d/flunders/"+name)
	}
	slices.Sort(want)
	slices.Sort(l.sent)
	if diff := compare.Diff(want, l.sent); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestAnObjectWhoseNameIsTooLongForARequestFailsByItself(t *testing.T) {
	stored := func(string) (int, string) { return http.StatusOK, identified("d", "a", "u", "500") }
	l := &liar{patch: stored, get: stored, list: func(int, string) (int, string) {
		return http.StatusOK, listOf("", identified("d", "a", "u", "9"), identified("d", unsendable, "v", "9"))
	}}
	store := &memoryCheckpoints{}
	result, err := l.sweep(t, nil, Options{Checkpoints: store}).Run(t.Context())
	if !errors.Is(err, ErrObjectsFailed) || result.Counts != (Counts{Rewritten: 1, Failed: 1}) || result.Complete {
		t.Fatalf("error %v, counts %+v, want one rewritten and one failed (I4)", err, result.Counts)
	}
	if f := result.Failures; len(f) != 1 || f[0].Namespace != "d" || f[0].Reason != Unreadable || !f[0].Abridged ||
		len(f[0].Name) > maxSavedKey || !strings.HasSuffix(f[0].Name, "\x01…") ||
		!named(f[0].Namespace, f[0].Name) || !strings.Contains(f[0].Message, "the name is too long for a request") {
		t.Errorf("failures %+v, want one whose name is abridged", f)
	}
	if slices.ContainsFunc(l.sent, func(sent string) bool { return !strings.HasSuffix(sent, "/flunders/a") }) {
		t.Errorf("sent %.200q, want nothing about an object that no request can name", l.sent)
	}
	if len(store.raw) > 32<<10 {
		t.Errorf("the checkpoint has %d bytes (I6)", len(store.raw))
	}

	lists := l.lists
	result, err = l.sweep(t, nil, Options{Checkpoints: store, Resume: true}).Run(t.Context())
	if !errors.Is(err, ErrObjectsFailed) || result.Counts.Failed != 1 || l.lists != lists+1 {
		t.Errorf("resumed: error %v, counts %+v, %d lists, want the object found again in a list", err, result.Counts,
			l.lists-lists)
	}
}

func TestAMessageAboutALongNameStillSaysWhy(t *testing.T) {
	long := strings.Repeat("x", 1100)
	f := failureOf(object{namespace: "d", name: long}, Rejected, fmt.Sprintf("roles %q is forbidden: it is frozen", long))
	if f.Name != long || f.Abridged || !strings.Contains(f.Message, "(1100 bytes) is forbidden: it is frozen") {
		t.Errorf("%+v, want the name whole, and the reason", f)
	}
	f = failureOf(object{namespace: "d", name: "a\xffb"}, Rejected, "no")
	if f.Name != "a\uFFFDb" || !f.Abridged {
		t.Errorf("%+v, want a name in UTF-8", f)
	}
}

// allCheckpoints keeps everything that was saved, and resumes from the checkpoint number from.
type allCheckpoints struct {
	saved [][]byte
	from  int
}

func (a *allCheckpoints) Load(context.Context) ([]byte, error) { return a.saved[a.from], nil }

func (a *allCheckpoints) Save(_ context.Context, c Checkpoint) error {
	a.saved = append(a.saved, c.Data)
	return nil
}

// The continue token of a kube-apiserver contains a name, so that it may be longer than a checkpoint can be.
func TestACheckpointDoesNotContainALongContinueToken(t *testing.T) {
	long := strings.Repeat("t", 100<<10)
	var tokens []string
	l := &liar{list: func(_ int, token string) (int, string) {
		tokens = append(tokens, token)
		if token == "" {
			return http.StatusOK, listOf(long, about("d", "a", "9"))
		}
		return http.StatusOK, listOf("", about("d", "b", "9"))
	}}
	store := &allCheckpoints{}
	if result, err := l.sweep(t, nil, Options{Checkpoints: store}).Run(t.Context()); err != nil || !result.Proven {
		t.Fatal(result, err)
	}
	half := slices.IndexFunc(store.saved, func(data []byte) bool {
		c, err := decodeCheckpoint(data)
		return err == nil && c.Counts.Rewritten == 1
	})
	for _, data := range store.saved {
		if len(data) > maxSavedToken {
			t.Errorf("a checkpoint has %d bytes (I6)", len(data))
		}
	}
	store.from, tokens, l.sent = half, nil, nil
	result, err := l.sweep(t, nil, Options{Checkpoints: store, Resume: true}).Run(t.Context())
	if err != nil || !result.Proven || result.Counts.Done() != 2 || !slices.Equal(tokens, []string{"", long}) {
		t.Errorf("resumed: error %v, counts %+v, %d lists, want both objects in a list from the start", err,
			result.Counts, len(tokens))
	}
}

func TestAPageAfterWhichNoRequestCanGoOnEndsWithAnotherObject(t *testing.T) {
	tooLong := strings.Repeat("t", 800<<10)
	l := &liar{list: func(n int, token string) (int, string) {
		switch {
		case n <= 3:
			return http.StatusOK, listOf(tooLong, about("d", "a", "9"))
		case token == "":
			return http.StatusOK, listOf("t", about("d", "a", "9"), about("d", "b", "9"))
		}
		return http.StatusOK, listOf("", about("d", "c", "9"))
	}}
	result, err := l.sweep(t, nil, Options{}).Run(t.Context())
	if err != nil || !result.Proven || result.Counts != (Counts{Rewritten: 3}) {
		t.Errorf("error %v, counts %+v, want three rewritten", err, result.Counts)
	}
}

// A kube-apiserver writes the last key of a page as JSON into the token. "a\x80" becomes "a\ufffd", and everything in
// between would be left out (I4).
func TestThePageAfterANameThatIsNotUTF8IsNotRequested(t *testing.T) {
	for name, tt := range map[string]struct {
		page page
		want error
	}{
		"a name of any other kind": {page{next: "t", objects: []object{{name: "a\x80"}, {name: "b\x00\u00a0"}}}, nil},
		"not UTF-8":                {page{next: "t", objects: []object{{name: "a"}, {name: "a\x80"}}}, errNoNext},
		"not UTF-8, and the last":  {page{objects: []object{{name: "a"}, {name: "a\x80"}}}, nil},
	} {
		err := tt.page.continues()
		if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), `follows "a\x80"`) {
			t.Errorf("%s: %v, want %v", name, err, tt.want)
		}
	}
}

// JSON changes bytes that are not UTF-8. A key that changed would name other objects as handled, or be another object.
func TestACheckpointContainsOnlyKeysThatJSONDoesNotChange(t *testing.T) {
	s := (&liar{}).sweep(t, nil, Options{})
	long := strings.Repeat("x", maxSavedKey)
	for i, name := range []string{"b", "c\x80", "d" + long} {
		o := object{name: name, uid: "u", resourceVersion: fmt.Sprint(i + 1)}
		s.sawObject(o)
		s.state.Unordered = false
		s.state.done(s.state.Done, []object{o}, uint64(i+1))
	}
	if s.candidate.Name != "b" || s.state.Done != "b" || s.state.DoneAt != 3 {
		t.Errorf("witness %q, done up to %q at %d, want both b, at 3", s.candidate.Name, s.state.Done, s.state.DoneAt)
	}
	s.state.done("b", []object{{name: "c\x80"}, {name: "d"}, {name: "d" + long}}, 4)
	if s.state.Done != "d" {
		t.Errorf("done up to %q, want d", s.state.Done)
	}
	for name, want := range map[string]bool{"b": true, long: true, "c\x80": false, "d" + long: false} {
		if got := named("", name); got != want {
			t.Errorf("a checkpoint may contain %.20q: %t, want %t", name, got, want)
		}
	}
	worst := &checkpoint{Version: checkpointVersion, Continue: strings.Repeat("t", maxSavedToken)}
	key := strings.Repeat("\x01", maxSavedKey)
	for range maxWitnesses {
		worst.Witnesses = append(worst.Witnesses, witness{Name: key})
	}
	worst.Done, worst.ConfirmedDone, worst.Prefix.Key = key, key, key
	worst.fail(slices.Repeat([]Failure{*failureOf(object{namespace: "d", name: key}, Rejected, key)}, maxFailures))
	if c, err := worst.encode(); err != nil || len(c.Data) > 1<<20-64<<10 {
		t.Errorf("the checkpoint has %d bytes (%v), want less than 1 MiB without the servers of an epoch", len(c.Data), err)
	}
}

// A failure of a checkpoint is rewritten again under its name, or is found again in a list.
func FuzzNameInACheckpoint(f *testing.F) {
	for _, name := range append([]string{"a\xff", strings.Repeat("é", 3000)}, oddNames...) {
		f.Add("d", name)
	}
	f.Fuzz(func(t *testing.T, namespace, name string) {
		failure := failureOf(object{namespace: namespace, name: name}, Rejected, name)
		raw, err := json.Marshal(failure)
		var back Failure
		if err == nil {
			err = json.Unmarshal(raw, &back)
		}
		if err != nil || back != *failure {
			t.Errorf("%q becomes %+v (%v), was %+v", name, back, err, failure)
		}
		if !back.Abridged && (back.Namespace != namespace || back.Name != name) ||
			len(back.Namespace) > maxSavedKey || len(back.Name) > maxSavedKey {
			t.Errorf("%q in %q becomes %+v", name, namespace, back)
		}
	})
}
