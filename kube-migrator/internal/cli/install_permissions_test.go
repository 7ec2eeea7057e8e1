// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install/discovery"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// as returns a client's configuration with the token of a ServiceAccount of the installation.
func (i *installer) as(account string) *rest.Config {
	i.t.Helper()
	raw, err := i.client.Post().AbsPath("/api/v1/namespaces/kube-migrator/serviceaccounts", account,
		"token").SetHeader("Content-Type", "application/json").
		Body([]byte(`{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}`)).Do(i.t.Context()).Raw()
	if err != nil {
		i.t.Fatal(err)
	}
	var request struct {
		Status struct {
			Token string `json:"token"`
		} `json:"status"`
	}
	if err := json.Unmarshal(raw, &request); err != nil {
		i.t.Fatal(err)
	}
	config := i.cluster.Config()
	config.BearerToken = request.Status.Token
	return config
}

// may asks the API server what the owner of a token may do.
func (i *installer) may(client rest.Interface, verb, group, resource, namespace string) bool {
	i.t.Helper()
	resource, subresource, _ := strings.Cut(resource, "/")
	question := fmt.Sprintf(`{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectAccessReview","spec":{"resourceAttributes":{
		"verb":%q,"group":%q,"resource":%q,"subresource":%q,"namespace":%q}}}`, verb, group, resource, subresource, namespace)
	raw, err := client.Post().AbsPath(
		"/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
	).SetHeader("Content-Type", "application/json").
		Body([]byte(question)).Do(i.t.Context()).Raw()
	if err != nil {
		i.t.Fatal(err)
	}
	var review struct {
		Status struct {
			Allowed bool `json:"allowed"`
		} `json:"status"`
	}
	if err := json.Unmarshal(raw, &review); err != nil {
		i.t.Fatal(err)
	}
	return review.Status.Allowed
}

func (i *installer) clientAs(account string) rest.Interface {
	i.t.Helper()
	client, err := apiserver.NewClient(i.as(account))
	if err != nil {
		i.t.Fatal(err)
	}
	return client
}

// eventually waits for what the API server's authorizer learns a moment after the write.
func (i *installer) eventually(what string, ok func() bool) {
	i.t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if ok() {
			return
		}
	}
	i.t.Fatalf("not within 10s: %s", what)
}

func (i *installer) checkWorker() {
	t := i.t
	worker := i.clientAs("kube-migrator-worker")
	all, err := inventory.Take(t.Context(), worker)
	if err != nil || len(all.Failures) > 0 {
		t.Fatalf("the worker cannot take the inventory: %v, %v", err, all)
	}
	checked := 0
	for _, r := range all.Resources {
		if r.Problem != nil {
			continue
		}
		checked++
		for _, verb := range []string{"get", "list", "patch"} {
			if i.may(worker, verb, r.Group, r.Resource, "") == inventory.ExemptFromPolicies(r.GroupResource) {
				t.Errorf("the worker may or may not %s %s, as it should not", verb, r)
			}
		}
		for _, verb := range []string{"create", "update", "delete", "deletecollection", "watch"} {
			// all ServiceAccounts may, by system:cluster-trust-bundle-discovery
			everybody := verb == "watch" && r.Resource == "clustertrustbundles"
			if !everybody && i.may(worker, verb, r.Group, r.Resource, "") {
				t.Errorf("the worker may %s %s", verb, r)
			}
		}
	}
	if checked < 40 {
		t.Errorf("only %d resources were checked", checked)
	}
	if !i.may(worker, "list", "discovery.k8s.io", "endpointslices", "") ||
		i.may(worker, "create", "", "serviceaccounts/token", "kube-migrator") {
		t.Error("of what finds aggregated API servers the worker may list addresses, and not get tokens of any account")
	}
	if token, err := discovery.Tokens(worker, "kube-migrator")(t.Context()); token == "" {
		t.Errorf("the worker gets no token for discovery (%v)", err)
	}
	if !i.may(worker, "update", "", "configmaps", "kube-migrator") ||
		i.may(worker, "create", "", "configmaps", "kube-migrator") {
		t.Error("of ConfigMaps in its namespace the worker may update them and no more")
	}
}

// sweepAsWorker migrates a custom resource, which has no objects yet, with the worker's token and expects proof.
func (i *installer) sweepAsWorker(kind string, resource schema.GroupResource) {
	t := i.t
	config := i.as("kube-migrator-worker")
	client, err := apiserver.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		body := fmt.Sprintf(`{"apiVersion":"%s/v1","kind":%q,"metadata":{"name":"w%d"}}`, resource.Group, kind, n)
		i.eventually("objects of the resource can be created", func() bool {
			return i.client.Post().AbsPath("/apis", resource.Group, "v1/namespaces/default",
				resource.Resource).SetHeader("Content-Type", "application/json").
				Body([]byte(body)).Do(t.Context()).Error() == nil
		})
	}
	all, err := inventory.Take(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	found, err := all.Find(resource.String())
	if err != nil {
		t.Fatal(err)
	}
	servers, err := agreement.New(config, found.Target(), agreement.Options{ShutdownDelay: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, explanation, err := servers.Look(t.Context()); err != nil || explanation.Evidence != migrate.Observed {
		t.Errorf("the worker sees %s, %v, want %s", explanation, err, migrate.Observed)
	}
	sweep, err := migrate.New(config, found.Target(), servers,
		migrate.Options{SettleTime: time.Second, AgreementTimeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	result, err := sweep.Run(t.Context())
	if err != nil || result.Counts.Done() != 3 {
		t.Errorf("the sweep of the worker: %+v, %v", result, err)
	}
}

func (i *installer) checkController() {
	t := i.t
	controller := i.clientAs("kube-migrator-controller")
	if all, err := inventory.Take(t.Context(), controller); err != nil || len(all.Failures) > 0 {
		t.Errorf("the controller cannot take the inventory: %v, %v", err, all)
	}
	const migration, own = "migration.k8s.io", "kube-migrator"
	for _, allowed := range [][]string{
		{"watch", migration, "storageversionmigrations", ""},
		{"update", migration, "storageversionmigrations/status", ""}, {"create", "batch", "jobs", own},
		{"delete", "batch", "jobs", own}, {"create", "", "configmaps", own},
		{"create", "coordination.k8s.io", "leases", own},
		{"patch", "apiextensions.k8s.io", "customresourcedefinitions/status", ""},
		{"list", "storagemigration.k8s.io", "storageversionmigrations", ""},
		{"patch", migration, "storageversionmigrations", ""}, {"delete", migration, "storagestates", ""},
		{"update", migration, "storagestates/status", ""},
		{"watch", migration, "storageversions", ""}, {"delete", migration, "storageversions", ""},
		{"update", migration, "storageversions/status", ""}, {"list", "coordination.k8s.io", "leases", ""},
		{"get", "coordination.k8s.io", "leases", "kube-system"},
		{"watch", "internal.apiserver.k8s.io", "storageversions", ""},
		{"watch", "apiregistration.k8s.io", "apiservices", ""},
		{"watch", "apiextensions.k8s.io", "customresourcedefinitions", ""},
		{"watch", "coordination.k8s.io", "leases", "kube-system"},
		{"watch", "discovery.k8s.io", "endpointslices", "default"},
		{"create", "authentication.k8s.io", "tokenreviews", ""},
		{"create", "authorization.k8s.io", "subjectaccessreviews", ""},
		{"create", "events.k8s.io", "events", "default"}, {"list", "coordination.k8s.io", "leases", "kube-system"},
		{"list", "discovery.k8s.io", "endpointslices", ""},
	} {
		if !i.may(controller, allowed[0], allowed[1], allowed[2], allowed[3]) {
			t.Errorf("the controller may not %v", allowed)
		}
	}
	// Whether everything is paused it may read, and not decide.
	for _, step := range []struct {
		change func() error
		paused bool
	}{
		{func() error { return install.Pause(t.Context(), i.client, time.Now()) }, true},
		{func() error { return install.Resume(t.Context(), i.client) }, false},
	} {
		if err := step.change(); err != nil {
			t.Error(err)
		}
		if since, err := install.Paused(t.Context(), controller); err != nil || (since != "") != step.paused {
			t.Errorf("the controller reads that everything is paused since %q (%v), want %t", since, err, step.paused)
		}
	}
	if err := install.Pause(t.Context(), controller, time.Now()); !apierrors.IsForbidden(err) {
		t.Errorf("the controller pauses everything: %v", err)
	}
	// How far a collection has come it may ask, with a name that no object has, and so reads none.
	for _, path := range []string{"/api/v1/namespaces/kube-migrator/secrets",
		"/apis/storage.k8s.io/v1/storageclasses"} {
		if _, err := controller.Get().AbsPath(path).Param("fieldSelector", "metadata.name="+
			inventory.NoObject).Param("limit", "1").Do(t.Context()).Raw(); err != nil {
			t.Errorf("the controller may not compare %s: %v", path, err)
		}
		if _, err := controller.Get().AbsPath(path).Param("limit",
			"1").Do(t.Context()).Raw(); !apierrors.IsForbidden(err) {
			t.Errorf("the controller lists %s: %v", path, err)
		}
	}
	for _, denied := range [][]string{ // what it does not use, too
		{"get", "", "secrets", own}, {"list", "", "secrets", ""}, {"patch", "", "secrets", ""},
		{"list", "", "configmaps", ""}, {"list", "demo.example.com", "widgets", ""},
		{"patch", "apiextensions.k8s.io", "customresourcedefinitions", ""},
		{"delete", "apiextensions.k8s.io", "customresourcedefinitions", ""},
		{"create", "batch", "jobs", "kube-system"}, {"create", "", "pods", own}, {"delete", "", "namespaces", ""},
		{"patch", "rbac.authorization.k8s.io", "clusterroles", ""},
		{"create", "", "serviceaccounts/token", own},
		{"patch", migration, "storageversionmigrations/status", ""},
		{"watch", "storagemigration.k8s.io", "storageversionmigrations", ""},
		{"update", "batch", "jobs", own}, {"create", "", "events", own},
		{"update", migration, "storageversionmigrations", ""}, {"patch", migration, "storagestates/status", ""},
		{"create", "coordination.k8s.io", "leases", "kube-system"},
	} {
		if i.may(controller, denied[0], denied[1], denied[2], denied[3]) {
			t.Errorf("the controller may %v", denied)
		}
	}
}
