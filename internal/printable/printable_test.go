// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package printable

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestWhatIsNotPrintedIsEscaped(t *testing.T) {
	t.Parallel()
	for name, test := range map[string][2]string{
		"plain text stays":                        {"RESOURCE\tähnlich → 世界…\n", "RESOURCE\tähnlich → 世界…\n"},
		"an escape sequence":                      {"\x1b[2J\x1b]0;title\a", `\u001b[2J\u001b]0;title\u0007`},
		"a carriage return and a backspace":       {"safe\rnot\b", `safe\u000dnot\u0008`},
		"a control sequence introducer of C1":     {"\u009b31m", `\u009b31m`},
		"a change of direction":                   {"\u202eelif", `\u202eelif`},
		"an invisible tag beyond the basic plane": {"\U000e0041", `\udb40\udc41`},
		"bytes that are not of UTF-8":             {"a\xff\x9b", `a\xff\x9b`},
		"a delete":                                {"\x7f", `\u007f`},
		"a replacement character":                 {"�", "�"},
	} {
		if got := Text(test[0]); got != test[1] {
			t.Errorf("%s: %q, want %q", name, got, test[1])
		}
	}
}

func TestColorsOfVerdictsStay(t *testing.T) {
	t.Parallel()
	const text = "\x1b[32msafe now\x1b[0m \x1b[5mblink\x1b[2J \x1b[31;1mbold"
	if got, want := Colored(text), "\x1b[32msafe now\x1b[0m \\u001b[5mblink\\u001b[2J \\u001b[31;1mbold"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestJSONStaysJSON(t *testing.T) {
	t.Parallel()
	const text = "\u009b \u202e \U000e0041 \x7f \n \x1b"
	raw, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	var back string
	if err := json.Unmarshal([]byte(Text(string(raw))), &back); err != nil || back != text {
		t.Errorf("%q (%v), want %q", back, err, text)
	}
}

// However text is cut into writes, what arrives is printable, and the same as of one write.
func FuzzWriter(f *testing.F) {
	f.Add([]byte("世界\x1b[2J"), uint8(1))
	f.Add([]byte("\xf0\x9f\x98\x80\xf0\x9f"), uint8(2))
	f.Fuzz(func(t *testing.T, text []byte, size uint8) {
		var whole, parts bytes.Buffer
		if n, err := NewWriter(&whole).Write(text); n != len(text) || err != nil {
			t.Fatal(n, err)
		}
		w := NewWriter(&parts)
		for rest := text; len(rest) > 0; {
			n := min(int(size)%7+1, len(rest))
			if _, err := w.Write(rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if whole.String() != parts.String() {
			t.Errorf("in one write %q, in several %q", &whole, &parts)
		}
		bad := func(r rune) bool {
			return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
		}
		if got := whole.String(); !utf8.ValidString(got) || strings.ContainsFunc(got, bad) {
			t.Errorf("%q reaches the terminal", got)
		}
	})
}
