// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package printable keeps text that others chose, such as names, messages of webhooks and answers of API servers, from
// doing anything to a terminal but being shown: escape sequences move the cursor, change what was written before, and
// on some terminals type commands.
package printable

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Text returns text in which every character that a terminal would not just show is escaped as in JSON: ESC becomes
// \u001b. Line feeds and tabs stay, and so JSON stays JSON. A byte that is not of UTF-8 becomes \x and two digits.
func Text(text string) string {
	if !strings.ContainsFunc(text, escaped) && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, text[0])
		case !escaped(r):
			b.WriteString(text[:size])
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		text = text[size:]
	}
	return b.String()
}

// Quote returns one word of others in quotes, in ASCII and cut off after 100 bytes, for a message about a word that is
// not what it should be.
func Quote(word string) string {
	const most = 100
	if len(word) > most {
		return fmt.Sprintf("%+q… (%d bytes)", Prefix(word, most), len(word))
	}
	return fmt.Sprintf("%+q", word)
}

// Prefix returns as many characters of a text as have at most a number of bytes.
func Prefix(text string, bytes int) string {
	if len(text) <= bytes {
		return text
	}
	for back := range min(bytes+1, utf8.UTFMax) { // text that is not UTF-8 is cut anywhere
		if utf8.RuneStart(text[bytes-back]) {
			return text[:bytes-back]
		}
	}
	return text[:bytes]
}

// Cut shortens a text to a number of characters; the last one is then an ellipsis.
func Cut(text string, characters int) string {
	if runes := []rune(text); len(runes) > characters {
		return string(runes[:characters-1]) + "…"
	}
	return text
}

// Name names an object for users: namespace/name, or the name alone if the namespace is empty. The API server accepts
// every name of a Role or a RoleBinding that is one path segment. A word that is longer than the 253 bytes of most
// names, or has a space, a quote or a character that is not just shown, is returned as Quote returns it.
func Name(namespace, name string) string {
	if namespace == "" {
		return plain(name)
	}
	return plain(namespace) + "/" + plain(name)
}

func plain(word string) string {
	const most = 253
	odd := func(r rune) bool { return r == ' ' || r == '"' || !unicode.IsPrint(r) }
	if len(word) > most || !utf8.ValidString(word) || strings.ContainsFunc(word, odd) {
		return Quote(word)
	}
	return word
}

// colors are the sequences with which verdicts are shown in a color.
var colors = regexp.MustCompile("\x1b\\[(0|31|32|33)m")

// Colored is Text, but leaves red, green, yellow and the end of a color in place: they change nothing but how the same
// text looks.
func Colored(text string) string {
	var b strings.Builder
	last := 0
	for _, at := range colors.FindAllStringIndex(text, -1) {
		b.WriteString(Text(text[last:at[0]]))
		b.WriteString(text[at[0]:at[1]])
		last = at[1]
	}
	b.WriteString(Text(text[last:]))
	return b.String()
}

// escaped tells of control characters, and of those that change the direction or the looks of others, that they are not
// printed.
func escaped(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsPrint(r) }

// writer passes on what Text makes of what is written.
type writer struct {
	w  io.Writer
	mu sync.Mutex
	// rest is the beginning of a character whose other bytes come with the next write.
	rest []byte
}

// NewWriter returns a writer that writes Text of everything to w. Writes at one time come one after the other.
func NewWriter(w io.Writer) io.Writer { return &writer{w: w} }

func (p *writer) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := append(p.rest, b...)
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if start := len(text) - back; utf8.RuneStart(text[start]) {
			if !utf8.FullRune(text[start:]) {
				whole = start
			}
			break
		}
	}
	p.rest = append([]byte(nil), text[whole:]...)
	if _, err := io.WriteString(p.w, Text(string(text[:whole]))); err != nil {
		return 0, err
	}
	return len(b), nil
}
