// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/cli/exit"
	"github.com/kube-migrator/kube-migrator/internal/cli/records"
	"github.com/kube-migrator/kube-migrator/internal/install"
	"github.com/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/internal/shell"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// guarded decides whether the installation has a guard, and warns if it has none.
func (env *environment) guarded(
	ctx context.Context, command *cobra.Command, f *installFlags, client rest.Interface, o install.Options,
) (bool, error) {
	const unserved = "the API server serves no ValidatingAdmissionPolicies of admissionregistration.k8s.io/v1"
	chosen := command.Flags().Changed("guard") // or remembered
	warn := func(why string) (bool, error) {
		fmt.Fprintf(env.Err, "Warning: %s, so nothing keeps the workers from changing what they may patch: "+
			"protect their namespace and tokens like those of an administrator.\n", why)
		return false, nil
	}
	switch {
	case !o.Guard && o.Workers != install.Jobs:
		return warn("with --workers=" + string(o.Workers) + " there is no guard")
	case !o.Guard:
		return warn("with --guard=false there is no guard")
	case f.export && slices.Contains(f.forget, forgetAll) && chosen:
		return true, nil // without a cluster
	}
	served, err := install.Guardable(ctx, client)
	switch {
	case err != nil:
		return false, env.explainInstall(ctx, command, o.Namespace, err)
	case served:
		return true, nil
	case chosen:
		return false, exit.Try(errors.New(unserved+", which the guard needs"), env.sameAgain(command, "--guard=false"))
	}
	return warn(unserved)
}

// warnOfImage warns if the name of the image does not determine which program runs.
func (env *environment) warnOfImage(o install.Options) {
	if text := install.ImageWarning(o.Image); text != "" {
		fmt.Fprintln(env.Err, "Warning: "+text)
	}
}

// warnOfRestarts warns if the evidence about API servers of this release is never strong enough to migrate.
func (env *environment) warnOfRestarts(ctx context.Context, command *cobra.Command,
	o install.Options, q *records.Client) error {
	if o.MinEvidence <= migrate.Sampled {
		return nil
	}
	release, err := q.Release(ctx)
	if err != nil {
		return q.Explain("read the version of the API server", err)
	}
	if !agreement.ShowsRestarts(release) {
		fmt.Fprintf(env.Err, "Warning: API servers older than 1.35 do not show that they were restarted (%s), so "+
			"evidence about them is Sampled: what is stored is "+
			"recorded, and nothing is migrated. To migrate on that evidence: %s\n", release,
			env.sameAgain(command, "--min-evidence=sampled"))
	}
	return nil
}

// notInTag are the characters that a version may contain and the tag of an image may not.
var notInTag = regexp.MustCompile(`[^A-Za-z0-9_.-]+`)

// defaultImage returns the image of a release, or of the user's own build. The name of the latter begins with
// localhost: without a registry, each node would decide where to look for it, and an attacker with access to that place
// would get the permissions of the installation.
func defaultImage(b Build) string {
	if b.Image != "" {
		return b.Image
	}
	return "localhost/kube-migrator:" + strings.Trim(notInTag.ReplaceAllString(b.Version, "-"), "-.")
}

// seenEnough returns an error with its own exit code if the command could not find out which resources some groups
// have.
func (env *environment) seenEnough(command *cobra.Command, unseen []string) error {
	if len(unseen) == 0 {
		return nil
	}
	return exit.TryCode(fmt.Errorf("done, but of %s nothing is granted beyond what the roles named before: discovery "+
		"could not be read", few(unseen)),
		env.sameAgain(command), exit.Undetermined)
}

// includedResources reads the resources that may be migrated, and which group-versions could not be read. For their
// groups it returns the resources for which permissions were granted before.
func (env *environment) includedResources(
	ctx context.Context, command *cobra.Command, o install.Options, config *rest.Config, client rest.Interface,
) (resources []schema.GroupResource, unseen []string, err error) {
	all, err := inventory.Take(ctx, client)
	if err != nil {
		return nil, nil, exit.Unreachable(config.Host, err)
	}
	if resources, err = env.selected(command, o, all); err != nil {
		return nil, nil, err
	}
	var groups []string
	for _, failure := range all.Failures {
		if !o.Extends() { // otherwise the controller grants permissions for resources that it finds later
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

// selected returns the resources that the patterns include.
func (env *environment) selected(command *cobra.Command, o install.Options,
	all *inventory.Inventory) ([]schema.GroupResource, error) {
	resources, err := install.Included(all, o.Include, o.Exclude)
	if unknown := (*inventory.NotFoundError)(nil); errors.As(err, &unknown) && len(unknown.Near) > 0 {
		return nil, exit.Try(err, command.CommandPath()+" "+shell.Quote("--include="+unknown.Near[0]))
	}
	if err != nil {
		return nil, exit.NotFound(env.name, command, err)
	}
	if len(resources) == 0 {
		return nil, exit.Usage(command, errors.New("--include and --exclude leave nothing that could be migrated"))
	}
	return resources, nil
}
