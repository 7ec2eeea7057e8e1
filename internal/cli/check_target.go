// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/internal/upgrade"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const declarationsPath = "/apis/internal.apiserver.k8s.io/v1alpha1/storageversions"

// target is who is to decode what is stored; nil where the flags name nobody.
func (env *environment) target(ctx context.Context, command *cobra.Command, f *checkFlags) (*upgrade.Target, error) {
	switch {
	case f.targetServer != "":
		return env.targetServer(ctx, f.targetServer)
	case !command.Flags().Changed("target-version"):
		return nil, nil
	}
	table, minor, known, err := upgrade.ReleaseTable(f.targetVersion)
	if err != nil {
		return nil, invalidValue(command, "target-version", f.targetVersion, "a release of Kubernetes, such as 1.36")
	}
	if !known {
		return nil, env.unknownRelease(minor, "")
	}
	return &upgrade.Target{Name: "Kubernetes " + minor, Table: table}, nil
}

// unknownRelease says that there is no table of a release. The command that it offers has flags, such as "--explain ",
// in it.
func (env *environment) unknownRelease(release, flags string) error {
	known := upgrade.Known()
	return hintedCode(fmt.Errorf("what Kubernetes %s can decode is not known: known are %s",
		release, upgrade.KnownRange()),
		env.name+" check "+flags+"--target-version "+known[len(known)-1], exitUndetermined)
}

// targetServer asks the API server that is to decode what is stored: for its definitions, and which release it is.
func (env *environment) targetServer(ctx context.Context, where string) (*upgrade.Target, error) {
	config, err := env.targetConfig(where)
	if err != nil {
		return nil, hinted(fmt.Errorf("--target-server %s: %w", where, oneLine(err)), "kubectl config get-contexts")
	}
	client, err := apiserver.NewClient(config)
	if err != nil {
		return nil, err
	}
	q := &requests{env: env, config: config, client: client}
	release, err := q.release(ctx)
	if err != nil {
		return nil, q.explain("read the version of the target", err)
	}
	target := &upgrade.Target{Name: fmt.Sprintf("%s (Kubernetes %s)", where, release),
		Definitions: map[schema.GroupResource]upgrade.Definition{}}
	err = crd.Each(ctx, client, func(d *crd.Definition) {
		names := d.Spec.Names
		definition := upgrade.Definition{Group: d.Spec.Group, Kind: names.Kind}
		for _, v := range d.Spec.Versions {
			definition.Versions = append(definition.Versions, v.Name)
		}
		target.Definitions[schema.GroupResource{Group: d.Spec.Group, Resource: names.Plural}] = definition
	})
	if err != nil {
		return nil, q.explain("read the definitions of the target", err)
	}
	target.Table, err = env.targetTable(ctx, q, release)
	return target, err
}

// release returns the release that the API server says it is: "v1.37.0".
func (q *requests) release(ctx context.Context) (string, error) {
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	err := q.send(ctx, q.client.Get().AbsPath("/version"), &version)
	return version.GitVersion, err
}

// targetTable is that of the release, else what the server declares of itself.
func (env *environment) targetTable(ctx context.Context, q *requests, release string) (upgrade.Table, error) {
	table, _, known, err := upgrade.ReleaseTable(release)
	if err == nil && known {
		return table, nil
	}
	var raw json.RawMessage
	switch err := q.send(ctx, q.client.Get().AbsPath(declarationsPath), &raw); {
	case apierrors.IsNotFound(err):
		return table, env.unknownRelease(release, "")
	case err != nil:
		return table, q.explain("read the StorageVersions of the target", err)
	}
	inv, err := inventory.Take(ctx, q.client)
	if err != nil {
		return table, env.unreachable(q.config, err)
	}
	kinds := map[schema.GroupResource]string{}
	for _, r := range inv.Resources {
		for _, name := range namesOf(r) {
			kinds[name] = r.Kind
		}
	}
	if table, err = upgrade.NewTable(release, raw, kinds); err == nil && len(table.Decodable) == 0 {
		return table, env.unknownRelease(release, "")
	}
	return table, err
}

// targetConfig is how to reach the target: another address with the credentials that the flags name, or another
// context.
func (env *environment) targetConfig(where string) (*rest.Config, error) {
	overrides := &clientcmd.ConfigOverrides{CurrentContext: where}
	if strings.Contains(where, "://") {
		other := *env.overrides
		other.ClusterInfo.Server = where
		overrides = &other
	} else if raw, err := env.kubeconfig.Load(); err != nil {
		return nil, err
	} else if raw.Contexts[where] == nil {
		return nil, errors.New("the kubeconfig has no such context, and it is no URL")
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(env.kubeconfig, overrides).ClientConfig()
	if err != nil {
		return nil, err
	}
	return migrate.WithSharedBackoff(config), nil
}
