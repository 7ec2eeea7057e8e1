// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// DefaultPrefix is the --etcd-prefix of kube-apiserver.
const DefaultPrefix = "/registry"

// Source is the origin of the values: Live or Snapshot.
type Source interface {
	// Each calls visit once with the newest revision of every key that begins with prefix and is not deleted, in no
	// particular order. key and value are valid only during the call. An error of visit ends the reading and is
	// returned unwrapped.
	Each(ctx context.Context, prefix string, visit func(key, value []byte) error) (Provenance, error)
}

// Provenance says what was read, which makes a report usable as evidence.
type Provenance struct {
	// Endpoints, ClusterID and MemberID (hexadecimal) describe a running etcd.
	Endpoints []string `json:"endpoints,omitempty"`
	ClusterID string   `json:"clusterID,omitempty"`
	MemberID  string   `json:"memberID,omitempty"`
	// File is the path of the snapshot, with its size and the SHA-256 of the content that its trailer covers.
	File      string `json:"file,omitempty"`
	FileBytes int64  `json:"fileBytes,omitempty"`
	SHA256    string `json:"sha256,omitempty"`
	// ChecksumVerified means that the file ends in a checksum and its content matches it.
	ChecksumVerified bool `json:"checksumVerified,omitempty"`
	// Revision is the revision of etcd that was read.
	Revision int64 `json:"revision"`
	// FirstRevision is less than Revision if etcd compacted it during the reading. The reading then continued at a
	// newer revision, from the key that it had reached.
	FirstRevision int64 `json:"firstRevision"`
}

// Options say what to count.
type Options struct {
	// Prefix of all keys. Empty means DefaultPrefix.
	Prefix string
	// Current are the versions to compare with; nil compares nothing.
	Current *Current
	// OnStale, if set, is called with each stale object during the reading. Its error ends the audit.
	OnStale func(StaleObject) error
}

// StaleObject is an object that is not stored in the current version.
type StaleObject struct {
	Resource       string   `json:"resource"`
	Namespace      string   `json:"namespace,omitempty"`
	Name           string   `json:"name"`
	APIVersion     string   `json:"apiVersion"`
	CurrentVersion string   `json:"currentVersion"`
	Encoding       Encoding `json:"encoding"`
}

// Report is the result of an audit.
type Report struct {
	Source   Provenance `json:"source"`
	Prefix   string     `json:"prefix"`
	ReadTime time.Time  `json:"readTime"`
	// Compared means that current versions were given.
	Compared bool   `json:"compared"`
	Totals   Totals `json:"totals"`
	Rows     []Row  `json:"rows"`
}

// Totals are sums over the rows. Objects counts everything except NoObject.
type Totals struct {
	Objects      int64 `json:"objects"`
	Bytes        int64 `json:"bytes"`
	Current      int64 `json:"current"`
	Stale        int64 `json:"stale"`
	Undetermined int64 `json:"undetermined"`
	NotCompared  int64 `json:"notCompared"`
	NoObjects    int64 `json:"noObjects"`
}

// Row counts objects of one resource that are stored in the same way.
type Row struct {
	Resource           string     `json:"resource"`
	Kind               string     `json:"kind,omitempty"`
	APIVersion         string     `json:"apiVersion,omitempty"` // empty: cannot be told
	Encoding           Encoding   `json:"encoding"`
	EncryptionProvider string     `json:"encryptionProvider,omitempty"`
	EncryptionKey      string     `json:"encryptionKey,omitempty"`
	CurrentVersion     string     `json:"currentVersion,omitempty"`
	Comparison         Comparison `json:"verdict"`
	Objects            int64      `json:"objects"`
	Bytes              int64      `json:"bytes"`
}

// maxRows bounds the report's memory if the keys below the prefix are not those of an API server.
const maxRows = 5000

// maxResourceBytes bounds the name of a resource that gets a row. It is longer than any valid name.
const maxResourceBytes = 2 * maxNameBytes

// otherResources is the resource of the rows that count everything else.
const otherResources = "(others)"

// rowKey contains what the objects of one row have in common.
type rowKey struct {
	resource   schema.GroupResource
	envelope   Envelope
	comparison Comparison
}

// sum is the part of a row that is counted up.
type sum struct{ objects, bytes int64 }

// Audit reads the source to its end. An error of OnStale is returned wrapped.
func Audit(ctx context.Context, source Source, options Options) (*Report, error) {
	report := &Report{Prefix: cleanPrefix(options.Prefix), ReadTime: time.Now().UTC(), Compared: options.Current != nil}
	counts := make(map[rowKey]*sum)
	provenance, err := source.Each(ctx, report.Prefix, func(key, value []byte) error {
		envelope := DecodeEnvelope(value)
		gv, _ := schema.ParseGroupVersion(envelope.APIVersion) // DecodeEnvelope has seen that it parses
		at := locate(string(key[len(report.Prefix):]), gv.Group, envelope.APIVersion != "")
		k := rowKey{resource: at.resource, envelope: envelope, comparison: options.Current.compare(at, envelope)}
		count(counts, k, len(value))
		if k.comparison != IsStale || options.OnStale == nil {
			return nil
		}
		return options.OnStale(StaleObject{
			Resource: at.resource.String(), Namespace: at.namespace, Name: at.name, APIVersion: envelope.APIVersion,
			CurrentVersion: options.Current.Versions[at.resource].String(), Encoding: envelope.Encoding,
		})
	})
	if err != nil {
		return nil, fmt.Errorf("audit etcd: %w", err)
	}
	if len(counts) == 0 {
		return nil, &EmptyError{Prefix: report.Prefix}
	}
	report.Source = provenance
	report.add(counts, options.Current)
	return report, nil
}

// cleanPrefix normalizes the prefix as kube-apiserver does with --etcd-prefix, and appends a slash.
func cleanPrefix(prefix string) string {
	if prefix = strings.Trim(cmp.Or(prefix, DefaultPrefix), "/"); prefix == "" {
		return "/"
	}
	return "/" + prefix + "/"
}

func count(counts map[rowKey]*sum, k rowKey, bytes int) {
	s, ok := counts[k]
	if !ok && (len(counts) >= maxRows || len(k.resource.Group)+len(k.resource.Resource) > maxResourceBytes) {
		k = rowKey{resource: schema.GroupResource{Resource: otherResources},
			envelope: Envelope{Encoding: Unknown}, comparison: k.comparison}
		s, ok = counts[k]
	}
	if !ok {
		s = new(sum)
		// a copy, so that the row does not keep the whole key in memory
		k.resource = schema.GroupResource{Group: strings.Clone(k.resource.Group),
			Resource: strings.Clone(k.resource.Resource)}
		counts[k] = s
	}
	s.objects++
	s.bytes += int64(bytes)
}

// add converts the counts into rows and totals.
func (r *Report) add(counts map[rowKey]*sum, current *Current) {
	for k, s := range counts {
		row := Row{
			Resource: k.resource.String(), Kind: k.envelope.Kind, APIVersion: k.envelope.APIVersion,
			Encoding:           k.envelope.Encoding,
			EncryptionProvider: k.envelope.Provider, EncryptionKey: k.envelope.KeyName, Comparison: k.comparison,
			Objects: s.objects, Bytes: s.bytes,
		}
		if current != nil {
			if want, ok := current.Versions[k.resource]; ok && k.comparison != NoObject {
				row.CurrentVersion = want.String()
			}
		}
		r.Rows = append(r.Rows, row)
		r.Totals.add(row)
	}
	slices.SortFunc(r.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(a.APIVersion, b.APIVersion),
			cmp.Compare(a.Kind, b.Kind),
			cmp.Compare(a.Encoding, b.Encoding), cmp.Compare(a.EncryptionProvider, b.EncryptionProvider),
			cmp.Compare(a.EncryptionKey, b.EncryptionKey), cmp.Compare(a.Comparison, b.Comparison))
	})
}

func (t *Totals) add(row Row) {
	if row.Comparison == NoObject {
		t.NoObjects += row.Objects
		return
	}
	t.Objects += row.Objects
	t.Bytes += row.Bytes
	switch row.Comparison {
	case IsCurrent:
		t.Current += row.Objects
	case IsStale:
		t.Stale += row.Objects
	case IsUndetermined:
		t.Undetermined += row.Objects
	case NotCompared:
		t.NotCompared += row.Objects
	case NoObject: // counted above
	}
}

// Comparison returns the result for all objects: IsStale if any object is stale, else IsUndetermined if any is
// undetermined, else NotCompared if no object could be compared, else IsCurrent.
func (r *Report) Comparison() Comparison {
	switch {
	case r.Totals.Stale > 0:
		return IsStale
	case r.Totals.Undetermined > 0:
		return IsUndetermined
	case r.Totals.Current == 0:
		return NotCompared
	}
	return IsCurrent
}
