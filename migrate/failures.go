// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
)

// Bounds of the recorded failures (I6). A checkpoint is written after every page, into a ConfigMap in the cluster. The
// failures have a share of it that no server can enlarge, neither with many objects nor with long messages.
const (
	maxFailures      = 1000
	maxFailuresBytes = 512 << 10 // as JSON
	maxMessageBytes  = 1 << 10
)

// Failure is one object that could not be rewritten.
type Failure struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Reason    Reason `json:"reason"`
	// Message has at most 1 KiB; a truncated message says so.
	Message string `json:"message"`
	// ResourceVersion and Generation are those of the object in the list.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Generation      int64  `json:"generation,omitempty"`
}

func (f Failure) object() object {
	return object{namespace: f.Namespace, name: f.Name, resourceVersion: f.ResourceVersion, generation: f.Generation}
}

// mayPass reports whether an object failed after all attempts that may help. A run of such failures is no progress.
func (f Failure) mayPass() bool { return f.Reason == Unreachable || f.Reason == ServerError }

// failureOf is the only function that creates a Failure.
func failureOf(o object, reason Reason, message string) *Failure {
	return &Failure{
		Namespace: o.namespace, Name: o.name, ResourceVersion: o.resourceVersion, Generation: o.generation,
		Reason: reason, Message: cut(message),
	}
}

// cut bounds a message and makes it printable, because an API server or a webhook wrote it.
func cut(message string) string {
	whole := len(message)
	if whole > maxMessageBytes {
		note := fmt.Sprintf("… (cut, it had %d bytes)", whole)
		end := maxMessageBytes - len(note)
		for end > 0 && !utf8.RuneStart(message[end]) {
			end--
		}
		message = message[:end] + note
	}
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, message)
}

// fail records failures by name as long as there is room, and counts the others.
func (c *checkpoint) fail(failures []Failure) {
	if len(failures) == 0 {
		return
	}
	size := 0
	for _, f := range c.Failures {
		size += sizeOf(f)
	}
	for _, f := range failures {
		n := sizeOf(f)
		if len(c.Failures) == maxFailures || size+n > maxFailuresBytes {
			c.FailuresOmitted++
			continue
		}
		c.Failures = append(c.Failures, f)
		size += n
	}
}

// sizeOf returns how many bytes a failure takes in a checkpoint, including the comma after it.
func sizeOf(f Failure) int {
	raw, err := json.Marshal(f)
	if err != nil {
		return maxFailuresBytes // it cannot be written, so there is no room for it
	}
	return len(raw) + 1
}

// bound limits a checkpoint that was read, because an older release may have written it. A failure with an invalid name
// is only counted, which makes the next pass list it again. A witness with an invalid name is dropped, and proves
// nothing.
func (c *checkpoint) bound() {
	c.Witnesses = slices.DeleteFunc(c.Witnesses, func(w witness) bool { return !named(w.Namespace, w.Name) })
	c.Witnesses = c.Witnesses[max(0, len(c.Witnesses)-maxWitnesses):]
	failures := c.Failures
	c.Failures = nil
	var kept []Failure
	for _, f := range failures {
		if !named(f.Namespace, f.Name) || len(f.ResourceVersion) > maxVersionBytes {
			c.FailuresOmitted++
			continue
		}
		f.Message = cut(f.Message)
		kept = append(kept, f)
	}
	c.fail(kept)
}

// named reports whether an object can have that namespace and name.
func named(namespace, name string) bool {
	return apipath.Segment("name", name) == nil && (namespace == "" || apipath.Segment("namespace", namespace) == nil)
}
