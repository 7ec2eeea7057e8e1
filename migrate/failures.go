// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/printable"
)

// Bounds of the recorded failures (I6). A checkpoint is written after every page, into a ConfigMap in the cluster. The
// failures have a share of it that no server can enlarge, neither with many objects nor with long messages.
const (
	maxFailures      = 1000
	maxFailuresBytes = 512 << 10 // as JSON
	maxMessageBytes  = 1 << 10
	// maxSavedKey bounds the key of an object that a checkpoint may contain, in bytes.
	maxSavedKey = 2 << 10
)

// Failure is one object that could not be rewritten.
type Failure struct {
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Abridged means that Namespace and Name are for people only, because together they had more than 2 KiB or were not
	// UTF-8. Then a long word ends with "…", and U+FFFD replaces bytes that are not UTF-8.
	Abridged bool   `json:"abridged,omitempty"`
	Reason   Reason `json:"reason"`
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

// failureOf is the only function that creates a Failure. API servers quote the name of an object in a message, in which
// a long one would leave no room for anything else.
func failureOf(o object, reason Reason, message string) *Failure {
	f := &Failure{
		Namespace: o.namespace, Name: o.name, ResourceVersion: o.resourceVersion, Generation: o.generation,
		Reason: reason, Message: cut(strings.ReplaceAll(message, strconv.Quote(o.name), printable.Quote(o.name))),
	}
	if !o.savable() {
		f.Namespace, f.Name, f.Abridged = abridged(o.namespace), abridged(o.name), true
	}
	return f
}

// savable reports whether a checkpoint may contain the key of an object: it is bounded (I6), and JSON does not change it.
func (o object) savable() bool {
	key := o.key()
	return len(key) <= maxSavedKey && utf8.ValidString(key)
}

// abridged returns a word in UTF-8, of which a checkpoint may contain two.
func abridged(word string) string {
	const end, most = "…", maxSavedKey/2 - 1
	if word = strings.ToValidUTF8(word, "\uFFFD"); len(word) > most {
		word = printable.Prefix(word, most-len(end)) + end
	}
	return word
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

// named reports whether an object can have that namespace and name, and a checkpoint may contain them.
func named(namespace, name string) bool {
	return apipath.Segment("name", name) == nil &&
		(namespace == "" || apipath.Segment("namespace", namespace) == nil) &&
		(object{namespace: namespace, name: name}).savable()
}

// forgetsFailed reports whether the checkpoint cannot tell a new process which objects have failed.
func (c *checkpoint) forgetsFailed() bool {
	return c.FailuresOmitted > 0 || slices.ContainsFunc(c.Failures, func(f Failure) bool { return f.Abridged })
}
