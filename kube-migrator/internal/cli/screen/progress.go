// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package screen

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/term"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/printable"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
)

// Progress shows the progress of a cluster repeatedly. On a terminal it overwrites what it showed before, elsewhere it
// writes what has changed.
type Progress struct {
	Out io.Writer
	// Terminal is Out if that is a terminal, else nil.
	Terminal *os.File
	Format   render.Format

	lines int
	last  map[string]string
}

// Show shows the current progress.
func (s *Progress) Show(p render.Progress) error {
	style, width := Style(s.Terminal)
	if width == 0 {
		return s.log(p)
	}
	var b bytes.Buffer
	if s.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", s.lines)
	}
	begin := b.Len()
	if height := height(s.Terminal); p.Unfinished() && height > 0 && len(p.Resources)+4 > height {
		p = workFirst(p)
	}
	if err := p.Write(&b, s.Format, style); err != nil {
		return err
	}
	if p.Unfinished() { // otherwise End shows the complete result
		text := clip(b.Bytes()[begin:], width, height(s.Terminal))
		b.Truncate(begin)
		b.Write(text)
	}
	text := printable.Colored(string(b.Bytes()[begin:]))
	s.lines = rowsOf([]byte(text), width)
	_, err := s.Terminal.WriteString(string(b.Bytes()[:begin]) + text)
	return err
}

// height returns the number of rows of a terminal, or 0 if it is unknown.
func height(terminal *os.File) int {
	if terminal == nil {
		return 0
	}
	_, height, err := term.GetSize(int(terminal.Fd()))
	if err != nil {
		return 0
	}
	return height
}

// wideEnough is the number of columns that a terminal needs for bars.
const wideEnough = 110

// Style returns how progress is shown on a terminal, which is nil if there is none, and the width of the terminal or 0.
func Style(terminal *os.File) (style render.ProgressStyle, width int) {
	if terminal == nil {
		return style, 0
	}
	width, _, err := term.GetSize(int(terminal.Fd()))
	if err != nil {
		width = 80
	}
	return render.ProgressStyle{Bars: width >= wideEnough, Colors: os.Getenv("NO_COLOR") == ""}, width
}

// workFirst sorts migrations that are running before those that wait or have ended, because a terminal may have fewer
// rows than there are resources.
func workFirst(p render.Progress) render.Progress {
	rank := func(r render.ProgressResource) int {
		switch {
		case r.Unfinished && (r.Status == string(v1alpha1.PhaseRunning) || r.Status == string(v1alpha1.PhaseWaiting)):
			return 0
		case r.Run == upgrade.HasFailed:
			return 1
		case r.Unfinished:
			return 2
		}
		return 3
	}
	p.Resources = slices.Clone(p.Resources)
	slices.SortStableFunc(p.Resources, func(a, b render.ProgressResource) int { return cmp.Compare(rank(a), rank(b)) })
	return p
}

// clip removes lines from the middle of a text until it fits on a terminal of the given height, where it can be
// overwritten. It keeps the first lines and the last one.
func clip(text []byte, width, height int) []byte {
	if height < 4 || rowsOf(text, width) < height {
		return text
	}
	lines := bytes.SplitAfter(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	last := append(slices.Clone(lines[len(lines)-1]), '\n')
	room := height - 2 - rowsOf(last, width) // one row for the dots, and one for the cursor
	var clipped []byte
	for _, line := range lines[:len(lines)-1] {
		if room -= rowsOf(line, width); room < 0 {
			break
		}
		clipped = append(clipped, line...)
	}
	return append(append(clipped, "…\n"...), last...)
}

// rowsOf returns how many rows a text takes on a terminal that folds long lines. It counts escape sequences as text: a
// colored sentence is so short that this does not matter.
func rowsOf(text []byte, width int) (rows int) {
	for line := range bytes.Lines(text) {
		rows += 1 + max(0, len(bytes.Runes(bytes.TrimRight(line, "\n")))-1)/max(width, 1)
	}
	return rows
}

func (s *Progress) log(p render.Progress) error {
	if s.last == nil {
		s.last = map[string]string{}
	}
	for _, r := range p.Resources {
		line := r.Line()
		if r.Unlisted {
			continue
		}
		if s.last[r.Resource] == line {
			continue
		}
		s.last[r.Resource] = line
		if _, err := fmt.Fprintln(s.Out, line); err != nil {
			return fmt.Errorf("write progress: %w", err)
		}
	}
	return nil
}

// End shows the result, unless the terminal already shows it.
func (s *Progress) End(p render.Progress) error {
	if _, width := Style(s.Terminal); width > 0 {
		return nil
	}
	return p.Write(s.Out, s.Format, render.ProgressStyle{})
}
