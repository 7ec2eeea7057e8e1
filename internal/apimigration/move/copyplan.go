// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/crd"
)

// Copy is how objects get from an old definition to a new one: a cluster converts between the versions of one
// definition only. The steps are in their order; each may be run again, and does then what is left of it.
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

// Text shows the steps for people. Commands are not indented, so that they can be copied.
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

// copyPlan is nil where a cluster converts.
func (s *surgery) copyPlan() *Copy {
	if len(s.successors) == 0 {
		return nil
	}
	plan := &Copy{Why: fmt.Sprintf("%s is another definition than that of %s. No conversion, and no webhook, leads "+
		"from one to the other.", s.called(newNames), s.called(oldNames))}
	plan.Steps = []CopyStep{
		{
			Do:       "Keep the old objects outside the cluster.",
			Commands: s.each("kubectl get OLD -A -o yaml > OLD.backup.yaml"),
			Again:    "it overwrites the file: not once old objects have been deleted.",
		},
		s.install(),
		{
			Do: "Begin a time in which nobody changes the old objects.",
			ByHand: "let the old operator finish what is being deleted: such objects are not copied. Then stop it, " +
				"such as with kubectl scale --replicas=0 for its Deployment, and what else writes the objects.",
			Commands: s.each(readOnly),
			Again: "it changes nothing. To give the whole way up, at any time before old objects are deleted: " +
				"delete the policies and the copies (kubectl delete NEW --all -A --cascade=orphan), and start the " +
				"old operator.",
		},
		{
			Do:       "Copy the objects: everything but status, finalizers, and what the cluster sets.",
			Commands: s.each(copyObjects),
			Again: "objects that are as they should be do not change. One that somebody else has changed is " +
				"refused with a conflict, and named.",
		},
		s.status(),
		{
			Do: "Give what the old objects own the copies as owners.", Commands: s.each(reparent),
			Again: "it is done when it prints nothing. An object that has changed in between is refused, and found " +
				"again the next time.",
			ByHand: "references in other places than metadata.ownerReferences (fields with kind and apiVersion, " +
				"labels with an uid) are in no list: look for them in the code, and write them.",
		},
		{
			Do: "Start the release of the operator that knows the new definition.",
			ByHand: "its role needs the new resource and, as long as old objects are there, the old one. Compare the " +
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
			Do:       "Retire the old definition, in a later release: a rollback to the old operator needs it.",
			Commands: s.each(retireDefinition),
			Again: "it deletes nothing while an object is left. With a release that has neither the old type nor " +
				"its manifest, remove the old names from the code too.",
		},
	}
	for i := range plan.Steps {
		plan.Steps[i].Again = s.fillIn(plan.Steps[i].Again, s.successors[0])
	}
	return plan
}

func oldNames(one succession) crd.Names { return one.old }
func newNames(one succession) crd.Names { return one.successor }

// called lists definitions by their names.
func (s *surgery) called(which func(succession) crd.Names) string {
	var names []string
	for _, one := range s.successors {
		names = append(names, which(one).Plural+"."+which(one).Group)
	}
	return strings.Join(names, ", ")
}

// each is a command for each kind.
func (s *surgery) each(template string) []string {
	commands := make([]string, 0, len(s.successors))
	for _, one := range s.successors {
		commands = append(commands, s.fillIn(template, one))
	}
	return commands
}

// fillIn writes names into a command. OLD and NEW are what kubectl calls the resources.
func (s *surgery) fillIn(template string, one succession) string {
	key := `"/" + .name`
	if one.namespaced {
		key = `$child.metadata.namespace + "/" + .name`
	}
	return strings.NewReplacer(
		"OLDVERSION", s.old.Version, "OLDGROUP", one.old.Group, "OLDPLURAL", one.old.Plural, "OLDKIND", one.old.Kind,
		"NEWAPI", s.group+"/"+s.version, "NEWKIND", one.successor.Kind, "KEY", key, "STATUS",
		map[bool]string{true: "del(.status) | "}[one.status],
		"OLD", strings.Join([]string{one.old.Plural, s.old.Version, one.old.Group}, "."), "NEW",
		strings.Join([]string{one.successor.Plural, s.version, one.successor.Group}, "."),
	).Replace(template)
}

func (s *surgery) install() CopyStep {
	step := CopyStep{Do: "Install the new definition.", Again: "it changes nothing."}
	for _, one := range s.successors {
		name := one.successor.Plural + "." + one.successor.Group
		if len(one.created) == 0 {
			step.ByHand = "its manifest is in another repository: write it after the old one, and apply it."
		} else {
			step.Commands = append(step.Commands, "kubectl apply -f "+one.created[0])
		}
		step.Commands = append(step.Commands, "kubectl wait --for=condition=Established --timeout=1m crd/"+name)
	}
	return step
}

func (s *surgery) status() CopyStep {
	step := CopyStep{Do: "Copy the status.", Again: "it writes the same again."}
	for _, one := range s.successors {
		if one.status {
			step.Commands = append(step.Commands, s.fillIn(copyStatus, one))
		}
	}
	if len(step.Commands) == 0 {
		step.Do, step.Again = "Copy the status: no kind has a status subresource, so that the copies have it already.",
			"there is nothing to do."
	}
	return step
}

func (s *surgery) finalizersStep() CopyStep {
	step := CopyStep{
		Do: "Take the old operator's finalizers off the old objects: nobody else does, and they would hold the " +
			"deletion up.",
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

// The commands. They read everything first and write object by object.
const (
	// readOnly refuses new objects and changes of spec. Metadata can be changed: finalizers have to go.
	readOnly = `kubectl apply -f - <<'EOF'
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: read-only.OLDPLURAL.OLDGROUP
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - apiGroups: ["OLDGROUP"]
      apiVersions: ["*"]
      operations: ["CREATE", "UPDATE"]
      resources: ["OLDPLURAL"]
  validations:
  - expression: request.operation == "UPDATE" && has(object.spec) == has(oldObject.spec) && (!has(object.spec) || object.spec == oldObject.spec)
    message: OLDKIND in OLDGROUP is being replaced by NEWKIND in NEWAPI, and cannot be changed
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: read-only.OLDPLURAL.OLDGROUP
spec:
  policyName: read-only.OLDPLURAL.OLDGROUP
  validationActions: ["Deny"]
EOF`

	copyObjects = `kubectl get OLD -A -o json |
  jq '.items |= map(select(.metadata.deletionTimestamp == null) | STATUS.apiVersion = "NEWAPI" | .kind = "NEWKIND" |
    .metadata |= ({name, namespace, labels, annotations, ownerReferences} | del(.annotations["kubectl.kubernetes.io/last-applied-configuration"]) | with_entries(select(.value != null))))' |
  kubectl apply --server-side --field-manager=copy-of-OLDPLURAL -f -`

	copyStatus = `kubectl get OLD -A -o json | jq -c '.items[] | select(.status != null) | {metadata: {name: .metadata.name, namespace: .metadata.namespace}, status}' |
  while read -r object; do
    kubectl patch NEW "$(jq -r .metadata.name <<<"$object")" --namespace "$(jq -r '.metadata.namespace // ""' <<<"$object")" \
      --subresource=status --type=merge --patch "$(jq -c '{status}' <<<"$object")"
  done`

	reparent = `uids=$(kubectl get NEW -A -o json | jq -c '[.items[] | {key: ((.metadata.namespace // "") + "/" + .metadata.name), value: .metadata.uid}] | from_entries')
for resource in $(kubectl api-resources --verbs=list,patch -o name); do
  kubectl get "$resource" -A -o json | jq -c --argjson uids "$uids" '
    def old: .kind == "OLDKIND" and (.apiVersion | startswith("OLDGROUP/"));
    .items[] | . as $child | select(any(.metadata.ownerReferences[]?; old)) |
    {metadata: (.metadata | {name, namespace, resourceVersion} + {ownerReferences: [.ownerReferences[] |
      if old then .apiVersion = "NEWAPI" | .kind = "NEWKIND" | .uid = ($uids[KEY] // error("no copy of " + .name)) else . end]})}' |
  while read -r child; do
    kubectl patch "$resource" "$(jq -r .metadata.name <<<"$child")" --namespace "$(jq -r '.metadata.namespace // ""' <<<"$child")" --type=merge --patch "$child"
  done # with the children of one kind
done`

	removeFinalizers = `kubectl get OLD -A -o json | jq -c --argjson finalizers '[FINALIZERS]' '
  .items[] | select(any(.metadata.finalizers[]?; IN($finalizers[]))) |
  {metadata: (.metadata | {name, namespace, resourceVersion, finalizers: (.finalizers - $finalizers)})}' |
  while read -r object; do
    kubectl patch OLD "$(jq -r .metadata.name <<<"$object")" --namespace "$(jq -r '.metadata.namespace // ""' <<<"$object")" --type=merge --patch "$object"
  done`

	deleteOld = `old=$(kubectl get OLD -A -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}') &&
new=$(kubectl get NEW -A -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name}{"\n"}{end}') &&
missing=$(comm -23 <(sort <<<"$old") <(sort <<<"$new")) &&
if [ -z "$missing" ]; then kubectl delete OLD --all -A --cascade=orphan; else echo "no copy of $missing" >&2; false; fi`

	retireDefinition = `objects=$(kubectl get OLD -A -o name) && test -z "$objects" &&
  kubectl delete --ignore-not-found crd/OLDPLURAL.OLDGROUP validatingadmissionpolicybinding/read-only.OLDPLURAL.OLDGROUP validatingadmissionpolicy/read-only.OLDPLURAL.OLDGROUP`
)
