// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package printable

import (
	"bytes"
	"encoding/json"
	"strconv"
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

func TestNamesOfObjectsAreQuotedIfTheyAreOdd(t *testing.T) {
	t.Parallel()
	for want, o := range map[string][2]string{
		"default/a":              {"default", "a"},
		"system:a":               {"", "system:a"},
		"d/ünïcode":              {"d", "ünïcode"},
		`d/"a\u00a0b"`:           {"d", "a\u00a0b"},
		`d/"a b"`:                {"d", "a b"},
		`d/"a\"b"`:               {"d", `a"b`},
		`d/"\x1b[2J"`:            {"d", "\x1b[2J"},
		`d/"\u202eelif"`:         {"d", "\u202eelif"},
		`d/"a\xff"`:              {"d", "a\xff"},
		`"d\n"/a`:                {"d\n", "a"},
		strings.Repeat("x", 253): {"", strings.Repeat("x", 253)},
		`d/"` + strings.Repeat("x", 100) + `"… (1100 bytes)`:      {"d", strings.Repeat("x", 1100)},
		`d/"` + strings.Repeat(`\u00e9`, 50) + `"… (1001 bytes)`:  {"d", strings.Repeat("é", 500) + "x"},
		`d/"x` + strings.Repeat(`\u00e9`, 49) + `"… (1001 bytes)`: {"d", "x" + strings.Repeat("é", 500)},
	} {
		if got := Name(o[0], o[1]); got != want {
			t.Errorf("Name(%q, %.20q) = %s, want %s", o[0], o[1], got, want)
		}
	}
}

// Whatever a name is, it is shown in one bounded word, and what is not abridged tells which name it is.
func FuzzName(f *testing.F) {
	for _, name := range []string{"a", "a b", `"`, "a\x1b[2J", "a\u00a0", "\xff", strings.Repeat("世", 84), strings.Repeat("\x00", 300)} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got := Name("", name)
		if got != Text(got) || strings.ContainsAny(got, "\n\t") || len(got) > 700 {
			t.Errorf("%q is shown as %q", name, got)
		}
		back := got
		if strings.HasPrefix(got, `"`) {
			var err error
			if back, err = strconv.Unquote(got); err != nil && strings.HasSuffix(got, " bytes)") {
				return
			}
		}
		if back != name {
			t.Errorf("%q is shown as %s, which is %q", name, got, back)
		}
	})
}

func TestATextIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ got, want string }{
		{Cut("ééé", 3), "ééé"},
		{Cut("éééé", 3), "éé…"},
		{Prefix("ééé", 6), "ééé"},
		{Prefix("ééé", 5), "éé"},
		{Prefix("世界", 5), "世"},
		{Prefix("世界", 2), ""},
		{Prefix("\x80\x80\x80\x80\x80\x80", 5), "\x80\x80\x80\x80\x80"},
	} {
		if test.got != test.want {
			t.Errorf("%q, want %q", test.got, test.want)
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
