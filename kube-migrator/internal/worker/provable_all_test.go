// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package worker

import (
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// A cluster whose API servers cannot be asked one by one stays one. Every object again, every few hours, would prove
// nothing either (I7).
func TestASweepThatProvedNothingIsNotRepeatedWithoutBetterEvidence(t *testing.T) {
	l := &lab{Cluster: testbed.New(t, testbed.Options{}), t: t}
	l.installCRDs()
	const n = 5
	for i := range n {
		l.do(http.MethodPost, "/api/v1/namespaces/default/podtemplates", corev1.PodTemplate{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PodTemplate"},
			ObjectMeta: metav1.ObjectMeta{Name: "template-" + string(rune('a'+i))},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c",
				Image: "i"}}}},
		}, nil)
	}
	var made v1alpha1.StorageVersionMigration
	l.do(http.MethodPost, migrationsPath, map[string]any{
		"apiVersion": "migration.k8s.io/v1alpha1", "kind": "StorageVersionMigration",
		"metadata": map[string]any{"name": "widgets"},
		"spec":     map[string]any{"resource": map[string]any{"resource": "podtemplates"}},
	}, &made)
	l.uid = made.UID
	p := testbed.NewProxy(t, l.Cluster)
	attempt := func(number int64, name string, seed map[string][]byte) (Report, int) {
		p.Forget()
		l.create(name, seed)
		c := p.Config()
		c.TLSClientConfig.Insecure, c.TLSClientConfig.CAData, c.TLSClientConfig.CAFile = true, nil, ""
		o := l.optionsFor(c)
		o.Process.settings.MinEvidence = migrate.Observed
		o.Attempt, o.ConfigMap = number, name
		must(t, l.start(o).wait())
		written := 0
		for _, r := range p.Records() {
			if r.Method == http.MethodPatch && strings.Contains(r.Path, "/podtemplates/") {
				written++
			}
		}
		return *l.report(name), written
	}
	first, written := attempt(1, "run", nil)
	if written != n || first.Outcome == nil || first.Outcome.Result != ResultNotProven {
		t.Fatalf("the first attempt wrote %d times: %+v", written, first.Outcome)
	}
	begin := time.Now()
	second, written := attempt(2, "run-2", Seed(l.configMap("run")))
	if written != 0 || second.Outcome == nil || second.Outcome.Result != ResultNotProven {
		t.Fatalf("the second attempt wrote %d times: %+v", written, second.Outcome)
	}
	if second.Counts.Done() != n || second.Total != n || !second.Outcome.Ended.After(begin) {
		t.Errorf("the second attempt reports %+v of %d", second.Counts, second.Total)
	}
	if Seed(l.configMap("run-2")) == nil {
		t.Error("the third attempt would not know")
	}
	for _, o := range []*Outcome{first.Outcome, second.Outcome} {
		for _, part := range []string{"all 5 objects", "the evidence is Sampled (", "Observed is required",
			"--min-evidence=verified"} {
			if !strings.Contains(o.Message, part) {
				t.Errorf("%q does not say %q", o.Message, part)
			}
		}
	}
}
