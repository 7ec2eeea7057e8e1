// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package policy

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mutants are rules of the heart, each with what takes its place. A test without a server has to notice each of them: a
// rule that can be taken out unnoticed is either dead or not held. Those of the ledger are in its own tests.
var mutants = []struct{ name, file, rule, mutant string }{
	{"servers that come or go during a look", "internal/agreement/look/gather.go",
		"s.Moved = !s.Listed.SameServers(s.Leases)", "s.Moved = false"},
	{"more servers than addresses", "internal/agreement/look/observed.go",
		"case len(e.Addresses) > live || live > 1 && len(e.Addresses) < live:", "case false:"},
	{"a server that does not answer", "internal/agreement/look/observed.go", "case silent > 0:", "case false:"},
	{"an old server that does not say when it started", "internal/agreement/look/observed.go",
		"case len(old) > 0:", "case false:"},
	{"addresses of one process", "internal/agreement/look/alike.go", "case resumed && before != \"\":", "case resumed && before == \"never\":"},
	{"a connection that leads to another process", "internal/agreement/look/lines.go",
		"if ended[i] = over != one.over; err != nil", "if _ = over; err != nil"},
	{"a proxy by its certificate", "internal/agreement/look/lines.go", "case !isDirect(one.over):", "case false:"},
	{"a proxy by two starts", "internal/agreement/look/lines.go",
		"case !started.Equal(one.started):", "case started.IsZero():"},
	{"a process without a Lease", "internal/agreement/look/lines.go",
		"if b.dial(meeting, 4*n); len(b.open) == n", "if len(b.open) == n"},
	{"a Lease of another process", "internal/agreement/look/lines.go", "case !matched(b.open, l.Live):", "case false:"},
	{"more addresses than Leases", "internal/agreement/look/lines.go", "case len(e.Addresses) > n:", "case false:"},
	{"the start as a part of the identity", "internal/agreement/snapshot/identify.go",
		"s.Holder = identity.Process(s.Holder, starts)", "_ = identity.Process(s.Holder, starts)"},
	{"a process that was replaced between two answers", "internal/agreement/snapshot/identify.go",
		"s.Moved = s.Moved || s.Started != nil", "s.Moved = s.Moved || false"},
	{"an epoch begins after another one", "internal/agreement/servers/since.go",
		"if !m.at.IsZero() && !m.epoch.Same(e) {", "if false {"},
	{"another epoch, seen by looks of the other kind", "internal/agreement/servers/since.go",
		"if !other.at.IsZero() && !other.epoch.Same(e) {", "if false {"},
	{"a server that stopped counting as live", "internal/agreement/servers/since.go",
		"Latest(s.started, s.gone, s.moved)", "Latest(s.started, s.moved)"},
	{"a server that entered or left", "internal/agreement/servers/since.go",
		"Latest(s.started, s.gone, s.moved)", "Latest(s.started, s.gone)"},
	{"a server that left unseen", "internal/agreement/servers/departed.go", "if p.unexplained(s) {", "if false {"},
	{"a server that cannot be asked whether it serves", "internal/agreement/servers/departed.go",
		"a.Since = Latest(a.Since, d.expires(delay))", ""},
	{"a Lease of two processes", "internal/agreement/servers/departed.go",
		"if _, two := p.doubled[l.Holder]; two {", "if false {"},
	{"a server with another hash", "internal/agreement/combine.go", "if !a.served || a.hash != shown {",
		"if !a.served || a.hash != shown && a.hash == \"never\" {"},
	{"a server that does not serve it", "internal/agreement/combine.go",
		"if !a.served || a.hash != shown {", "if a.hash != shown {"},
	{"a server that lags behind the CRD", "internal/agreement/combine.go", "shown = want", "shown = answers[0].hash"},
	{"a look during which servers moved", "internal/agreement/agreement.go", "if f.moved {", "if false {"},
	{"a StorageVersion that does not name all", "internal/agreement/declared.go",
		"case len(live) == 0 || !slices.Equal(ids, live):", "case false:"},
	{"an epoch that is over", "migrate/epochs.go", "case !epoch.lasts(now):", "case false:"},
	{"an epoch that began again", "migrate/epochs.go", "case s.beganAgain(epoch, now):", "case false:"},
	{"a second pass that found another version", "migrate/verify.go", "case s.moved == 0:", "case true:"},
	{"a second pass where servers are hidden", "migrate/verify.go",
		"return s.state.Epoch.Evidence < Observed && s.options.MinEvidence == Verified", "return false"},
	{"a complete pass that is resumed", "migrate/verify.go",
		"return s.options.MinEvidence != Verified || evidence >= Observed", "return evidence > 0 || true"},
}

func TestNoRuleOfTheHeartCanBeTakenOutUnnoticed(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			file := filepath.Join(root, m.file)
			source, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(string(source), m.rule); n != 1 {
				t.Fatalf("%s has the rule %d times: %s", m.file, n, m.rule)
			}
			mutated, overlay := filepath.Join(t.TempDir(), "mutant.go"), filepath.Join(t.TempDir(), "overlay.json")
			written := []byte(strings.Replace(string(source), m.rule, m.mutant, 1))
			list, err := json.Marshal(map[string]any{"Replace": map[string]string{file: mutated}})
			if err != nil {
				t.Fatal(err)
			}
			for path, content := range map[string][]byte{mutated: written, overlay: list} {
				if err := os.WriteFile(path, content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			packages := "./" + strings.Split(m.file, "/")[0] + "/..."
			if strings.HasPrefix(m.file, "internal/") {
				packages = "./internal/agreement/..."
			}
			command := exec.CommandContext(t.Context(), "go", "test", "-overlay", overlay, "-vet=off", "-count=1", "-failfast",
				"-timeout=120s", packages)
			command.Dir = root
			out, err := command.CombinedOutput()
			switch {
			case err == nil:
				t.Error("no test notices it")
			case strings.Contains(string(out), "[build failed]"):
				t.Fatalf("it does not compile:\n%s", out)
			}
		})
	}
}
