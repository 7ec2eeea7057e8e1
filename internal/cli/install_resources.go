// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/install"
	"github.com/kube-migrator/kube-migrator/internal/inventory"
)

// seenEnough ends a command that is done with an exit code of its own where it could not see which resources some
// groups have.
func (env *environment) seenEnough(command *cobra.Command, unseen []string) error {
	if len(unseen) == 0 {
		return nil
	}
	return hintedCode(fmt.Errorf("done, but of %s nothing is granted beyond what the roles named before: discovery "+
		"could not be read", few(unseen)),
		env.sameAgain(command), exitUndetermined)
}

// includedResources reads what may be migrated, and which group-versions could not be seen: of their groups it is what
// was granted before.
func (env *environment) includedResources(
	ctx context.Context, command *cobra.Command, o install.Options, config *rest.Config, client rest.Interface,
) (resources []schema.GroupResource, unseen []string, err error) {
	all, err := inventory.Take(ctx, client)
	if err != nil {
		return nil, nil, env.unreachable(config, err)
	}
	if resources, err = env.selected(command, o, all); err != nil {
		return nil, nil, err
	}
	var groups []string
	for _, failure := range all.Failures {
		if !o.Extends() { // the controller grants what it sees later
			fmt.Fprintf(env.Err, "Skipped: %s\n", strings.Join(strings.Fields(failure.String()), " "))
		}
		if gv, err := schema.ParseGroupVersion(failure.What); err == nil && gv.Version != "" &&
			gv.Group == failure.Group && failure.What != "APIServices" && failure.What != "CustomResourceDefinitions" {
			groups, unseen = append(groups, gv.Group), append(unseen, failure.What)
		}
	}
	if o.Extends() {
		unseen = nil
	}
	if len(groups) > 0 {
		kept, err := install.Kept(ctx, client, groups, o.Include, o.Exclude)
		if err != nil {
			return nil, nil, env.explainInstall(ctx, command, o.Namespace, err)
		}
		resources = append(resources, kept...)
	}
	return resources, unseen, nil
}

// selected are the resources that the patterns include.
func (env *environment) selected(command *cobra.Command, o install.Options,
	all *inventory.Inventory) ([]schema.GroupResource, error) {
	resources, err := install.Included(all, o.Include, o.Exclude)
	if unknown := (*inventory.NotFoundError)(nil); errors.As(err, &unknown) && len(unknown.Near) > 0 {
		return nil, hinted(err, command.CommandPath()+" "+quoted("--include="+unknown.Near[0]))
	}
	if err != nil {
		return nil, env.notFound(command, err)
	}
	if len(resources) == 0 {
		return nil, usageError(command, errors.New("--include and --exclude leave nothing that could be migrated"))
	}
	return resources, nil
}
