// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package agreement_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/agreement"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestARoundOfTwoRealServersThatDisagree(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{
		Release: testbed.V136, Isolated: true,
		Servers: []testbed.ServerOptions{{}, {Flags: []string{"--min-compatibility-version=1.33"}}},
	})
	if err := cluster.InstallWidgets(t.Context(), testbed.Widgets{}); err != nil {
		t.Fatal(err)
	}
	o := newObserver(t, cluster)
	var r *agreement.Round
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
		if r = roundOf(t, o); len(r.Processes) == 2 && verdictOf(t, r, "", "pods").Evidence == migrate.Observed {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: two servers asked; pods: %+v", verdictOf(t, r, "", "pods"))
		}
	}
	record(t, o, "two-servers-that-disagree")
	v := verdictOf(t, r, "resource.k8s.io", "deviceclasses")
	var shown []string
	for _, s := range v.Servers {
		if !s.Answered || s.Process == "" {
			t.Errorf("the server is %+v, want one that answered and is known", s)
		}
		shown = append(shown, s.Version)
	}
	slices.Sort(shown)
	t.Logf("%+v", v)
	if v.Epoch != nil || !v.Disagree || v.Evidence != 0 || len(v.Hashes) != 2 ||
		fmt.Sprint(shown) != "[resource.k8s.io/v1 resource.k8s.io/v1beta2]" {
		t.Errorf("the verdict is %+v", v)
	}
	if got := verdictOf(t, r, "demo.example.com", "widgets"); got.Epoch == nil || len(got.Servers) != 2 ||
		got.Evidence != migrate.Observed {
		t.Errorf("what both agree on is %+v", got)
	}
}
