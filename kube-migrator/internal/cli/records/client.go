// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package records reads the records of kube-migrator in a cluster, which are StorageVersionMigrations and
// StorageStates, and combines all facts about each resource. It also owns which resources a command line selects.
//
// It does not decide about safety: package upgrade judges the facts.
package records

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
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
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

const (
	// MigrationsPath is where the API server serves StorageVersionMigrations.
	MigrationsPath = "/apis/migration.k8s.io/v1alpha1/storageversionmigrations"
	// StatesPath is where it serves StorageStates.
	StatesPath = "/apis/migration.k8s.io/v1alpha1/storagestates"
	// MigrationPrefix precedes the name of a StorageVersionMigration in the output of kubectl -o name.
	MigrationPrefix = "storageversionmigration.migration.k8s.io/"

	fieldManager = "kube-migrator"
)

// Client reads the records of a cluster, and changes the specs of its StorageVersionMigrations.
type Client struct {
	REST rest.Interface
	// Host is the API server's address, for errors.
	Host string
	// Program is the name of the program, for the commands in errors.
	Program string
	// Notes receives what users should know besides the result.
	Notes io.Writer
	// DryRun makes the API server check each write and store nothing.
	DryRun bool
}

// Send sends a request and decodes the response. An error contains the message of the API server.
func (q *Client) Send(ctx context.Context, request *rest.Request, answer any) error {
	if q.DryRun {
		request = request.Param("dryRun", metav1.DryRunAll)
	}
	return apiserver.Send(ctx, request, answer)
}

// List returns all StorageVersionMigrations. If the API server does not know the API, the error says how to install it.
func (q *Client) List(ctx context.Context) ([]v1alpha1.StorageVersionMigration, error) {
	all, err := listPages(ctx, q, MigrationsPath, func(page []byte) ([]v1alpha1.StorageVersionMigration, string,
		error) {
		var list v1alpha1.StorageVersionMigrationList
		err := json.Unmarshal(page, &list)
		return list.Items, list.Continue, err
	})
	if err != nil {
		return nil, q.Explain("list StorageVersionMigrations", err)
	}
	return all, nil
}

const (
	// pageSize is how many objects are listed with one request.
	pageSize = 500
	// maxObjects bounds a list: a cluster has one object per resource, and a list without an end is a fault of the
	// server.
	maxObjects = 50_000
)

// listPages lists the objects of a path, page by page. decode returns the objects of a page and its continue token. If
// the token expires, the list starts over.
func listPages[T any](ctx context.Context, q *Client, path string,
	decode func(page []byte) ([]T, string, error)) (all []T, err error) {
	next := ""
	for restarts := 0; ; {
		request := q.REST.Get().AbsPath(path).Param("limit", strconv.Itoa(pageSize))
		if next != "" {
			request = request.Param("continue", next)
		}
		var page json.RawMessage
		err := q.Send(ctx, request, &page)
		if apierrors.IsResourceExpired(err) && next != "" && restarts < attempts {
			all, next, restarts = nil, "", restarts+1
			continue
		}
		if err != nil {
			return nil, err
		}
		items, token, err := decode(page)
		if err != nil {
			return nil, fmt.Errorf("decode the list: %w", err)
		}
		if all = append(all, items...); len(all) > maxObjects {
			return nil, fmt.Errorf("the list has more than %d objects", maxObjects)
		}
		if token == "" {
			return all, nil
		}
		if token == next {
			return nil, errors.New("the list does not end: its continue token does not change")
		}
		next = token
	}
}

// Get returns the StorageVersionMigration of a name, or nil if there is none.
func (q *Client) Get(ctx context.Context, name string) (*v1alpha1.StorageVersionMigration, error) {
	path, err := apipath.Join(MigrationsPath, name)
	if err != nil {
		return nil, q.Explain("read StorageVersionMigration", err)
	}
	var m v1alpha1.StorageVersionMigration
	err = q.Send(ctx, q.REST.Get().AbsPath(path), &m)
	if isNoObject(err) {
		return nil, nil
	}
	if err != nil {
		return nil, q.Explain("read "+name, err)
	}
	return &m, nil
}

// Create creates a StorageVersionMigration.
func (q *Client) Create(ctx context.Context,
	m *v1alpha1.StorageVersionMigration) (*v1alpha1.StorageVersionMigration, error) {
	body, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	var created v1alpha1.StorageVersionMigration
	request := q.REST.Post().AbsPath(MigrationsPath).Param("fieldManager", fieldManager).SetHeader("Content-Type",
		"application/json").Body(body)
	return &created, q.Send(ctx, request, &created)
}

// Patch changes the spec of m, unless m has changed since it was read.
func (q *Client) Patch(ctx context.Context, m *v1alpha1.StorageVersionMigration,
	spec map[string]any) (*v1alpha1.StorageVersionMigration, error) {
	return q.Annotate(ctx, m, nil, spec)
}

// Annotate is Patch for annotations and the spec. nil changes nothing.
func (q *Client) Annotate(ctx context.Context, m *v1alpha1.StorageVersionMigration,
	annotations, spec map[string]any) (*v1alpha1.StorageVersionMigration, error) {
	metadata := map[string]any{"uid": m.UID, "resourceVersion": m.ResourceVersion}
	if annotations != nil {
		metadata["annotations"] = annotations
	}
	patch := map[string]any{"metadata": metadata}
	if spec != nil {
		patch["spec"] = spec
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, err
	}
	path, err := apipath.Join(MigrationsPath, m.Name)
	if err != nil {
		return nil, err
	}
	var patched v1alpha1.StorageVersionMigration
	request := q.REST.Patch(types.MergePatchType).AbsPath(path).Param("fieldManager", fieldManager).Body(body)
	return &patched, q.Send(ctx, request, &patched)
}

// ErrNotInstalled says that the cluster does not serve the API of kube-migrator.
var ErrNotInstalled = errors.New("kube-migrator is not installed in this cluster: it does not serve " +
	"migration.k8s.io/v1alpha1")

// isNoObject reports that the API exists and the object does not: only then the response names the object.
func isNoObject(err error) bool {
	status := apierrors.APIStatus(nil)
	return apierrors.IsNotFound(err) && errors.As(err, &status) && status.Status().Details != nil &&
		status.Status().Details.Name != ""
}

// Explain adds the command that helps to the error of a request. what says what the request does.
func (q *Client) Explain(what string, err error) error {
	status, known := apierrors.APIStatus(nil), (*exit.Hint)(nil)
	switch {
	case errors.As(err, &known):
		return err
	case apierrors.IsNotFound(err) && !isNoObject(err):
		return exit.Try(ErrNotInstalled, q.Program+" install")
	case apierrors.IsForbidden(err):
		return exit.Try(fmt.Errorf("%s: %w%s", what, err, roleFor(err)), "kubectl auth can-i --list")
	case errors.As(err, &status):
		return fmt.Errorf("%s: %w", what, err)
	}
	return exit.Try(fmt.Errorf("%s at %s: %w", what, q.Host, err), "kubectl version")
}

// roleFor names the ClusterRoles of kube-migrator that grant what was forbidden. It is empty if none does.
func roleFor(err error) string {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Details == nil ||
		status.Status().Details.Group != v1alpha1.SchemeGroupVersion.Group {
		return ""
	}
	return "; the ClusterRole " + install.ViewerRole + " allows reading, " + install.RequesterRole + " also requests"
}

// ResourceOf returns the resource of a migration.
func ResourceOf(m *v1alpha1.StorageVersionMigration) schema.GroupResource {
	return schema.GroupResource{Group: m.Spec.Resource.Group, Resource: m.Spec.Resource.Resource}
}

// Find returns the migrations that words name, each once. A word is the name of a migration, or names a resource, all
// of whose migrations are returned. The inventory is read only if a word is neither.
func (q *Client) Find(ctx context.Context, command *cobra.Command, words []string,
	all []v1alpha1.StorageVersionMigration) ([]v1alpha1.StorageVersionMigration, error) {
	var found []v1alpha1.StorageVersionMigration
	var inv *inventory.Inventory
	for _, word := range words {
		matching := Matches(all, func(m *v1alpha1.StorageVersionMigration) bool {
			return m.Name == word || ResourceOf(m).String() == strings.ToLower(word)
		})
		if len(matching) == 0 {
			if inv == nil {
				var err error
				if inv, err = inventory.Take(ctx, q.REST); err != nil {
					return nil, exit.Unreachable(q.Host, err)
				}
			}
			if r, err := inv.Find(word); err == nil {
				matching = Matches(all, IsAbout(r))
			}
		}
		if len(matching) == 0 {
			return nil, q.NoneOf(command, word, all)
		}
		for i := range matching {
			if !slices.ContainsFunc(found, func(m v1alpha1.StorageVersionMigration) bool { return m.UID == matching[i].UID }) {
				found = append(found, matching[i])
			}
		}
	}
	return found, nil
}

// NoneOf returns the error for a word that names no migration, with the command for a similar name, if there is one.
func (q *Client) NoneOf(command *cobra.Command, word string, all []v1alpha1.StorageVersionMigration) error {
	err := fmt.Errorf("there is no StorageVersionMigration of %q", word)
	var names []string
	for i := range all {
		names = append(names, all[i].Name, ResourceOf(&all[i]).String())
	}
	slices.Sort(names)
	near := inventory.Nearest(word, slices.Compact(names))
	if len(near) == 0 {
		return exit.Try(err, q.Program+" request "+word)
	}
	return exit.Try(err, command.CommandPath()+" "+near[0])
}

// IsAbout returns whether a migration is about a resource, under any of its names.
func IsAbout(r inventory.Resource) func(*v1alpha1.StorageVersionMigration) bool {
	names := r.Names()
	return func(m *v1alpha1.StorageVersionMigration) bool { return slices.Contains(names, ResourceOf(m).String()) }
}

// Matches returns the migrations that satisfy a condition.
func Matches(all []v1alpha1.StorageVersionMigration, is func(*v1alpha1.StorageVersionMigration) bool) []v1alpha1.StorageVersionMigration {
	var matching []v1alpha1.StorageVersionMigration
	for i := range all {
		if is(&all[i]) {
			matching = append(matching, all[i])
		}
	}
	return matching
}

// ConditionOf returns the condition of a type, or nil if the migration has none.
func ConditionOf(m *v1alpha1.StorageVersionMigration, t v1alpha1.ConditionType) *v1alpha1.Condition {
	for i := range m.Status.Conditions {
		if m.Status.Conditions[i].Type == t {
			return &m.Status.Conditions[i]
		}
	}
	return nil
}

// Holds reports whether a condition is true.
func Holds(m *v1alpha1.StorageVersionMigration, t v1alpha1.ConditionType) bool {
	c := ConditionOf(m, t)
	return c != nil && c.Status == metav1.ConditionTrue
}

// MessageOf returns the message of a condition, or "" if there is none.
func MessageOf(m *v1alpha1.StorageVersionMigration, t v1alpha1.ConditionType) string {
	if c := ConditionOf(m, t); c != nil {
		return c.Message
	}
	return ""
}

// attempts bounds how often a change is retried after a conflict, and a list whose continue token expired.
const attempts = 10

// Insist repeats a function that reads and changes an object until there is no conflict.
func Insist(ctx context.Context, change func() error) error {
	var err error
	for range attempts {
		if err = change(); !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// Release returns the release of the API server, such as "v1.37.0".
func (q *Client) Release(ctx context.Context) (string, error) {
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	err := q.Send(ctx, q.REST.Get().AbsPath("/version"), &version)
	return version.GitVersion, err
}
