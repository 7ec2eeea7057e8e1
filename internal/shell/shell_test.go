// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package shell

import (
	"os/exec"
	"testing"
)

func TestAShellReadsAQuotedWordAsItIs(t *testing.T) {
	for _, word := range []string{"", "widgets", "--flag=a,b", "two words", "it's", "$HOME", "`id`", "a;b", "~", "!!", "a\nb",
		"jsonpath={.spec}", "é", "#", "\\"} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", "set -- "+Quote(word)+`; printf '%s %s' $# "$1"`).Output()
		if want := "1 " + word; err != nil || string(out) != want {
			t.Errorf("%q as %s: a shell reads %q, want %q (%v)", word, Quote(word), out, want, err)
		}
	}
}

func TestAPlainWordStaysAsItIs(t *testing.T) {
	for _, word := range []string{"widgets.demo.example.com", "--settle-time=2m", "/a/b-c_d", "a@b:1,2%+"} {
		if got := Quote(word); got != word {
			t.Errorf("%s is quoted as %s", word, got)
		}
	}
}
