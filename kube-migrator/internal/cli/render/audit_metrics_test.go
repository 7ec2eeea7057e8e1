// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/etcdaudit"
)

func TestAuditMetricsCountObjectsByVersion(t *testing.T) {
	t.Parallel()
	const widgets = "widgets.demo.example.com"
	var out strings.Builder
	err := AuditMetrics(&out, &etcdaudit.Report{ReadTime: time.Unix(1_800_000_000, 5), Rows: []etcdaudit.Row{
		{Resource: widgets, APIVersion: "demo.example.com/v1", Encoding: "json", Comparison: etcdaudit.IsStale, Objects: 20},
		{Resource: widgets, APIVersion: "demo.example.com/v1", Encoding: "protobuf", Comparison: etcdaudit.IsStale, Objects: 3},
		{Resource: widgets, APIVersion: "demo.example.com/v2", Encoding: "json", Comparison: etcdaudit.IsCurrent, Objects: 7},
		{Resource: "secrets", EncryptionKey: "key1", Comparison: etcdaudit.IsUndetermined, Objects: 9},
		{Resource: "evil\"\n\xff", APIVersion: "v1", Comparison: etcdaudit.NotCompared, Objects: 1},
		{Resource: "ranges", Comparison: etcdaudit.NoObject, Objects: 2},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := `# HELP kube_migrator_audit_objects Objects that etcd holds, by the version that they are stored in.
# TYPE kube_migrator_audit_objects gauge
kube_migrator_audit_objects{resource="evil\"\n�",stored="v1",verdict="not_compared"} 1
kube_migrator_audit_objects{resource="secrets",stored="",verdict="undetermined"} 9
kube_migrator_audit_objects{resource="widgets.demo.example.com",stored="demo.example.com/v1",verdict="stale"} 23
kube_migrator_audit_objects{resource="widgets.demo.example.com",stored="demo.example.com/v2",verdict="current"} 7
# HELP kube_migrator_audit_timestamp_seconds When the audit read etcd or the snapshot, in seconds since 1970.
# TYPE kube_migrator_audit_timestamp_seconds gauge
kube_migrator_audit_timestamp_seconds 1.8e+09
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("the metrics (-want +got):\n%s", diff)
	}
}
