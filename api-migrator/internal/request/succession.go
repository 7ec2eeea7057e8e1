// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package request

import (
	"regexp"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/hint"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
)

var (
	groupName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$`)
	kindName  = regexp.MustCompile(`^[A-Z][A-Za-z0-9]{0,62}$`)
)

// Succeeds reports whether the request ends in another CRD.
func (r Request) Succeeds() bool {
	from, _, _ := strings.Cut(r.From, "/")
	to, _, _ := strings.Cut(r.To, "/")
	return from != to || r.ToKind != ""
}

// checkSuccession refuses another group or name of a kind that cannot be meant.
func (r Request) checkSuccession(versions []*project.Version) error {
	if !r.Succeeds() {
		return nil
	}
	group, _, _ := strings.Cut(r.To, "/")
	kinds := r.Kinds
	switch {
	case !groupName.MatchString(group):
		return hint.Errorf("api-migrator plan --to GROUP/VERSION",
			"%q is not a group: a group is a domain in lower case, such as cache.example.com", group)
	case r.ToKind != "" && len(r.Kinds) != 1:
		return hint.Errorf("api-migrator plan --kind KIND --to-kind NEWKIND",
			"--to-kind is the new name of one kind, and %d are named: %s", len(r.Kinds), strings.Join(r.Kinds, ", "))
	case r.ToKind != "" && !kindName.MatchString(r.ToKind):
		return hint.Errorf("api-migrator plan --to-kind NewKind",
			"%q is not the name of a kind: letters and digits, beginning with an upper-case letter", r.ToKind)
	case r.To == r.From && r.Old != OldKeep:
		return hint.Errorf("api-migrator plan --old keep",
			"with another name in the same version both kinds stand in one package, and the old one stays as it is: "+
				"--old %s does not go with it", r.Old)
	case r.ToKind == r.Kinds[0]:
		return hint.Errorf("api-migrator plan --to-kind NEWKIND", "%s is the kind's name already", r.ToKind)
	case r.Storage == StorageOld:
		return hint.Errorf("api-migrator plan --storage new",
			"another group or kind has a CRD of its own, which stores its only version: --storage old does "+
				"not go with it")
	case r.ToKind != "":
		kinds = []string{r.ToKind}
	}
	for _, v := range versions {
		if r.ToKind == "" && v.Name() == r.To {
			continue // checkExisting looks at it
		}
		for _, kind := range kinds {
			if _, ok := v.Kind(kind); ok && v.Group == group {
				return hint.Errorf(TryInspect, "%s has a kind %s already", v.Name(), kind)
			}
		}
	}
	return nil
}
