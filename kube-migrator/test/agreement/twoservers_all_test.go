// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package agreement_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/compare"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/identity"
	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// balanced is a configuration whose address is a load balancer that rotates between the running servers. Their own
// addresses answer only if reachable.
func balanced(cluster *testbed.Cluster, reachable bool) *rest.Config {
	config := cluster.Config()
	config.Host = "https://balancer.example.com"
	config.ServerName = apiserver.ServerName
	var turn atomic.Int64
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasPrefix(address, "balancer.") {
			var hosts []string
			for _, s := range cluster.Servers {
				if s.Running() {
					hosts = append(hosts, s.Host())
				}
			}
			return cluster.DialContext(ctx, network, hosts[int(turn.Add(1))%len(hosts)])
		}
		if !reachable {
			return nil, errors.New("no route to host")
		}
		return cluster.DialContext(ctx, network, address)
	}
	return config
}

// makeStale moves the last renewal of a server's Lease two minutes back, so that a test need not wait.
func makeStale(t *testing.T, cluster *testbed.Cluster, holder string) time.Time {
	t.Helper()
	renewed := time.Now().Add(-2 * time.Minute)
	name, _, _ := strings.Cut(holder, "_")
	body := fmt.Sprintf(`{"spec": {"renewTime": %q}}`, renewed.UTC().Format("2006-01-02T15:04:05.000000Z"))
	status, answer, err := cluster.Servers[0].Do(t.Context(), http.MethodPatch,
		"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/"+name, []byte(body))
	if err != nil || status != http.StatusOK {
		t.Fatalf("make Lease %s stale: %d %s %v", name, status, answer, err)
	}
	return renewed
}

// holderOf returns the holderIdentity of the Lease of a host.
func holderOf(t *testing.T, cluster *testbed.Cluster, host string) string {
	t.Helper()
	_, answer, err := cluster.Servers[0].Do(t.Context(), http.MethodGet,
		"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?labelSelector=kubernetes.io/hostname="+host, nil)
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Items []struct {
			Spec struct{ HolderIdentity string }
		}
	}
	if err := json.Unmarshal(answer, &list); err != nil || len(list.Items) != 1 {
		t.Fatalf("%s has %d Leases: %v", host, len(list.Items), err)
	}
	return list.Items[0].Spec.HolderIdentity
}

func TestTwoRealServers(t *testing.T) {
	t.Parallel()
	old := []string{"--min-compatibility-version=1.33"}
	cluster := testbed.New(t, testbed.Options{
		Release: testbed.V136, Isolated: true,
		Servers: []testbed.ServerOptions{{}, {Flags: old}},
	})
	ctx := t.Context()
	first, second := cluster.Servers[0], cluster.Servers[1]
	agreed := func(_ migrate.Epoch, err error) bool { return err == nil }
	disagree := func(_ migrate.Epoch, err error) bool { return errors.Is(err, migrate.ErrDisagreement) }
	own := observe(t, cluster.Config(), deviceClasses)
	viaBalancer := observe(t, balanced(cluster, false), deviceClasses)

	t.Run("that write two versions disagree, and each is named", func(t *testing.T) {
		var d *agreement.Disagreement
		until(t, own, "a disagreement of servers with their names",
			func(_ migrate.Epoch, err error) bool { return errors.As(err, &d) && len(d.Said) == 2 })
		want := []string{
			fmt.Sprintf("api-0 (%s) writes resource.k8s.io/v1", first.Host()),
			fmt.Sprintf("api-1 (%s) writes resource.k8s.io/v1beta2", second.Host()),
		}
		if diff := compare.Diff(want, d.Said); diff != "" {
			t.Errorf("said (-want +got):\n%s", diff)
		}
		t.Log(d)
	})
	t.Run("disagree behind a load balancer, too", func(t *testing.T) {
		until(t, viaBalancer, "a disagreement of samples", disagree)
		o, err := agreement.NewObserver(balanced(cluster, false), agreement.Options{})
		if err != nil {
			t.Fatal(err)
		}
		record(t, o, "two-servers-behind-one-address")
	})
	t.Run("agree about what both write in one version", func(t *testing.T) {
		leases := deviceClasses
		leases.Resource.Group, leases.Resource.Resource, leases.Kind = "coordination.k8s.io", "leases", "Lease"
		e, _ := look(t, observe(t, cluster.Config(), leases))
		if e.Evidence != migrate.Observed || e.Hash != hashOf(leases, "v1") || len(e.Servers) != 2 {
			t.Errorf("the epoch is %+v", e)
		}
	})

	var both migrate.Epoch
	t.Run("agree once the second is upgraded", func(t *testing.T) {
		before := time.Now()
		if err := second.RestartWith(ctx, testbed.ServerOptions{Flags: []string{}}); err != nil {
			t.Fatal(err)
		}
		both = until(t, own, "agreement of two", func(e migrate.Epoch, err error) bool {
			return err == nil && len(e.Servers) == 2 && e.Evidence == migrate.Observed
		})
		if both.Hash != hashOf(deviceClasses, "v1") {
			t.Errorf("the hash is %s, want that of v1", both.Hash)
		}
		between(t, "since", both.Since, before, time.Now())
	})
	t.Run("whose own addresses do not answer are asked over a connection to each", func(t *testing.T) {
		e, explanation := look(t, viaBalancer)
		if e.Evidence != migrate.Observed || !e.Same(both) || !strings.Contains(explanation.How, "a connection of its own") {
			t.Errorf("the epoch is %+v, want %+v: %s", e, both, explanation)
		}
	})
	t.Run("that both answer behind a load balancer are observed", func(t *testing.T) {
		e, _ := look(t, observe(t, balanced(cluster, true), deviceClasses))
		if e.Evidence != migrate.Observed || !e.Same(both) {
			t.Errorf("the epoch is %+v, want the observed %+v", e, both)
		}
	})
	t.Run("whose addresses lead to one of them are sampled", func(t *testing.T) {
		config := cluster.Config()
		config.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return cluster.DialContext(ctx, network, first.Host())
		}
		e, explanation := look(t, observe(t, config, deviceClasses))
		if e.Evidence != migrate.Sampled || !strings.Contains(explanation.Reason, "lead to one process") {
			t.Errorf("the epoch is %+v: %s", e, explanation)
		}
		if e, explanation := look(t, observe(t, cluster.Config(), deviceClasses)); e.Evidence != migrate.Observed {
			t.Errorf("their own addresses are taken for those of load balancers: %+v: %s", e, explanation)
		}
	})
	t.Run("of which one crashes end the epoch; the other is alone a minute later", func(t *testing.T) {
		crashed := holderOf(t, cluster, "api-1")
		second.Kill()
		if _, err := own.Epoch(ctx); err == nil || errors.Is(err, migrate.ErrDisagreement) {
			t.Errorf("while a server does not answer the error is %v, want a plain one", err)
		}
		renewed := makeStale(t, cluster, crashed)
		sampled := false
		alone := until(t, own, "the only one is observed", func(e migrate.Epoch, err error) bool {
			sampled = sampled || err == nil && e.Evidence == migrate.Sampled
			return err == nil && len(e.Servers) == 1 && e.Evidence == migrate.Observed
		})
		if !sampled {
			t.Error("the crashed server's address was still listed, and yet its absence was believed")
		}
		if alone.Same(both) || alone.Since.Before(renewed.Add(identity.FreshFor)) {
			t.Errorf("the epoch is %+v, want another than %+v that began a minute after %v or later", alone, both,
				renewed)
		}
	})
	t.Run("of which one comes back are two again", func(t *testing.T) {
		if err := second.Start(ctx); err != nil {
			t.Fatal(err)
		}
		e := until(t, own, "agreement of two", func(e migrate.Epoch, err error) bool {
			return agreed(e, err) && len(e.Servers) == 2 && e.Evidence == migrate.Observed
		})
		if e.Same(both) {
			t.Errorf("the epoch is the one before the crash, %+v", e)
		}
	})
}
