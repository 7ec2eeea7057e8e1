// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// Tabulate writes a table as kubectl does: upper-case headers, columns three spaces apart, no lines, no spaces at
// the ends of lines. Control characters in a cell become spaces: cells carry what API servers and webhooks say.
// An empty cell is "-".
func Tabulate(w io.Writer, header []string, rows [][]string) error {
	trimmed := &trimmer{w: bufio.NewWriter(w)}
	tw := tabwriter.NewWriter(trimmed, 0, 8, 3, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = clean(cell)
		}
		if _, err := fmt.Fprintln(tw, strings.Join(cells, "\t")); err != nil {
			return fmt.Errorf("write table: %w", err)
		}
	}
	if err := tw.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	if err := trimmed.w.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

func clean(cell string) string {
	cell = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, cell))
	if cell == "" {
		return "-"
	}
	return cell
}

// trimmer drops the spaces with which the tabwriter pads the last column.
type trimmer struct {
	w      *bufio.Writer
	spaces int
}

func (t *trimmer) Write(p []byte) (int, error) {
	for _, b := range p {
		if b == ' ' {
			t.spaces++
			continue
		}
		if b != '\n' {
			for range t.spaces {
				t.w.WriteByte(' ') //nolint:errcheck // a bufio.Writer keeps its error for Flush
			}
		}
		t.spaces = 0
		t.w.WriteByte(b) //nolint:errcheck // a bufio.Writer keeps its error for Flush
	}
	return len(p), nil
}

// Count is a number of objects for users: "9,999".
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Duration is a length of time for users, in at most two units: "<1s", "42s", "3m20s", "2h10m", "3d4h".
func Duration(d time.Duration) string {
	const day = 24 * time.Hour
	units := []struct {
		size time.Duration
		name string
	}{{day, "d"}, {time.Hour, "h"}, {time.Minute, "m"}, {time.Second, "s"}}
	switch {
	case d <= 0:
		return "0s"
	case d < time.Second:
		return "<1s"
	}
	d = d.Round(time.Second)
	for i, u := range units[:len(units)-1] {
		if next := units[i+1]; d >= u.size {
			d = d.Round(next.size)
			text := fmt.Sprintf("%d%s", d/u.size, u.name)
			if rest := d % u.size / next.size; rest > 0 {
				text += fmt.Sprintf("%d%s", rest, next.name)
			}
			return text
		}
	}
	return fmt.Sprintf("%ds", d/time.Second)
}
