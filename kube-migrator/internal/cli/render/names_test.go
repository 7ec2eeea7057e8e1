// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/etcdaudit"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestAnObjectOfAnOddNameIsQuotedWithItsNamespace(t *testing.T) {
	t.Parallel()
	const namespace, name, want = "team-a", "reader\u00a0\x1b[2J", `team-a/"reader\u00a0\x1b[2J"`
	migration, progress := failed(), ProgressResource{Resource: "roles",
		Failures: []ProgressFailure{{Namespace: namespace, Name: name, Reason: "Rejected"}}}
	migration.Result.Failures = []migrate.Failure{{Namespace: namespace, Name: name, Reason: migrate.Rejected}}
	stale := func(format Format) func(*bytes.Buffer) error {
		return func(b *bytes.Buffer) error {
			return (&StaleList{Out: b, Format: format}).Add(etcdaudit.StaleObject{Resource: "roles", Namespace: namespace,
				Name: name})
		}
	}
	for of, write := range map[string]func(*bytes.Buffer) error{
		"migrate": func(b *bytes.Buffer) error {
			var text strings.Builder
			migration.failuresText(&text)
			_, err := b.WriteString(text.String())
			return err
		},
		"wait":                       func(b *bytes.Buffer) error { return progress.WriteFailure(b) },
		"audit, as a table":          stale(Table),
		"audit, the names of things": stale(Name),
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%s: %q (%v), want %s", of, &b, err, want)
		}
	}
}
