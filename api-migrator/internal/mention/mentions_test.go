// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package mention

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/finding"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

func TestManyFilesThatSayTheSameAreOneFindingForEachFolder(t *testing.T) {
	t.Parallel()
	s := NewReader(&layout.Layout{Old: &project.Version{Group: "g", Version: "v1"}})
	seen := sightings{}
	for i := range 30 {
		seen.add(fmt.Sprintf("docs/%02d.md", i), mentionVersion, 7)
	}
	seen.add("docs/more/a.md", mentionVersion, 1)
	seen.add("docs/z.md", mentionVersion, 1)
	seen.add("docs/00.md", mentionWebhook, 3)
	want := []finding.Finding{
		{Where: "docs/00.md:3", Text: "is about a webhook of g/v1: the new version needs a path and an entry of its own"},
		{Where: "docs/00.md:7", Text: "names g/v1; so do 30 more files of its folder"},
		{Where: "docs/more/a.md:1", Text: "names g/v1"},
	}
	if diff := cmp.Diff(want, finding.Distinct(s.report(seen))); diff != "" {
		t.Errorf("findings (-want +got):\n%s", diff)
	}
}
