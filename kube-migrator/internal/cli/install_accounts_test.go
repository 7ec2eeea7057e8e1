// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/golden"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install"
)

// grants are the verbs that an account has, by what they are about: a resource, with the names that they are restricted
// to, or a URL.
type grants map[string][]string

func (g grants) add(what string, verbs []string) {
	g[what] = append(g[what], verbs...)
	slices.Sort(g[what])
	g[what] = slices.Compact(g[what])
}

// without are the grants beyond others.
func (g grants) without(others grants) grants {
	left := grants{}
	for what, verbs := range g {
		for _, verb := range verbs {
			if !slices.Contains(others[what], verb) {
				left.add(what, []string{verb})
			}
		}
	}
	return left
}

func (g grants) String() string {
	var text strings.Builder
	for _, what := range slices.Sorted(maps.Keys(g)) {
		fmt.Fprintf(&text, "    %-60s %s\n", what, strings.Join(g[what], " "))
	}
	return text.String()
}

// granted returns what a user may do in a namespace, as `kubectl auth can-i --list --as` does: by a
// SelfSubjectRulesReview.
func (i *installer) granted(user, namespace string) grants {
	i.t.Helper()
	config := i.cluster.Config()
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	client, err := apiserver.NewClient(config)
	if err != nil {
		i.t.Fatal(err)
	}
	question := fmt.Appendf(
		nil, `{"apiVersion":"authorization.k8s.io/v1","kind":"SelfSubjectRulesReview","spec":{"namespace":%q}}`,
		namespace,
	)
	raw, err := client.Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews").
		SetHeader("Content-Type", "application/json").Body(question).Do(i.t.Context()).Raw()
	var review authorizationv1.SelfSubjectRulesReview
	if err := errors.Join(err, json.Unmarshal(raw, &review)); err != nil || review.Status.Incomplete {
		i.t.Fatalf("the rules of %s in %s: %v: %s", user, namespace, err, raw)
	}
	all := grants{}
	for _, r := range review.Status.ResourceRules {
		names := ""
		if len(r.ResourceNames) > 0 {
			names = " named " + strings.Join(r.ResourceNames, ", ")
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				all.add(strings.TrimSuffix(resource+"."+group, ".")+names, r.Verbs)
			}
		}
	}
	for _, r := range review.Status.NonResourceRules {
		for _, url := range r.NonResourceURLs {
			all.add(url, r.Verbs)
		}
	}
	return all
}

// bind lets a user have one of the installation's ClusterRoles.
func (i *installer) bind(user, role string) {
	i.t.Helper()
	post(i.t, i.client, "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", fmt.Sprintf(`{"metadata":{"name":%q},
		"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":%q},
		"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":%q}]}`, user, role, user))
	i.eventually(user+" has the role "+role, func() bool {
		return len(i.granted(user, "elsewhere").without(i.granted("bystander", "elsewhere"))) > 0
	})
}

// permissionsFile lists what every account of an installation may do.
var permissionsFile = filepath.Join("testdata", "permissions.txt")

// checkAccounts compares what the API server grants to each account with the golden file. What everyone may do is left
// out.
func (i *installer) checkAccounts() {
	t := i.t
	i.bind("viewer", install.ViewerRole)
	i.bind("requester", install.RequesterRole)
	i.bind("scraper", "kube-migrator-metrics-reader")
	accounts := []string{
		"system:serviceaccount:kube-migrator:kube-migrator-controller",
		"system:serviceaccount:kube-migrator:kube-migrator-worker",
		"system:serviceaccount:kube-migrator:kube-migrator-discovery", "viewer", "requester", "scraper",
	}
	permissions := func() string {
		var text strings.Builder
		for _, account := range accounts {
			bystander := "bystander"
			if strings.HasPrefix(account, "system:serviceaccount:") {
				bystander = "system:serviceaccount:elsewhere:bystander"
			}
			everywhere := i.granted(account, "elsewhere")
			own := everywhere.without(i.granted(bystander, "elsewhere"))
			fmt.Fprintf(&text, "%s\n  in the whole cluster\n%s", account, cmp.Or(own.String(), "    nothing\n"))
			for _, namespace := range []string{"default", "kube-migrator", "kube-system"} {
				if more := i.granted(account, namespace).without(everywhere); len(more) > 0 {
					fmt.Fprintf(&text, "  also in the namespace %s\n%s", namespace, more)
				}
			}
		}
		return text.String()
	}
	golden.Compare(t, permissionsFile, permissions())
}

// checkUsers runs the commands of users who have no more than the roles for them.
func (i *installer) checkUsers() {
	t := i.t
	as := map[string]string{}
	for _, user := range []string{"viewer", "requester"} {
		kubeconfig, err := i.cluster.KubeconfigFor(i.cluster.Servers[0].URL(), user)
		if err != nil {
			t.Fatal(err)
		}
		as[user] = kubeconfig
	}
	// What a viewer sees is what an administrator sees.
	for _, line := range [][]string{
		{"progress", "-o", "name"}, {"check", "-o", "name"},
		{"check", "--target-version=1.37", "widgets", "-o", "name"},
	} {
		want, _ := i.run(exit.Undetermined, line...)
		if got, notes := i.runAs(as["viewer"], exit.Undetermined, line...); got != want || notes != "" {
			t.Errorf("%q as a viewer: stdout %q, want %q; stderr %q", line, got, want, notes)
		}
	}
	out, notes := i.runAs(as["viewer"], exit.Done, "plan", "widgets")
	// objects are not counted
	if !strings.Contains(out, "widgets.demo.example.com   v1        v1       forbidden   no") || notes != "" {
		t.Errorf("plan as a viewer: %s%s", out, notes)
	}
	out, problem := i.runAs(as["viewer"], exit.Error, "request", "widgets")
	const forbidden = `error: request widgets.demo.example.com: storageversionmigrations.migration.k8s.io is forbidden: ` +
		`User "viewer" cannot create resource "storageversionmigrations" in API group "migration.k8s.io" at the cluster scope; ` +
		"the ClusterRole kube-migrator-viewer allows reading, kube-migrator-requester also requests\nTry: kubectl " +
		"auth can-i --list\n"
	if out != "" || problem != forbidden {
		t.Errorf("request as a viewer: stdout %q, stderr %q, want %q", out, problem, forbidden)
	}

	requester := as["requester"]
	for _, step := range []struct {
		code  int
		words []string
		want  string
	}{
		{exit.Done, []string{"request", "widgets", "--max-rate=5"},
			"widgets.demo.example.com requested (generation 1)\n"},
		{exit.Done, []string{"pause", "widgets"}, "widgets.demo.example.com paused\n"},
		{exit.Done, []string{"resume", "widgets"}, "widgets.demo.example.com resumed\n"},
		{exit.Done, []string{"cancel", "widgets"}, "widgets.demo.example.com cancelled\n"},
		{exit.Done, []string{"request", "widgets"}, "widgets.demo.example.com requested (generation 2)\n"},
		{exit.Undetermined, []string{"progress", "-o", "name"}, ""},
	} {
		if out, notes := i.runAs(requester, step.code, step.words...); !strings.HasPrefix(out, step.want) {
			t.Errorf("%q as a requester: %s%s, want %s", step.words, out, notes, step.want)
		}
	}
	// Everything is paused where install remembers its flags, which no requester may write.
	_, problem = i.runAs(requester, exit.Error, "pause", "--all")
	if !strings.Contains(problem, `configmaps "kube-migrator-flags" is forbidden`) {
		t.Errorf("pause --all as a requester: %q", problem)
	}
	for _, denied := range []string{"storageversionmigrations/status", "storagestates",
		"storagestates/status", "storageversions"} {
		client, err := apiserver.NewClient(i.cluster.ConfigAs("requester"))
		if err != nil {
			t.Fatal(err)
		}
		for _, verb := range []string{"create", "update", "patch", "delete"} {
			if i.may(client, verb, "migration.k8s.io", denied, "") {
				t.Errorf("a requester may %s %s", verb, denied)
			}
		}
	}
	if err := i.client.Delete().AbsPath(records.MigrationsPath,
		"widgets.demo.example.com").Do(t.Context()).Error(); err != nil {
		t.Fatal(err)
	}
}
