// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/etcdaudit"
)

// Audit writes an audit's report: what is stored, by resource, version, encoding and encryption key.
func Audit(w io.Writer, format Format, report *etcdaudit.Report) error {
	switch format {
	case JSON, YAML:
		return Data(w, format, report)
	case Name:
		return auditNames(w, report)
	case Prometheus:
		return AuditMetrics(w, report)
	case Text, Table, Wide, HTML:
	}
	header := []string{"RESOURCE", "STORED", "ENCODING", "KEY", "OBJECTS"}
	if report.Compared {
		header = append(header, "CURRENT", "VERDICT")
	}
	if format == Wide {
		header = append(header, "KIND", "BYTES")
	}
	var rows [][]string
	for _, r := range report.Rows {
		if r.Comparison == etcdaudit.NoObject && format != Wide {
			continue
		}
		row := []string{r.Resource, r.APIVersion, string(r.Encoding), encryptionKey(r), Count(r.Objects)}
		if report.Compared {
			row = append(row, r.CurrentVersion, comparison(r.Comparison))
		}
		if format == Wide {
			row = append(row, r.Kind, Count(r.Bytes))
		}
		rows = append(rows, row)
	}
	return Tabulate(w, header, rows)
}

// auditNames writes each resource once; its rows are sorted by it.
func auditNames(w io.Writer, report *etcdaudit.Report) error {
	var names []string
	for _, r := range report.Rows {
		if r.Comparison != etcdaudit.NoObject {
			names = append(names, clean(r.Resource)+"\n")
		}
	}
	_, err := io.WriteString(w, strings.Join(slices.Compact(names), ""))
	return err
}

func encryptionKey(r etcdaudit.Row) string {
	if r.EncryptionProvider == "" {
		return ""
	}
	return r.EncryptionProvider + "/" + r.EncryptionKey
}

func comparison(v etcdaudit.Comparison) string {
	switch v {
	case etcdaudit.NotCompared:
		return "not compared"
	case etcdaudit.NoObject:
		return "no object"
	case etcdaudit.IsCurrent, etcdaudit.IsStale, etcdaudit.IsUndetermined:
	}
	return strings.ToLower(string(v))
}

// AuditSummary is the report in sentences for users: what was read, and what follows.
func AuditSummary(report *etcdaudit.Report) string {
	t, s := report.Totals, report.Source
	var b strings.Builder
	fmt.Fprintf(&b, "%s objects at revision %d of ", Count(t.Objects), s.Revision)
	if s.File != "" {
		fmt.Fprintf(&b, "%s", s.File)
		if !s.ChecksumVerified {
			b.WriteString(", which has no checksum")
		}
	} else {
		fmt.Fprintf(&b, "etcd cluster %s, member %s", s.ClusterID, s.MemberID)
	}
	b.WriteString(".\n")
	if s.FirstRevision < s.Revision {
		fmt.Fprintf(&b, "etcd compacted revision %d away meanwhile; the rest was read at the newer one.\n",
			s.FirstRevision)
	}
	switch {
	case !report.Compared:
		return b.String()
	case report.Comparison() == etcdaudit.NotCompared:
		b.WriteString("Cannot be determined: no object of a resource whose current version is known is stored.\n")
		return b.String()
	case t.Stale > 0:
		fmt.Fprintf(&b, "Stale: %s objects are not stored in the current version.", Count(t.Stale))
	case t.Undetermined > 0:
		b.WriteString("Cannot be determined: no stale object was found, but some objects could not be judged.")
	default:
		b.WriteString("Nothing is stale.")
	}
	fmt.Fprintf(&b, " %s are current", Count(t.Current))
	if t.Undetermined > 0 {
		fmt.Fprintf(&b, ", %s could not be judged (encrypted, not understood, or of a resource with no known current "+
			"version)", Count(t.Undetermined))
	}
	if t.NotCompared > 0 {
		fmt.Fprintf(&b, ", %s belong to resources that were not compared", Count(t.NotCompared))
	}
	b.WriteString(".\n")
	return b.String()
}
