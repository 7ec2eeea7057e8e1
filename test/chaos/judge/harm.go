// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"fmt"
	"slices"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/internal/testbed/content"
)

// harm judges the change of one object, and applies it (I3).
func (j *Judge) harm(r *resource, c Change) (violations []string) {
	before, was := r.objects[c.Key]
	if c.Value == nil {
		if r.drop(c.Key); was && !j.world.Deletes(c.Key) {
			violations = append(violations, fmt.Sprintf("I3 violated: %s was deleted, and no one has announced that",
				c.Key))
		}
		return violations
	}
	value, err := testbed.ReadValue(c.Value)
	if err != nil {
		violations = append(violations, fmt.Sprintf("I3 violated: %s cannot be decoded: %v", c.Key, err))
	}
	now := object{value, c.Value, c.Revision}
	switch {
	case !was && r.known[c.Key]:
		violations = append(violations, fmt.Sprintf("I3 violated: %s was deleted and came back", c.Key))
	case !was && !j.world.Creates(c.Key):
		violations = append(violations, fmt.Sprintf("I3 violated: %s was created, and no one has announced that",
			c.Key))
	case was:
		violations = append(violations, j.changed(r, c.Key, before, now)...)
	}
	r.put(c.Key, now)
	return violations
}

// changed judges the difference between two values of one object.
func (j *Judge) changed(r *resource, key string, before, now object) (violations []string) {
	stamped := before.Annotations[Stamp] != now.Annotations[Stamp]
	changed := before.Differences(now.Object)
	if slices.Contains(changed, "uid") || len(changed) > 0 && !stamped {
		lost := content.Lost(before.raw, now.raw)
		if len(lost) > 0 && slices.Equal(changed, []string{"content"}) && j.world.Settling(r.kind) {
			j.Raced++
			return nil
		}
		violations = append(violations, fmt.Sprintf("I3 violated: %v of %s changed, stamped %q before and %q now; "+
			"lost are %v", changed, key, before.Annotations[Stamp], now.Annotations[Stamp], lost))
	}
	if len(changed) == 0 && !stamped {
		j.Rewritten++
	}
	return violations
}
