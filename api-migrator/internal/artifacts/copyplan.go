// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package artifacts

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/layout"
)

// Copy is how objects get from an old CRD to a new one: a cluster converts between the versions of one CRD only. The
// steps are in their order; each may be run again, and then does what is left of it.
type Copy struct {
	Why   string     `yaml:"why"`
	Steps []CopyStep `yaml:"steps"`
}

// CopyStep is one of them.
type CopyStep struct {
	Do string `yaml:"do"`
	// Commands are for a shell with kubectl and jq.
	Commands []string `yaml:"commands,omitempty"`
	// ByHand is what no command does.
	ByHand string `yaml:"byHand,omitempty"`
	// Again says why the step may be run again, or when it is done.
	Again string `yaml:"again"`
}

// Text shows the steps for users. Commands are not indented, so that they can be copied.
func (c *Copy) Text() string {
	var out strings.Builder
	fmt.Fprintf(&out, "The objects have to be copied: %s\n", c.Why)
	for i, step := range c.Steps {
		fmt.Fprintf(&out, "\n%d. %s\n", i+1, step.Do)
		if step.ByHand != "" {
			fmt.Fprintf(&out, "   By hand: %s\n", step.ByHand)
		}
		for _, command := range step.Commands {
			out.WriteString("\n" + command + "\n\n")
		}
		fmt.Fprintf(&out, "   Again: %s\n", step.Again)
	}
	return out.String()
}

// copying is what a plan of a copy is made of.
type copying struct {
	*layout.Layout
	finalizers []string          // that say the old name
	created    map[string]NewCRD // by the name of the old kind
}

// NewCRD is what Manifests says of the new CRD of a kind.
type NewCRD struct {
	// Files are its manifests.
	Files []string
	// ShortNames are those that the manifests give it.
	ShortNames []string
	// DropsOfStatus are the paths of status, or of fields of it, that Go code writes and the schema of a manifest drops.
	DropsOfStatus []string
}

// add adds a manifest, and the short names that it has.
func (c *NewCRD) add(file string, shortNames []string) {
	c.Files = append(c.Files, file)
	for _, short := range shortNames {
		if !slices.Contains(c.ShortNames, short) {
			c.ShortNames = append(c.ShortNames, short)
		}
	}
}

// NewCopy is the plan of the copy; nil where a cluster converts. It takes the finalizers that say the old name, and the
// new CRDs as Manifests returns them.
func NewCopy(l *layout.Layout, finalizers []string, created map[string]NewCRD) *Copy {
	return (&copying{Layout: l, finalizers: finalizers, created: created}).copyPlan()
}

// copyPlan is nil where a cluster converts.
func (s *copying) copyPlan() *Copy {
	if len(s.Successions) == 0 {
		return nil
	}
	plan := &Copy{Why: fmt.Sprintf("%s is another CRD than %s. No conversion, and no webhook, leads "+
		"from one to the other.", s.called(newNames), s.called(oldNames))}
	plan.Steps = []CopyStep{
		{
			Do:       "Keep the old objects outside the cluster.",
			Commands: s.each("kubectl get OLD -A -o yaml > OLD.backup.yaml"),
			Again:    "it overwrites the file. Do not run it again once old objects have been deleted.",
		},
		s.install(),
		{
			Do: "Make the old objects read-only.",
			ByHand: "let the old operator finish deletions in progress: such objects are not copied. Then stop the " +
				"operator (for example, kubectl scale --replicas=0 for its Deployment) and everything else that " +
				"writes the objects.",
			Commands: s.each(readOnly),
			Again: "it changes nothing. To abandon the copy at any time before old objects are deleted: " +
				"delete the policies and the copies (kubectl delete NEW --all -A --cascade=orphan), and start the " +
				"old operator.",
		},
		{
			Do:       "Copy the objects: everything but status, finalizers, and what the cluster sets.",
			Commands: s.each(copyObjects),
			Again: "objects that are already right do not change. If someone else has changed an object, the API " +
				"server reports a conflict that names it.",
		},
		s.status(),
		{
			Do: "Make the copies the owners of what the old objects own.", Commands: s.each(reparent),
			Again: "it is done when it prints nothing. An object that has changed in between is refused, and found " +
				"again the next time.",
			ByHand: "references in other places than metadata.ownerReferences (fields with kind and apiVersion, " +
				"labels with a UID) are not covered: look for them in the code, and update them.",
		},
		{
			Do: "Start the release of the operator that knows the new CRD.",
			ByHand: s.itsAfterImporters() + " role needs the new resource and, as long as old objects are there, the old one. If it has " +
				"admission webhooks, apply their configurations together with it: an entry for the old kind that is left " +
				"in the cluster would make API servers refuse every change of an old object. Compare the " +
				"copies with the backup, and let it work for a while: from the next step on there is no way back but " +
				"the backup.",
			Again: "it is done when the operator has reconciled every copy.",
		},
		s.finalizersStep(),
		{
			Do: "Delete the old objects, and nothing that they own.", Commands: s.each(deleteOld),
			Again: "it deletes what is left. Nothing is deleted while an object has no copy.",
		},
		{
			Do:       "Retire the old CRD, in a later release: a rollback to the old operator needs it.",
			Commands: s.each(retireCRD),
			Again: "it deletes nothing while an object is left. With a release that has neither the old type nor " +
				"its manifest, remove the old names from the code too.",
		},
	}
	for i := range plan.Steps {
		plan.Steps[i].Again = s.fillIn(plan.Steps[i].Again, s.Successions[0])
	}
	return plan
}

func oldNames(one layout.Succession) crd.Names { return one.Old }

func newNames(one layout.Succession) crd.Names { return one.Successor }

// called lists CRDs by their names.
func (s *copying) called(which func(layout.Succession) crd.Names) string {
	var names []string
	for _, one := range s.Successions {
		names = append(names, which(one).Plural+"."+which(one).Group)
	}
	return strings.Join(names, ", ")
}

// each is a command for each kind.
func (s *copying) each(template string) []string {
	commands := make([]string, 0, len(s.Successions))
	for _, one := range s.Successions {
		commands = append(commands, s.fillIn(template, one))
	}
	return commands
}

// fillIn writes names into a command. OLD and NEW are what kubectl calls the resources.
func (s *copying) fillIn(template string, one layout.Succession) string {
	key := `"/" + .name`
	if one.Namespaced {
		key = `$child.metadata.namespace + "/" + .name`
	}
	return strings.NewReplacer(
		"OLDVERSION", s.Old.Version, "OLDGROUP", one.Old.Group, "OLDPLURAL", one.Old.Plural, "OLDKIND", one.Old.Kind,
		"NEWAPI", s.Group+"/"+s.Version, "NEWKIND", one.Successor.Kind, "KEY", key, "STATUS",
		map[bool]string{true: "del(.status) | "}[one.HasStatus],
		"OLD", strings.Join([]string{one.Old.Plural, s.Old.Version, one.Old.Group}, "."), "NEW",
		strings.Join([]string{one.Successor.Plural, s.Version, one.Successor.Group}, "."),
	).Replace(template)
}

// itsAfterImporters begins a sentence about the operator, which may not know the new CRD yet.
func (s *copying) itsAfterImporters() string {
	if !s.HasFollowers() {
		return "its"
	}
	return "packages that this plan leaves on the old kind have to follow first, by another plan or by hand. Its"
}

func (s *copying) install() CopyStep {
	step := CopyStep{Do: "Install the new CRD." + s.sameNames(), Again: "it changes nothing."}
	for _, one := range s.Successions {
		name := one.Successor.Plural + "." + one.Successor.Group
		if files := s.created[one.Old.Kind].Files; len(files) == 0 {
			step.ByHand = "its manifest is in another repository: write it after the old one, and apply it."
		} else {
			step.Commands = append(step.Commands, "kubectl apply --server-side -f "+files[0])
		}
		step.Commands = append(step.Commands, "kubectl wait --for=condition=Established --timeout=1m crd/"+name)
	}
	return step
}

// sameNames says which names both CRDs have, for which kubectl asks one of them only.
func (s *copying) sameNames() string {
	var names, full []string
	for _, one := range s.Successions {
		if one.Old.Group == one.Successor.Group {
			continue // then the plurals differ, and short names stay with the old CRD
		}
		same := s.created[one.Old.Kind].ShortNames
		if one.Old.Plural == one.Successor.Plural {
			same = append([]string{one.Old.Plural}, same...)
		}
		if len(same) > 0 {
			names = append(names, same...)
			full = append(full, one.Old.Plural+"."+one.Old.Group, one.Successor.Plural+"."+one.Successor.Group)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return " As long as the old one is there too, kubectl get " + strings.Join(names, " and kubectl get ") +
		" answers for one of the two only: name the resource with its group, " + strings.Join(full, " or ") + "."
}

func (s *copying) status() CopyStep {
	step := CopyStep{Do: "Copy the status.", Again: "it writes the same again."}
	var drops []string
	for _, one := range s.Successions {
		drops = append(drops, s.created[one.Old.Kind].DropsOfStatus...)
		if one.HasStatus {
			step.Commands = append(step.Commands, s.fillIn(copyStatus, one))
		}
	}
	if len(step.Commands) == 0 {
		step.Do = "Copy the status: no kind has a status subresource, so that the copies have all that the old objects have."
		step.Again = "there is nothing to do."
	}
	if len(drops) > 0 {
		step.ByHand = "the schemas of the new CRDs, like those of the old ones, drop " + strings.Join(drops, ", ") +
			", although Go code writes it: neither the old objects nor the copies have it. If the operator needs it, " +
			"name it in the schema first."
	}
	return step
}

func (s *copying) finalizersStep() CopyStep {
	step := CopyStep{
		Do: "Remove the old operator's finalizers from the old objects: nothing else does, and they would block " +
			"the deletion.",
		Again: "it is done when it prints nothing.",
		ByHand: "no finalizer was found in the code. If old objects carry one of the operator's own, remove it with " +
			"kubectl patch; leave those of others.",
	}
	if len(s.finalizers) == 0 {
		return step
	}
	slices.Sort(s.finalizers)
	quoted := make([]string, 0, len(s.finalizers))
	for _, finalizer := range s.finalizers {
		quoted = append(quoted, fmt.Sprintf("%q", finalizer))
	}
	step.ByHand = "the list is what was found in the code: compare it with what the objects carry, and leave the " +
		"finalizers of others."
	step.Commands = s.each(strings.ReplaceAll(removeFinalizers, "FINALIZERS", strings.Join(quoted, ", ")))
	return step
}
