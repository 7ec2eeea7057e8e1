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

// Source is where the values come from: Live or Snapshot.
type Source interface {
	// Each calls visit once with the newest revision of every key that begins with prefix and is not deleted, in no
	// promised order. key and value are only valid during the call. An error of visit ends it and is returned as it is.
	Each(ctx context.Context, prefix string, visit func(key, value []byte) error) (Provenance, error)
}

// Provenance says what was read: what makes a report evidence.
type Provenance struct {
	// Endpoints, ClusterID and MemberID (hexadecimal) are those of a running etcd.
	Endpoints []string `json:"endpoints,omitempty"`
	ClusterID string   `json:"clusterID,omitempty"`
	MemberID  string   `json:"memberID,omitempty"`
	// File is the snapshot's path, with its size and the SHA-256 over its content as far as its trailer vouches for it.
	File      string `json:"file,omitempty"`
	FileBytes int64  `json:"fileBytes,omitempty"`
	SHA256    string `json:"sha256,omitempty"`
	// ChecksumVerified is whether the file ends in a checksum and its content has it.
	ChecksumVerified bool `json:"checksumVerified,omitempty"`
	// Revision is the revision of etcd that was read.
	Revision int64 `json:"revision"`
	// FirstRevision is less than Revision where etcd compacted it away during the reading, which then
	// went on, from the key it had reached, at a newer one.
	FirstRevision int64 `json:"firstRevision"`
}

// Options says what to count.
type Options struct {
	// Prefix of all keys. Empty means DefaultPrefix.
	Prefix string
	// Current versions to compare with; nil compares nothing.
	Current *Current
	// OnStale, if set, is called with each object that is stale, while reading. Its error ends the audit.
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

// Report is the answer.
type Report struct {
	Source   Provenance `json:"source"`
	Prefix   string     `json:"prefix"`
	ReadTime time.Time  `json:"readTime"`
	// Compared is whether current versions were known at all.
	Compared bool   `json:"compared"`
	Totals   Totals `json:"totals"`
	Rows     []Row  `json:"rows"`
}

// Totals are sums over the rows. Objects includes everything but NoObject.
type Totals struct {
	Objects      int64 `json:"objects"`
	Bytes        int64 `json:"bytes"`
	Current      int64 `json:"current"`
	Stale        int64 `json:"stale"`
	Undetermined int64 `json:"undetermined"`
	NotCompared  int64 `json:"notCompared"`
	NoObjects    int64 `json:"noObjects"`
}

// Row counts objects that are stored alike.
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

// maxRows bounds the report's memory when keys below the prefix are not those of an API server.
const maxRows = 5000

// maxResourceBytes bounds the name of a resource that has a row: longer than any that is valid.
const maxResourceBytes = 2 * maxNameBytes

// otherResources is the resource of the rows into which everything else is counted.
const otherResources = "(others)"

// rowKey is what makes objects stored alike.
type rowKey struct {
	resource   schema.GroupResource
	envelope   Envelope
	comparison Comparison
}

// sum is the part of a row that grows.
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

// cleanPrefix does what kube-apiserver does with --etcd-prefix, and ends it in a slash.
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
		// not a part of the whole key
		k.resource = schema.GroupResource{Group: strings.Clone(k.resource.Group),
			Resource: strings.Clone(k.resource.Resource)}
		counts[k] = s
	}
	s.objects++
	s.bytes += int64(bytes)
}

// add turns the counts into rows and totals.
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

// Comparison is the answer for the whole: IsStale if any object is, else IsUndetermined if any object is, else
// NotCompared if no object could be compared, else IsCurrent.
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
