// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPROJECTListsAConversionWebhook(t *testing.T) {
	t.Parallel()
	const (
		before = "resources:\n- domain: example.com\n  group: widgets\n  kind: Widget\n  version: v1\n"
		hub    = "- domain: example.com\n  group: widgets\n  kind: Widget\n  version: v2\n"
	)
	for name, test := range map[string]struct {
		content, want string
		spokes        []string
		line          int
	}{
		"without webhooks": {
			content: before + hub + "version: \"3\"\n",
			want:    before + hub + "  webhooks:\n    conversion: true\n    webhookVersion: v1\nversion: \"3\"\n",
		},
		"with spokes": {
			content: before + hub, spokes: []string{"v1", "v1beta1"},
			want: before + hub + "  webhooks:\n    conversion: true\n    spoke:\n    - v1\n    - v1beta1\n    webhookVersion: v1\n",
		},
		"in the last line of a file, which lacks its end": {
			content: before + strings.TrimSuffix(hub, "\n"),
			want:    before + hub + "  webhooks:\n    conversion: true\n    webhookVersion: v1\n",
		},
		"with other webhooks": {
			content: before + hub + "  webhooks:\n    defaulting: true\n    webhookVersion: v1\n", spokes: []string{"v1"},
			want: before + hub + "  webhooks:\n    conversion: true\n    spoke:\n    - v1\n    defaulting: true\n    webhookVersion: v1\n",
		},
		"listed already":              {content: before + hub + "  webhooks:\n    conversion: true\n    webhookVersion: v1\n"},
		"without an entry of the hub": {content: before},
		"in braces":                   {content: before + hub + "  webhooks: {defaulting: true}\n", line: 6},
		"an entry in braces":          {content: "resources: [{domain: example.com, group: widgets, kind: Widget, version: v2}]\n", line: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			with, line, err := WithConversion([]byte(test.content), "Widget", "widgets.example.com", "v2", test.spokes)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(with)); diff != "" || line != test.line {
				t.Errorf("line %d, want %d; -want +got:\n%s", line, test.line, diff)
			}
		})
	}
}
