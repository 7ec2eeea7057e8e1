// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crdupgrade

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
)

// Loss is a field that is in the schema of a version and not in that of the new storage version. Without a conversion
// webhook, the API server converts objects by changing their apiVersion, and drops the fields that the schema does not
// have.
type Loss struct {
	Version string `json:"version"`
	// Field is the path of the field, such as spec.rules[].name.
	Field string `json:"field"`
	// Objects is how many objects have the field according to their managedFields; values are not read (I9).
	Objects int64 `json:"objects"`
	// Possibly is how many other objects may have the field: they have no managedFields, or their managedFields contain
	// a field above it without the fields in it.
	Possibly int64 `json:"possibly,omitempty"`

	path pruning.Path
}

func (l Loss) String() string {
	switch {
	case l.Possibly == 0:
		return fmt.Sprintf("%s of %s (%s)", l.Field, l.Version, phrase.Objects(l.Objects))
	case l.Objects == 0:
		return fmt.Sprintf("%s of %s (at most %s)", l.Field, l.Version, phrase.Objects(l.Possibly))
	}
	return fmt.Sprintf("%s of %s (%d to %s)", l.Field, l.Version, l.Objects, phrase.Objects(l.Objects+l.Possibly))
}

// Losses returns the fields that the upgrade would drop from stored objects, without counts. It is pure.
//
// Objects are rewritten under the CRD in the file, or under the intermediate one, which has the same versions and those
// that are kept. So an object passes the file's schema of the version in which it is stored, and that of the storage
// version. If a webhook converts it in between, the second one drops nothing that the webhook could have moved.
func Losses(next *CRD, f Facts) (losses []Loss) {
	if len(Removed(next, f.Live)) == 0 && f.Live.StorageVersion() == next.StorageVersion() && !losesWebhook(next, f) {
		return nil // nothing is rewritten
	}
	webhook, to := conversionOf(next, f.Live).manifest.Webhook, next.schema(next.StorageVersion())
	for _, version := range f.Stored() {
		from := f.Live.schema(version)
		if from == nil {
			continue // the rule stranded refuses it, or only the file has it
		}
		stations := []*pruning.Schema{next.schema(version)}
		if version != next.StorageVersion() && (!webhook || from.NarrowsTo(to)) {
			stations = append(stations, to)
		}
		known := map[string]bool{}
		for _, station := range stations {
			if station == nil {
				continue
			}
			for _, l := range from.Lost(station) {
				if field := l.Path.String(); !known[field] {
					known[field] = true
					losses = append(losses, Loss{Version: version, Field: field, path: l.Path})
				}
			}
		}
	}
	return losses
}

// schema returns the schema of a version, or nil if the CRD does not have it.
func (c *CRD) schema(version string) *pruning.Schema {
	for _, v := range c.manifest.Versions {
		if v.Name == version {
			return v.Schema
		}
	}
	return nil
}

// lossy returns the versions that lose fields.
func lossy(losses []Loss) (versions []string) {
	for _, l := range losses {
		if l.Objects+l.Possibly > 0 && !slices.Contains(versions, l.Version) {
			versions = append(versions, l.Version)
		}
	}
	return versions
}

// lost returns, for users, the first few fields that are lost. Those of most objects come first.
func lost(losses []Loss, objects int64) string {
	const shown = 5
	if len(losses) == 0 {
		return fmt.Sprintf("%s would keep every field, if it means the same", phrase.Objects(objects))
	}
	sorted := slices.Clone(losses)
	slices.SortStableFunc(sorted, func(a, b Loss) int { return int(b.Objects + b.Possibly - a.Objects - a.Possibly) })
	var words []string
	for _, l := range sorted[:min(shown, len(sorted))] {
		words = append(words, l.String())
	}
	if more := len(sorted) - shown; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return "lost: " + strings.Join(words, ", ")
}

// add counts one object: the versions that its managedFields name, and the fields that it would lose.
func (f *Found) add(group string, entries []metav1.ManagedFieldsEntry) {
	f.Objects++
	versions := map[string]bool{}
	var owned []map[string]any
	for _, e := range entries {
		if version, ok := strings.CutPrefix(e.APIVersion, group+"/"); ok && !versions[version] {
			versions[version] = true
			f.Naming[version]++
		}
		if len(f.Losses) == 0 || e.FieldsV1 == nil {
			continue
		}
		var fields map[string]any
		if json.Unmarshal([]byte(e.FieldsV1.GetRawString()), &fields) == nil {
			owned = append(owned, fields)
		}
	}
	for i := range f.Losses {
		best := absent
		if len(owned) == 0 {
			best = possible // managedFields show nothing
		}
		for _, fields := range owned {
			best = max(best, find(fields, f.Losses[i].path))
		}
		switch best {
		case present:
			f.Losses[i].Objects++
		case possible:
			f.Losses[i].Possibly++
		case absent:
		}
	}
}

// presence is what managedFields show about a field.
type presence int

const (
	absent presence = iota
	possible
	present
)

// find looks for a field in a set of owned fields, in the format FieldsV1.
func find(fields map[string]any, path pruning.Path) presence {
	if len(path) == 0 {
		return present
	}
	inner := false // whether a field below this one has an entry of its own
	best := absent
	for key, value := range fields {
		if key == "." {
			continue
		}
		inner = true
		below, _ := value.(map[string]any)
		switch {
		case path[0] == pruning.Each && !strings.HasPrefix(key, "f:"),
			path[0] == pruning.Any && strings.HasPrefix(key, "f:"),
			key == "f:"+path[0]:
			best = max(best, find(below, path[1:]))
		}
	}
	if !inner {
		return possible // the value is owned as a whole
	}
	return best
}
