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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/upgrade"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// target returns the target, which has to decode the stored objects, or nil if the flags name none.
func (env *environment) target(ctx context.Context, command *cobra.Command, f *checkFlags) (*upgrade.Target, error) {
	switch {
	case f.targetServer != "":
		return env.targetServer(ctx, f.targetServer)
	case !command.Flags().Changed("target-version"):
		return nil, nil
	}
	target, err := env.targetRelease(f.targetVersion)
	if err != nil && !errors.As(err, new(*exit.Hint)) {
		return nil, arg.Invalid(command, "target-version", f.targetVersion, "a release of Kubernetes, such as 1.36")
	}
	return target, err
}

// targetRelease returns the target for a release. The error for an unknown one has a hint.
func (env *environment) targetRelease(release string) (*upgrade.Target, error) {
	table, minor, known, err := upgrade.ReleaseTable(release)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, env.unknownRelease(minor, "")
	}
	return &upgrade.Target{Name: "Kubernetes " + minor, Table: table}, nil
}

// unknownRelease returns the error for a release without a table. flags, such as "--explain ", are a part of the
// command that it suggests.
func (env *environment) unknownRelease(release, flags string) error {
	known := upgrade.Known()
	return exit.TryCode(fmt.Errorf("the versions that Kubernetes %s can decode are unknown: known releases are %s",
		release, upgrade.KnownRange()),
		env.name+" check "+flags+"--target-version "+known[len(known)-1], exit.Undetermined)
}

// targetServer asks the API server that has to decode the stored objects for its release, its CRDs, and the versions
// that it declares to decode.
func (env *environment) targetServer(ctx context.Context, where string) (*upgrade.Target, error) {
	config, err := env.targetConfig(where)
	if err != nil {
		return nil, exit.Try(fmt.Errorf("--target-server %s: %w", where, exit.OneLine(err)),
			"kubectl config get-contexts")
	}
	client, err := apiserver.NewClient(config)
	if err != nil {
		return nil, err
	}
	q := env.records(config, client)
	release, err := q.Release(ctx)
	if err != nil {
		return nil, q.Explain("read the version of the target", err)
	}
	target := &upgrade.Target{Name: fmt.Sprintf("%s (Kubernetes %s)", where, release),
		CRDs: map[schema.GroupResource]upgrade.CRD{}}
	err = crd.Each(ctx, client, func(d *crd.CRD) {
		names := d.Spec.Names
		custom := upgrade.CRD{Group: d.Spec.Group, Kind: names.Kind}
		for _, v := range d.Spec.Versions {
			custom.Versions = append(custom.Versions, v.Name)
		}
		target.CRDs[schema.GroupResource{Group: d.Spec.Group, Resource: names.Plural}] = custom
	})
	if err != nil {
		return nil, q.Explain("read the CustomResourceDefinitions of the target", err)
	}
	// The declarations of this cluster replace those that the target does not have. So it is an error if reading them
	// is forbidden at the target.
	if target.Aggregated, err = q.ReadDeclared(ctx, true); err != nil {
		return nil, err
	}
	target.Table, err = env.targetTable(ctx, q, release)
	return target, err
}

// targetTable returns the table of the release, or a table of what the server declares about itself.
func (env *environment) targetTable(ctx context.Context, q *records.Client, release string) (upgrade.Table, error) {
	table, _, known, err := upgrade.ReleaseTable(release)
	if err == nil && known {
		return table, nil
	}
	var raw json.RawMessage
	switch err := q.Send(ctx, q.REST.Get().AbsPath(records.ServerDeclarationsPath), &raw); {
	case apierrors.IsNotFound(err):
		return table, env.unknownRelease(release, "")
	case err != nil:
		return table, q.Explain("read the StorageVersions of the target", err)
	}
	inv, err := inventory.Take(ctx, q.REST)
	if err != nil {
		return table, exit.Unreachable(q.Host, err)
	}
	kinds := map[schema.GroupResource]string{}
	for _, r := range inv.Resources {
		for _, name := range records.NamesOf(r) {
			kinds[name] = r.Kind
		}
	}
	if table, err = upgrade.NewTable(release, raw, kinds); err == nil && len(table.Decodable) == 0 {
		return table, env.unknownRelease(release, "")
	}
	return table, err
}

// targetConfig returns the configuration for the target: another address with the credentials that the flags name, or
// another context.
func (env *environment) targetConfig(where string) (*rest.Config, error) {
	overrides := &clientcmd.ConfigOverrides{CurrentContext: where}
	if strings.Contains(where, "://") {
		other := *env.overrides
		other.ClusterInfo.Server = where
		overrides = &other
	} else if raw, err := env.kubeconfig.Load(); err != nil {
		return nil, err
	} else if raw.Contexts[where] == nil {
		return nil, errors.New("it is neither a URL nor a context of the kubeconfig")
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(env.kubeconfig, overrides).ClientConfig()
	if err != nil {
		return nil, err
	}
	return migrate.WithSharedBackoff(config), nil
}

// explainRefuses are the flags of check that say what to read from a cluster; --explain reads nothing.
var explainRefuses = []string{"target-server", "filename", "snapshot", "etcd-endpoints", "cacert", "cert",
	"key", "prefix", "max-age"}

// explain shows what changes from release to release up to the target, or up to the newest known release. It sends no
// request.
func (env *environment) explain(command *cobra.Command, f *checkFlags) error {
	for _, name := range explainRefuses {
		if command.Flags().Changed(name) {
			return exit.Usage(command, fmt.Errorf("--explain compares releases and reads no cluster: --%s has no "+
				"meaning with it", name))
		}
	}
	if f.output == render.HTML {
		return exit.Usage(command, fmt.Errorf("--explain and --output=%s cannot be used together", f.output))
	}
	if err := f.scope.Check(command); err != nil {
		return err
	}
	known := upgrade.Known()
	target := known[len(known)-1]
	if command.Flags().Changed("target-version") {
		_, minor, found, err := upgrade.ReleaseTable(f.targetVersion)
		switch {
		case err != nil:
			return exit.Usage(command, fmt.Errorf("--target-version: %w", err))
		case !found:
			return env.unknownRelease(minor, "--explain ")
		}
		target = minor
	}
	explanation := render.Explanation{Target: target, Releases: known[:slices.Index(known, target)+1]}
	for _, name := range f.scope.Names {
		if !slices.ContainsFunc(upgrade.BuiltIn(target), func(r schema.GroupResource) bool {
			return answersTo(r,
				name)
		}) {
			return exit.Try(fmt.Errorf("no release from %s to %s has a built-in resource %s", known[0], target, name),
				env.name+" check --explain")
		}
	}
	for _, change := range upgrade.Changes(target) {
		if r := schema.ParseGroupResource(change.Resource); f.scope.Holds([]string{change.Resource}, false) &&
			(len(f.scope.Names) == 0 || slices.ContainsFunc(f.scope.Names, func(name string) bool {
				return answersTo(r,
					name)
			})) {
			explanation.Changes = append(explanation.Changes, change)
		}
	}
	if err := render.Explain(env.Out, f.output, env.name, f.scope.Names, explanation); err != nil {
		return fmt.Errorf("write the explanation: %w", err)
	}
	return nil
}

// answersTo reports whether a name is that of a built-in resource: its plural, with or without its group. Only API
// servers can resolve kinds and short names.
func answersTo(r schema.GroupResource, name string) bool {
	return inventory.Matches([]string{name}, r.String(), r.Resource)
}
