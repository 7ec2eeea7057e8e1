// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestARecordingHasEveryLineOfTheOutput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "demo.svg")
	err := run(t.Context(), []string{"--output", path, "--title", "a <title>", "sh", "-c",
		`echo '1. A start'; echo '$ cat ` + os.TempDir() + `/file <a&b>'; printf '%0140d\n' 7 >&2`})
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for decoder := xml.NewDecoder(strings.NewReader(string(content))); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v in\n%s", err, content)
		}
		if data, ok := token.(xml.CharData); ok && strings.TrimSpace(string(data)) != "" {
			texts = append(texts, strings.ReplaceAll(string(data), "\u00a0", " "))
		}
	}
	want := []string{"a <title>", "1. A start", "$ cat … <a&b>", strings.Repeat("0", 132), "00000007"}
	if strings.Join(texts, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", texts, want)
	}
}

func TestACommandThatFailsLeavesNoRecording(t *testing.T) {
	path := filepath.Join(t.TempDir(), "demo.svg")
	err := run(t.Context(), []string{"--output", path, "--title", "x", "sh", "-c", "echo begun; exit 3"})
	if _, missing := os.Stat(path); err == nil || !os.IsNotExist(missing) {
		t.Errorf("got %v, %v", err, missing)
	}
}

func TestTheNewestLineIsTheLastInTheTerminal(t *testing.T) {
	got := scroll([]time.Duration{time.Second, time.Second, 3 * time.Second})
	for _, want := range []string{`values="0 612;0 578;0 561"`, `keyTimes="0;0.2381;0.7143"`, `dur="4.2s"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s lacks %s", got, want)
		}
	}
}
