// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package snapshot

import (
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/migrate"
)

// fields are those of a Snapshot, without its methods.
type fields Snapshot

// written is a Snapshot in JSON, whose keys and errors are text.
type written struct {
	*fields
	CRDs, StorageVersions                            map[string]json.RawMessage `json:",omitempty"`
	Services, ServicesAfter, Inquiries, AbsentBehind map[string]json.RawMessage `json:",omitempty"`
	Failed                                           map[string]*failure        `json:",omitempty"`
}

// MarshalJSON writes everything but the monotonic readings of times.
func (s Snapshot) MarshalJSON() ([]byte, error) {
	w := written{fields: (*fields)(&s)}
	err := errors.Join(
		keysTo(&w.CRDs, s.CRDs), keysTo(&w.StorageVersions, s.StorageVersions), keysTo(&w.Services, s.Services),
		keysTo(&w.ServicesAfter, s.ServicesAfter), keysTo(&w.Inquiries, s.Inquiries),
		keysTo(&w.AbsentBehind, s.AbsentBehind))
	if err != nil {
		return nil, err
	}
	for r, e := range s.Failed {
		if w.Failed == nil {
			w.Failed = map[string]*failure{}
		}
		w.Failed[r.String()] = failureOf(e)
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads what MarshalJSON has written.
func (s *Snapshot) UnmarshalJSON(raw []byte) error {
	w := written{fields: (*fields)(s)}
	if err := json.Unmarshal(raw, &w); err != nil {
		return err
	}
	err := errors.Join(
		keysFrom(w.CRDs, &s.CRDs, resourceOf), keysFrom(w.StorageVersions, &s.StorageVersions, resourceOf),
		keysFrom(w.Services, &s.Services, schema.ParseGroupVersion),
		keysFrom(w.ServicesAfter, &s.ServicesAfter, schema.ParseGroupVersion),
		keysFrom(w.Inquiries, &s.Inquiries, schema.ParseGroupVersion),
		keysFrom(w.AbsentBehind, &s.AbsentBehind, schema.ParseGroupVersion))
	for key, f := range w.Failed {
		if s.Failed == nil {
			s.Failed = map[schema.GroupResource]error{}
		}
		s.Failed[schema.ParseGroupResource(key)] = f.error()
	}
	return err
}

func resourceOf(text string) (schema.GroupResource, error) {
	return schema.ParseGroupResource(text), nil
}

func keysTo[K interface {
	comparable
	fmt.Stringer
}, V any](to *map[string]json.RawMessage, from map[K]V) error {
	for key, value := range from {
		raw, err := json.Marshal(value)
		if err != nil {
			return err
		}
		if *to == nil {
			*to = map[string]json.RawMessage{}
		}
		(*to)[key.String()] = raw
	}
	return nil
}

func keysFrom[K comparable, V any](from map[string]json.RawMessage, to *map[K]V, parse func(string) (K, error)) error {
	for text, raw := range from {
		key, err := parse(text)
		if err != nil {
			return err
		}
		var value V
		if err := json.Unmarshal(raw, &value); err != nil {
			return fmt.Errorf("%s: %w", text, err)
		}
		if *to == nil {
			*to = map[K]V{}
		}
		(*to)[key] = value
	}
	return nil
}

// MarshalJSON writes the error as text, with what the verdict depends on.
func (i Inquiry) MarshalJSON() ([]byte, error) {
	return json.Marshal(inquiry{i.Surveys, failureOf(i.Err)})
}

// UnmarshalJSON reads what MarshalJSON has written.
func (i *Inquiry) UnmarshalJSON(raw []byte) error {
	var w inquiry
	err := json.Unmarshal(raw, &w)
	i.Surveys, i.Err = w.Surveys, w.Failure.error()
	return err
}

type inquiry struct {
	Surveys []Survey
	Failure *failure `json:",omitempty"`
}

// failure is an error in JSON. Of what it wraps it keeps the errors by which looks are judged.
type failure struct {
	Text      string
	Silent    bool `json:",omitempty"` // migrate.ErrSilent
	NotServed bool `json:",omitempty"` // ErrNotServed
}

func failureOf(err error) *failure {
	if err == nil {
		return nil
	}
	return &failure{err.Error(), errors.Is(err, migrate.ErrSilent), errors.Is(err, ErrNotServed)}
}

func (f *failure) error() error {
	if f == nil {
		return nil
	}
	return told{*f}
}

// told is an error that was read from JSON.
type told struct{ failure }

func (t told) Error() string { return t.Text }

func (t told) Is(target error) bool {
	return t.Silent && target == migrate.ErrSilent || t.NotServed && target == ErrNotServed
}
