// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The condition that Kubernetes sets, with its reasons and messages. Source:
// https://github.com/kubernetes/kubernetes/blob/v1.37.0/staging/src/k8s.io/apiserver/pkg/storageversion/updater.go
const (
	allEncodingVersionsEqual = "AllEncodingVersionsEqual"
	reasonSet, messageSet    = "CommonEncodingVersionSet", "Common encoding version set"
	reasonUnset              = "CommonEncodingVersionUnset"
	messageUnset             = "Common encoding version unset"
)

// object is a StorageVersion of either API.
type object struct {
	metav1.TypeMeta `json:",inline"`
	Metadata        metadata `json:"metadata"`
	Spec            struct{} `json:"spec"`
	Status          status   `json:"status,omitzero"`
}

// metadata is all that an update of the status has to name.
type metadata struct {
	Name            string `json:"name"`
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	Generation      int64  `json:"generation,omitempty"`
}

type status struct {
	StorageVersions       []entry     `json:"storageVersions,omitempty"`
	CommonEncodingVersion *string     `json:"commonEncodingVersion,omitempty"`
	Conditions            []condition `json:"conditions,omitempty"`
}

// entry is what one server publishes.
type entry struct {
	entryFields
	raw json.RawMessage // as it was read: another server may have written fields that this code does not know
}

type entryFields struct {
	APIServerID       string   `json:"apiServerID"`
	EncodingVersion   string   `json:"encodingVersion"`
	DecodableVersions []string `json:"decodableVersions,omitempty"`
	ServedVersions    []string `json:"servedVersions,omitempty"`
}

func (e *entry) UnmarshalJSON(raw []byte) error {
	e.raw = bytes.Clone(raw)
	return json.Unmarshal(raw, &e.entryFields)
}

func (e entry) MarshalJSON() ([]byte, error) {
	if e.raw != nil {
		return e.raw, nil
	}
	return json.Marshal(e.entryFields)
}

func (e *entryFields) equal(other *entryFields) bool {
	return e.APIServerID == other.APIServerID && e.EncodingVersion == other.EncodingVersion &&
		slices.Equal(e.DecodableVersions, other.DecodableVersions) &&
		slices.Equal(e.ServedVersions, other.ServedVersions)
}

type condition struct {
	conditionFields
	raw json.RawMessage
}

type conditionFields struct {
	Type               string                 `json:"type"`
	Status             metav1.ConditionStatus `json:"status"`
	ObservedGeneration int64                  `json:"observedGeneration,omitempty"`
	// LastUpdateTime is a field of our API alone.
	LastUpdateTime     *metav1.Time `json:"lastUpdateTime,omitempty"`
	LastTransitionTime metav1.Time  `json:"lastTransitionTime,omitzero"`
	Reason             string       `json:"reason"`
	Message            string       `json:"message"`
}

func (c *condition) UnmarshalJSON(raw []byte) error {
	c.raw = bytes.Clone(raw)
	return json.Unmarshal(raw, &c.conditionFields)
}

func (c condition) MarshalJSON() ([]byte, error) {
	if c.raw != nil {
		return c.raw, nil
	}
	return json.Marshal(c.conditionFields)
}

// find returns a server's entry, or nil.
func (s *status) find(server string) *entry {
	i := slices.IndexFunc(s.StorageVersions, func(e entry) bool { return e.APIServerID == server })
	if i < 0 {
		return nil
	}
	return &s.StorageVersions[i]
}

// publishes reports whether an object shows exactly that entry of a server, and once.
func (s *status) publishes(own *entryFields) bool {
	found := s.find(own.APIServerID)
	return found != nil && found.equal(own)
}

// servers are those that have entries, without one of them.
func (s *status) servers(but string) []string {
	var ids []string
	for _, e := range s.StorageVersions {
		if e.APIServerID != but {
			ids = append(ids, e.APIServerID)
		}
	}
	return ids
}

// edit is what is to be written about one object. It is pure.
type edit struct {
	own  *entryFields // nil withdraws the entry of server
	id   string       // of the server
	gone []string     // servers that are not members
	// updateTimes are written where the API has them.
	updateTimes bool
	// touch changes the object even where it is as it should be.
	touch bool
	now   time.Time
}

// apply returns the status to write, and whether it differs from the one that was read.
func (e edit) apply(read object) (next status, changed bool) {
	next.Conditions = slices.Clone(read.Status.Conditions)
	written := false
	for _, have := range read.Status.StorageVersions {
		switch {
		case have.APIServerID == e.id && (e.own == nil || written):
			changed = true
		case have.APIServerID == e.id:
			written = true
			if !have.equal(e.own) {
				have, changed = entry{entryFields: *e.own}, true
			}
			next.StorageVersions = append(next.StorageVersions, have)
		case slices.Contains(e.gone, have.APIServerID):
			changed = true
		default:
			next.StorageVersions = append(next.StorageVersions, have)
		}
	}
	if e.own != nil && !written {
		next.StorageVersions, changed = append(next.StorageVersions, entry{entryFields: *e.own}), true
	}
	next.CommonEncodingVersion = next.common()
	old := read.Status.CommonEncodingVersion
	if (old == nil) != (next.CommonEncodingVersion == nil) || old != nil && *old != *next.CommonEncodingVersion {
		changed = true
	}
	return next, e.judge(&next, read, changed) || changed
}

// common is the version in which all entries encode; nil while they differ or there are none.
func (s *status) common() *string {
	if len(s.StorageVersions) == 0 {
		return nil
	}
	version := s.StorageVersions[0].EncodingVersion
	for _, e := range s.StorageVersions {
		if e.EncodingVersion != version {
			return nil
		}
	}
	return &version
}

// judge sets the condition. Its transition time moves when its status changes, and when one common version follows
// another.
func (e edit) judge(next *status, read object, changed bool) bool {
	want := conditionFields{
		Type: allEncodingVersionsEqual, Status: metav1.ConditionFalse, ObservedGeneration: read.Metadata.Generation,
		LastTransitionTime: metav1.NewTime(e.now), Reason: reasonUnset, Message: messageUnset,
	}
	if next.CommonEncodingVersion != nil {
		want.Status, want.Reason, want.Message = metav1.ConditionTrue, reasonSet, messageSet
	}
	if e.updateTimes {
		now := metav1.NewTime(e.now)
		want.LastUpdateTime = &now
	}
	i := slices.IndexFunc(next.Conditions, func(c condition) bool { return c.Type == allEncodingVersionsEqual })
	if i < 0 {
		next.Conditions = append(next.Conditions, condition{conditionFields: want})
		return true
	}
	have := next.Conditions[i]
	was := read.Status.CommonEncodingVersion
	another := was != nil && next.CommonEncodingVersion != nil && *was != *next.CommonEncodingVersion
	if have.Status == want.Status && !another {
		want.LastTransitionTime = have.LastTransitionTime
	}
	same := have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message &&
		have.ObservedGeneration == want.ObservedGeneration && have.LastTransitionTime.Equal(&want.LastTransitionTime)
	if same && !(e.touch && e.updateTimes && !changed) {
		return false
	}
	next.Conditions[i] = condition{conditionFields: want}
	return true
}
