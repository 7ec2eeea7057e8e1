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

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

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
func (c *checkCommand) target(ctx context.Context) (*upgrade.Target, error) {
	switch {
	case c.targetServer != "":
		return c.askTarget(ctx)
	case !c.command.Flags().Changed("target-version"):
		return nil, nil
	}
	target, err := targetRelease(c.name, c.targetVersion)
	if err != nil && !errors.As(err, new(*exit.Hint)) {
		return nil, arg.Invalid(c.command, "target-version", c.targetVersion, "a release of Kubernetes, such as 1.36")
	}
	return target, err
}

// targetRelease returns the target for a release. The error for an unknown one has a hint.
func targetRelease(program, release string) (*upgrade.Target, error) {
	table, minor, known, err := upgrade.ReleaseTable(release)
	if err != nil {
		return nil, err
	}
	if !known {
		return nil, unknownRelease(program, minor, "")
	}
	return &upgrade.Target{Name: "Kubernetes " + minor, Table: table}, nil
}

// unknownRelease returns the error for a release without a table. flags, such as "--explain ", are a part of the
// command that it suggests.
func unknownRelease(program, release, flags string) error {
	known := upgrade.Known()
	return exit.TryCode(fmt.Errorf("the versions that Kubernetes %s can decode are unknown: known releases are %s",
		release, upgrade.KnownRange()),
		program+" check "+flags+"--target-version "+known[len(known)-1], exit.Undetermined)
}

// askTarget asks the API server that has to decode the stored objects for its release, its CRDs, and the versions that
// it declares to decode.
func (c *checkCommand) askTarget(ctx context.Context) (*upgrade.Target, error) {
	config, err := c.targetConfig()
	if err != nil {
		return nil, exit.Try(fmt.Errorf("--target-server %s: %w", c.targetServer, exit.OneLine(err)),
			"kubectl config get-contexts")
	}
	q, err := c.connectTo(config)
	if err != nil {
		return nil, err
	}
	release, err := q.Release(ctx)
	if err != nil {
		return nil, q.Explain("read the version of the target", err)
	}
	target := &upgrade.Target{Name: fmt.Sprintf("%s (Kubernetes %s)", c.targetServer, release),
		CRDs: map[schema.GroupResource]upgrade.CRD{}}
	err = crd.Each(ctx, q.REST, func(d *crd.CRD) {
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
	target.Table, err = targetTable(ctx, q, release)
	return target, err
}

// targetTable returns the table of the release, or a table of what the server declares about itself.
func targetTable(ctx context.Context, q *records.Client, release string) (upgrade.Table, error) {
	table, _, known, err := upgrade.ReleaseTable(release)
	if err == nil && known {
		return table, nil
	}
	var raw json.RawMessage
	switch err := q.Send(ctx, q.REST.Get().AbsPath(records.ServerDeclarationsPath), &raw); {
	case apierrors.IsNotFound(err):
		return table, unknownRelease(q.Program, release, "")
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
		return table, unknownRelease(q.Program, release, "")
	}
	return table, err
}

// targetConfig returns the configuration for the target: another address with the credentials that the flags name, or
// another context.
func (c *checkCommand) targetConfig() (*rest.Config, error) {
	overrides := &clientcmd.ConfigOverrides{CurrentContext: c.targetServer}
	if strings.Contains(c.targetServer, "://") {
		other := *c.overrides
		other.ClusterInfo.Server = c.targetServer
		overrides = &other
	} else if raw, err := c.kubeconfig.Load(); err != nil {
		return nil, err
	} else if raw.Contexts[c.targetServer] == nil {
		return nil, errors.New("it is neither a URL nor a context of the kubeconfig")
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(c.kubeconfig, overrides).ClientConfig()
	if err != nil {
		return nil, err
	}
	return migrate.WithSharedBackoff(config), nil
}

// explainRefuses are the flags of check that say what to read from a cluster; --explain reads nothing.
var explainRefuses = []string{"target-server", "filename", "snapshot", "etcd-endpoints", "cacert", "cert",
	"key", "prefix", "max-age"}

// compareReleases shows what changes from release to release up to the target, or up to the newest known release. It
// sends no request.
func (c *checkCommand) compareReleases() error {
	for _, name := range explainRefuses {
		if c.command.Flags().Changed(name) {
			return exit.Usage(c.command, fmt.Errorf("--explain compares releases and reads no cluster: --%s has no "+
				"meaning with it", name))
		}
	}
	if c.output == render.HTML {
		return exit.Usage(c.command, fmt.Errorf("--explain and --output=%s cannot be used together", c.output))
	}
	if err := c.scope.Check(c.command); err != nil {
		return err
	}
	known := upgrade.Known()
	target := known[len(known)-1]
	if c.command.Flags().Changed("target-version") {
		_, minor, found, err := upgrade.ReleaseTable(c.targetVersion)
		switch {
		case err != nil:
			return exit.Usage(c.command, fmt.Errorf("--target-version: %w", err))
		case !found:
			return unknownRelease(c.name, minor, "--explain ")
		}
		target = minor
	}
	explanation := render.Explanation{Target: target, Releases: known[:slices.Index(known, target)+1]}
	for _, name := range c.scope.Names {
		named := func(r schema.GroupResource) bool { return answersTo(r, name) }
		if !slices.ContainsFunc(upgrade.BuiltIn(target), named) {
			return exit.Try(fmt.Errorf("no release from %s to %s has a built-in resource %s", known[0], target, name),
				c.name+" check --explain")
		}
	}
	for _, change := range upgrade.Changes(target) {
		named := func(name string) bool { return answersTo(schema.ParseGroupResource(change.Resource), name) }
		if c.scope.Holds([]string{change.Resource}, false) &&
			(len(c.scope.Names) == 0 || slices.ContainsFunc(c.scope.Names, named)) {
			explanation.Changes = append(explanation.Changes, change)
		}
	}
	if err := render.Explain(c.Out, c.output, c.name, c.scope.Names, explanation); err != nil {
		return fmt.Errorf("write the explanation: %w", err)
	}
	return nil
}

// answersTo reports whether a name is that of a built-in resource: its plural, with or without its group. Only API
// servers can resolve kinds and short names.
func answersTo(r schema.GroupResource, name string) bool {
	return inventory.Matches([]string{name}, r.String(), r.Resource)
}
