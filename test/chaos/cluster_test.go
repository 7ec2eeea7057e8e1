// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/test/chaos/plan"
)

const crdPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/" + testbed.WidgetCRD

// The sets of the packet filter hold the addresses of etcd that are cut off from their API server, and those of API
// servers that controllers and workers cannot reach.
const (
	etcdSet   = "etcd_cut"
	serverSet = "server_cut"
)

// filter sets up the packet filter of the cluster's network namespace.
func (l *lab) filter() error {
	if !l.plan.Permitted(plan.CutEtcd) && !l.plan.Permitted(plan.CutServer) {
		return nil
	}
	return l.nft(fmt.Sprintf(`table inet chaos {
		set %[1]s { type ipv4_addr; }
		set %[2]s { type ipv4_addr; }
		chain output {
			type filter hook output priority 0;
			ip daddr @%[1]s tcp dport 2379 drop
			ip saddr @%[1]s tcp sport 2379 drop
			meta skgid %[3]d ip daddr @%[2]s tcp dport 6443 drop
		}
	}`, etcdSet, serverSet, productGroup))
}

func (l *lab) nft(commands string) error {
	command := l.cluster.Command(context.Background(), "nft", "-f", "-")
	command.Stdin = strings.NewReader(commands)
	if out, err := command.CombinedOutput(); err != nil {
		return errors.Join(fmt.Errorf("set up the packet filter: %w: %s", err, out),
			errors.New("chaos needs root and nft (apt-get install nftables)"))
	}
	return nil
}

// cut drops the packets to an address for a while.
func (l *lab) cut(ctx context.Context, set, address string, hold time.Duration) {
	if err := l.nft(fmt.Sprintf("add element inet chaos %s { %s }", set, address)); err != nil {
		l.must("cut", err)
		return
	}
	wait(ctx, hold)
	l.must("connect", l.nft(fmt.Sprintf("delete element inet chaos %s { %s }", set, address)))
}

// setRules gives every line the rules of the faults that apply now. The caller holds storm.
func (l *lab) setRules() {
	for _, n := range l.lines {
		if n.proxy == nil {
			continue
		}
		rules := []testbed.Rule{{Match: n.observe, Fault: testbed.Latency(0)}}
		for _, kind := range slices.Sorted(maps.Keys(l.raging)) {
			rules = append(rules, l.raging[kind]...)
		}
		n.proxy.SetRules(rules...)
	}
}

// moveStorage moves the storage version of the widgets.
func (l *lab) moveStorage(ctx context.Context, s plan.Step) {
	l.crd.RLock()
	defer l.crd.RUnlock()
	for wait(ctx, 100*time.Millisecond) {
		status, answer, err := l.ask(ctx, http.MethodGet, crdPath, nil)
		if err != nil || status != http.StatusOK {
			continue
		}
		var d map[string]any
		if json.Unmarshal(answer, &d) != nil {
			continue
		}
		for _, v := range d["spec"].(map[string]any)["versions"].([]any) {
			v := v.(map[string]any)
			v["storage"] = v["storage"] != true
		}
		if status, _, err = l.ask(ctx, http.MethodPut, crdPath, d); err == nil && status == http.StatusOK {
			break
		}
	}
	wait(ctx, s.Hold)
}

// recreate deletes the CustomResourceDefinition of the widgets and creates it again. Writers pause meanwhile: an API
// server that has not yet noticed the deletion would store objects that no one deletes.
func (l *lab) recreate(ctx context.Context, s plan.Step) {
	l.crd.Lock()
	defer l.crd.Unlock()
	status, answer, err := l.ask(ctx, http.MethodGet, crdPath, nil)
	var d map[string]any
	if err != nil || status != http.StatusOK || json.Unmarshal(answer, &d) != nil {
		return
	}
	l.intents.clear(widgets.Prefix)
	defer l.intents.cleared(widgets.Prefix)
	lasting := l.running // half of it would be no state to converge from
	l.insist(lasting, http.MethodDelete, crdPath, nil)
	for (status != http.StatusNotFound || err != nil) && wait(lasting, 100*time.Millisecond) {
		status, _, err = l.ask(lasting, http.MethodGet, crdPath, nil)
	}
	wait(ctx, s.Hold)
	versions := d["spec"].(map[string]any)["versions"].([]any)
	for i, v := range versions {
		v.(map[string]any)["storage"] = i == s.Edition%len(versions)
	}
	l.insist(lasting, http.MethodPost, strings.TrimSuffix(crdPath, "/"+testbed.WidgetCRD), map[string]any{
		"apiVersion": d["apiVersion"], "kind": d["kind"], "spec": d["spec"],
		"metadata": map[string]any{"name": testbed.WidgetCRD},
	})
	l.populate(lasting, "default", 40)
}

// populate creates widgets that no writer touches.
func (l *lab) populate(ctx context.Context, namespace string, count int) {
	for i := range count {
		l.populated++
		name := fmt.Sprintf("still-%d-%d", l.populated, i)
		l.intents.create(keyOf(widgets, namespace, name))
		l.insist(ctx, http.MethodPost, collection(widgets, namespace), object(widgets, name, "still"))
	}
}

// doomed is the name of a namespace that is deleted.
func doomed(n int) string { return fmt.Sprintf("doomed-%d", n) }

// dropNamespace deletes a namespace with its widgets, as the namespace controller does, and makes another one.
func (l *lab) dropNamespace(ctx context.Context, s plan.Step) {
	l.crd.RLock()
	defer l.crd.RUnlock()
	lasting := l.running
	path, below := "/api/v1/namespaces/"+doomed(l.namespace), widgets.Prefix+doomed(l.namespace)+"/"
	l.intents.clear(below)
	l.insist(lasting, http.MethodDelete, path, nil)
	wait(ctx, s.Hold)
	l.insist(lasting, http.MethodDelete, collection(widgets, doomed(l.namespace)), nil)
	l.insist(lasting, http.MethodPut, path+"/finalize", map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": doomed(l.namespace)},
		"spec": map[string]any{},
	})
	l.intents.cleared(below)
	l.namespace++
	l.insist(lasting, http.MethodPost, "/api/v1/namespaces",
		map[string]any{"metadata": map[string]any{"name": doomed(l.namespace)}})
	l.populate(lasting, doomed(l.namespace), 12)
}
