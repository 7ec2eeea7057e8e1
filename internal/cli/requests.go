// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/install"
	"github.com/kube-migrator/kube-migrator/internal/inventory"
)

const (
	requestsPath = "/apis/migration.k8s.io/v1alpha1/storageversionmigrations"
	// requestsName is what kubectl calls one of them.
	requestsName = "storageversionmigration.migration.k8s.io/"
	fieldManager = "kube-migrator"
)

// requests are the StorageVersionMigrations of a cluster: what the controller there is asked for.
type requests struct {
	env    *environment
	config *rest.Config
	client rest.Interface
	// dryRun: the API server checks what is written, and forgets it.
	dryRun bool
}

func (env *environment) requests() (*requests, error) {
	config, err := env.config()
	if err != nil {
		return nil, err
	}
	client, err := apiserver.NewClient(config)
	if err != nil {
		return nil, err
	}
	return &requests{env: env, config: config, client: client}, nil
}

// send sends a request and reads the answer. An error has what the API server said.
func (q *requests) send(ctx context.Context, request *rest.Request, answer any) error {
	if q.dryRun {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	result := request.Do(ctx)
	raw, err := result.Raw()
	if err != nil {
		return result.Error()
	}
	return json.Unmarshal(raw, answer)
}

// list returns all of them. Where the API server does not know the API, the error says how to install it.
func (q *requests) list(ctx context.Context) ([]v1alpha1.StorageVersionMigration, error) {
	var list v1alpha1.StorageVersionMigrationList
	if err := q.send(ctx, q.client.Get().AbsPath(requestsPath), &list); err != nil {
		return nil, q.explain("list StorageVersionMigrations", err)
	}
	return list.Items, nil
}

// get returns one; nil where there is none of the name.
func (q *requests) get(ctx context.Context, name string) (*v1alpha1.StorageVersionMigration, error) {
	path, err := apipath.Join(requestsPath, name)
	if err != nil {
		return nil, q.explain("read StorageVersionMigration", err)
	}
	var m v1alpha1.StorageVersionMigration
	err = q.send(ctx, q.client.Get().AbsPath(path), &m)
	if isNoObject(err) {
		return nil, nil
	}
	if err != nil {
		return nil, q.explain("read "+name, err)
	}
	return &m, nil
}

func (q *requests) create(ctx context.Context,
	m *v1alpha1.StorageVersionMigration) (*v1alpha1.StorageVersionMigration, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	var created v1alpha1.StorageVersionMigration
	request := q.client.Post().AbsPath(requestsPath).Param("fieldManager", fieldManager).SetHeader("Content-Type",
		"application/json").Body(body)
	return &created, q.send(ctx, request, &created)
}

// patch changes the spec of m, unless m is not any more what was read.
func (q *requests) patch(ctx context.Context, m *v1alpha1.StorageVersionMigration,
	spec map[string]any) (*v1alpha1.StorageVersionMigration, error) {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": m.UID, "resourceVersion": m.ResourceVersion}, "spec": spec,
	})
	if err != nil {
		return nil, err
	}
	path, err := apipath.Join(requestsPath, m.Name)
	if err != nil {
		return nil, err
	}
	var patched v1alpha1.StorageVersionMigration
	request := q.client.Patch(types.MergePatchType).AbsPath(path).Param("fieldManager", fieldManager).Body(body)
	return &patched, q.send(ctx, request, &patched)
}

var errNotInstalled = errors.New("kube-migrator is not installed in this cluster: it does not serve " +
	"migration.k8s.io/v1alpha1")

// isNoObject reports that the API is there, and an object is not: only then the answer names it.
func isNoObject(err error) bool {
	status := apierrors.APIStatus(nil)
	return apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil &&
		status.Status().Details.Name != ""
}

// explain tells what a failed request means.
func (q *requests) explain(what string, err error) error {
	status, known := apierrors.APIStatus(nil), (*userError)(nil)
	switch {
	case errors.As(err, &known):
		return err
	case apierrors.IsNotFound(err) && !isNoObject(err):
		return hinted(errNotInstalled, q.env.name+" install")
	case apierrors.IsForbidden(err):
		return hinted(fmt.Errorf("%s: %w%s", what, err, roleFor(err)), "kubectl auth can-i --list")
	case errors.As(err, &status):
		return fmt.Errorf("%s: %w", what, err)
	}
	return hinted(fmt.Errorf("%s at %s: %w", what, q.config.Host, err), "kubectl version")
}

// roleFor names the ClusterRole that grants what was forbidden; empty where none of ours does.
func roleFor(err error) string {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Details == nil ||
		status.Status().Details.Group != v1alpha1.SchemeGroupVersion.Group {
		return ""
	}
	return "; the ClusterRole " + install.ViewerRole + " allows reading, " + install.RequesterRole + " also requests"
}

// resourceOf is the resource that a migration is about.
func resourceOf(m *v1alpha1.StorageVersionMigration) schema.GroupResource {
	return schema.GroupResource{Group: m.Spec.Resource.Group, Resource: m.Spec.Resource.Resource}
}

// find returns the migrations that words name, each once: all those of a resource, whatever they are called, or the one
// of a name. The inventory is asked for only where a word is neither.
func (q *requests) find(ctx context.Context, command *cobra.Command, words []string,
	all []v1alpha1.StorageVersionMigration) ([]v1alpha1.StorageVersionMigration, error) {
	var found []v1alpha1.StorageVersionMigration
	var inv *inventory.Inventory
	for _, word := range words {
		matching := matches(all, func(m *v1alpha1.StorageVersionMigration) bool {
			return m.Name == word || resourceOf(m).String() == strings.ToLower(word)
		})
		if len(matching) == 0 {
			if inv == nil {
				var err error
				if inv, err = inventory.Take(ctx, q.client); err != nil {
					return nil, q.env.unreachable(q.config, err)
				}
			}
			if r, err := inv.Find(word); err == nil {
				matching = matches(all, isAbout(r))
			}
		}
		if len(matching) == 0 {
			return nil, q.noneOf(command, word, all)
		}
		for i := range matching {
			if !slices.ContainsFunc(found, func(m v1alpha1.StorageVersionMigration) bool { return m.UID == matching[i].UID }) {
				found = append(found, matching[i])
			}
		}
	}
	return found, nil
}

func (q *requests) noneOf(command *cobra.Command, word string, all []v1alpha1.StorageVersionMigration) error {
	err := fmt.Errorf("there is no StorageVersionMigration of %q", word)
	var names []string
	for i := range all {
		names = append(names, all[i].Name, resourceOf(&all[i]).String())
	}
	slices.Sort(names)
	near := inventory.Nearest(word, slices.Compact(names))
	if len(near) == 0 {
		return hinted(err, q.env.name+" request "+word)
	}
	return hinted(err, command.CommandPath()+" "+near[0])
}

// isAbout returns whether a migration is about a resource, under any of its names.
func isAbout(r inventory.Resource) func(*v1alpha1.StorageVersionMigration) bool {
	names := r.Names()
	return func(m *v1alpha1.StorageVersionMigration) bool { return slices.Contains(names, resourceOf(m).String()) }
}

func matches(all []v1alpha1.StorageVersionMigration, is func(*v1alpha1.StorageVersionMigration) bool) []v1alpha1.StorageVersionMigration {
	var matching []v1alpha1.StorageVersionMigration
	for i := range all {
		if is(&all[i]) {
			matching = append(matching, all[i])
		}
	}
	return matching
}

func conditionOf(m *v1alpha1.StorageVersionMigration, t v1alpha1.ConditionType) *v1alpha1.Condition {
	for i := range m.Status.Conditions {
		if m.Status.Conditions[i].Type == t {
			return &m.Status.Conditions[i]
		}
	}
	return nil
}

func holds(m *v1alpha1.StorageVersionMigration, t v1alpha1.ConditionType) bool {
	c := conditionOf(m, t)
	return c != nil && c.Status == metav1.ConditionTrue
}

func messageOf(m *v1alpha1.StorageVersionMigration, t v1alpha1.ConditionType) string {
	if c := conditionOf(m, t); c != nil {
		return c.Message
	}
	return ""
}

// attempts bounds how often a change is tried again that somebody else was faster than.
const attempts = 10

// insist reads and changes until nobody was faster.
func insist(ctx context.Context, change func() error) error {
	var err error
	for range attempts {
		if err = change(); !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
}
