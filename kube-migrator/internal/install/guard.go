// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install/discovery"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install/grant"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// The ValidatingAdmissionPolicies of the guard. Each has one binding, of the same name. docs/guard.md says what they
// enforce, and docs/adr/0016-the-guard.md why.
const (
	workerPolicy      = WorkerAccount          // what the worker may write: nothing but what stays the same
	checkpointsPolicy = Name + "-checkpoints"  // who writes checkpoints and rosters
	statusPolicy      = Name + "-status"       // who writes our status subresources
	jobsPolicy        = Name + "-jobs"         // which Jobs the controller creates
	rolePolicy        = Name + "-worker-grant" // what the controller grants to the worker
)

// The ClusterRoles that the controller writes.
const (
	laterRole    = WorkerAccount + "-later"    // grants resources that were created after the installation
	versionsRole = WorkerAccount + "-versions" // says at which versions the worker may rewrite (package grant)
)

// RecordVerb is the verb on storagestates.migration.k8s.io that lets accounts outside the installation write reports
// and the status of our objects, which are otherwise reserved for the accounts of the installation. Cluster
// administrators have every verb.
const RecordVerb = "record"

// probeExpiration is the lifetime, in seconds, of the token that install requests as the worker in a dry run. The guard
// allows the worker less, so a refusal shows that the guard is in force.
const (
	probeExpiration    = 7200
	longestTokenOfOurs = 3600
)

// policies returns the policies of the guard in the order in which they are written. The worker's policy is last: once
// an API server enforces it, it enforces the others, too.
func (o Options) policies() []*admissionregistrationv1.ValidatingAdmissionPolicy {
	return []*admissionregistrationv1.ValidatingAdmissionPolicy{
		o.checkpoints(), o.status(), o.jobs(), o.grants(), o.unchanged(),
	}
}

// bindings returns the bindings of the policies.
func (o Options) bindings() []*admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	var all []*admissionregistrationv1.ValidatingAdmissionPolicyBinding
	for _, p := range o.policies() {
		all = append(all, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: meta(componentInstall, "", p.Name),
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: p.Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			},
		})
	}
	return all
}

// unchanged lets the worker send updates that change nothing, update its checkpoints and rosters, and request a token
// of the account that has no permissions. The updates have to be sent at a version that versionsRole grants: no policy
// sees what etcd holds, and at another version an update that changes nothing may lose fields (package grant).
//
// The comparison covers the whole object as admission leaves it, including resourceVersion. managedFields may lose
// entries of API versions other than that of the request: the API server removes entries whose version it does not know
// at this endpoint, such as a retired version, or events.k8s.io/v1 in an Event that is written as v1. Updates of
// subresources, such as status and scale, are compared in the same way. Requests without an old object, which are
// creations, deletions and connections, are refused by their operation.
func (o Options) unchanged() *admissionregistrationv1.ValidatingAdmissionPolicy {
	token := all(
		"request.operation == 'CREATE'", isResource("", "serviceaccounts"), isSubresource("token"), o.inNamespace(),
		"has(request.name)", is("request.name", discovery.Account),
		fmt.Sprintf("has(object.spec.expirationSeconds) && object.spec.expirationSeconds <= %d && "+
			"(!has(object.spec.boundObjectRef) || object.spec.boundObjectRef == null)", longestTokenOfOurs),
	)
	report := all(
		isResource("", "configmaps"), "!has(request.subResource)", o.inNamespace(), ofAWorker("oldObject"),
		kept("metadata.labels"), kept("metadata.annotations"), kept("metadata.ownerReferences"),
		kept("metadata.finalizers"), kept("immutable"),
	)
	return policy(workerPolicy, when("worker", o.by(WorkerAccount)),
		resources("*", "*/*", admissionregistrationv1.OperationAll),
		decision{
			rule: "request.operation == 'UPDATE' || " + token,
			text: "the worker of kube-migrator may not create, delete or connect to anything",
		},
		decision{
			rule: anyOf("request.operation != 'UPDATE'", "object == oldObject", fewerManagers, report),
			text: migrate.GuardRefusal + ": a mutating webhook, a mutating admission policy or the API server itself " +
				"adds to it, " +
				"or the request is not an empty patch",
			expression: fmt.Sprintf(`'%s: a mutating webhook, a mutating admission policy or the API server itself adds to it, `+
				`or the request is not an empty patch; to accept that, migrate by hand: kube-migrator migrate ' + `+
				`request.resource.resource + (request.resource.group == '' ? '' : '.' + request.resource.group)`,
				migrate.GuardRefusal),
		},
		decision{
			// Reports are ConfigMaps, which have one version, and may be excluded from what is migrated.
			rule: anyOf("request.operation != 'UPDATE'", all(isResource("", "configmaps")), mayRewrite),
			text: "the worker of kube-migrator may rewrite a custom resource only at its storage version, which the " +
				"ClusterRole " + versionsRole + " names: at another version, fields could be lost",
		},
	)
}

// checkpoints lets only the accounts of the installation, and accounts with RecordVerb, write the ConfigMaps of
// workers. Others may neither change the contents of such a ConfigMap nor turn another one into one. The garbage
// collector may still change owner references and finalizers, and anyone may delete: a run without its ConfigMap starts
// over.
func (o Options) checkpoints() *admissionregistrationv1.ValidatingAdmissionPolicy {
	same := all("request.operation == 'UPDATE'", kept("data"), kept("binaryData"), kept("metadata.labels"),
		kept("metadata.annotations"), kept("immutable"),
		// An owner can be removed, but not added.
		"(!has(object.metadata.ownerReferences) || has(oldObject.metadata.ownerReferences) && "+
			"object.metadata.ownerReferences.all(o, oldObject.metadata.ownerReferences.exists(p, p.uid == o.uid)))",
	)
	return policy(checkpointsPolicy,
		append(when("namespace", o.inNamespace()),
			when("worker", ofAWorker("object")+" || oldObject != null && "+ofAWorker("oldObject"))...),
		resources("", "configmaps", admissionregistrationv1.Create, admissionregistrationv1.Update),
		decision{
			rule: anyOf(o.by(WorkerAccount), o.by(ControllerAccount), same, mayRecord),
			text: "only the worker and the controller of kube-migrator write the reports of its runs; others need " +
				"the verb " + RecordVerb +
				" on storagestates.migration.k8s.io",
		},
	)
}

// status lets only the controller, and accounts with RecordVerb, change the status of StorageStates and
// StorageVersionMigrations.
func (o Options) status() *admissionregistrationv1.ValidatingAdmissionPolicy {
	return policy(statusPolicy, nil, append(
		resources(migrationGroup, "storagestates/status", admissionregistrationv1.Update),
		resources(migrationGroup, "storageversionmigrations/status", admissionregistrationv1.Update)...,
	), decision{
		rule: anyOf(o.by(ControllerAccount), "object == oldObject", mayRecord),
		text: "only the controller of kube-migrator writes this status; others need the verb " + RecordVerb +
			" on storagestates.migration.k8s.io",
	})
}

// jobs lets the controller create only Jobs that run the worker. A Job whose template does not change, such as that of
// an older release, can still be suspended and deleted.
func (o Options) jobs() *admissionregistrationv1.ValidatingAdmissionPolicy {
	const pod = "object.spec.template.spec"
	var arguments []string
	for _, flag := range worker.FlagNames() {
		arguments = append(arguments, "a.startsWith('--"+flag+"=')")
	}
	unset := func(fields ...string) string {
		var each []string
		for _, f := range fields {
			each = append(each, fmt.Sprintf("(!has(%[1]s.%[2]s) || %[1]s.%[2]s == false)", pod, f))
		}
		return all(each...)
	}
	empty := func(path string) string { return fmt.Sprintf("(!has(%[1]s) || size(%[1]s) == 0)", path) }
	const c = pod + ".containers[0]"
	valid := all(
		o.inNamespace(),
		"has("+pod+".serviceAccountName)", is(pod+".serviceAccountName", WorkerAccount),
		unset("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"),
		empty(pod+".initContainers"), empty(pod+".volumes"),
		"size("+pod+".containers) == 1", is(c+".image", o.Image), empty(c+".command"),
		empty(c+".volumeMounts"), empty(c+".envFrom"),
		"has("+c+".args) && size("+c+".args) > 0 && "+is(c+".args[0]", worker.Command),
		c+".args.all(a, "+is("a", worker.Command)+" || "+strings.Join(arguments, " || ")+")",
		"(!has("+c+".env) || "+c+".env.all(e, e.name == 'GOMEMLIMIT'))",
		// these run commands
		"!has("+c+".lifecycle) && !has("+c+".livenessProbe) && !has("+c+".readinessProbe) && !has("+c+".startupProbe)",
		"(!has("+c+".ports) || "+c+".ports.all(p, !has(p.hostPort) || p.hostPort == 0))",
		"has("+c+".securityContext) && has("+c+".securityContext.allowPrivilegeEscalation) && !"+c+
			".securityContext.allowPrivilegeEscalation",
		"(!has("+c+".securityContext.privileged) || !"+c+".securityContext.privileged)",
		"(!has("+c+".securityContext.capabilities) || "+empty(c+".securityContext.capabilities.add")+")",
		"(!has("+pod+".securityContext) || !has("+pod+".securityContext.windowsOptions))",
	)
	return policy(jobsPolicy, when("controller", o.by(ControllerAccount)),
		resources("batch", "jobs", admissionregistrationv1.Create, admissionregistrationv1.Update),
		decision{
			rule: anyOf(all("request.operation == 'UPDATE'", "object.spec.template == oldObject.spec.template"), valid),
			text: fmt.Sprintf("the controller of kube-migrator may only create Jobs in the namespace %s that run the worker "+
				"from the image %s as the ServiceAccount %s, without access to the node; where another image is "+
				"meant, install it: "+
				"kube-migrator install --image=IMAGE", o.Namespace, o.Image, WorkerAccount),
		},
	)
}

// grants bounds what the controller may grant to the worker: in one role reading and patching whole resources by name,
// except resources that admission policies cannot guard, and in another one the versions.
func (o Options) grants() *admissionregistrationv1.ValidatingAdmissionPolicy {
	const named = "has(r.apiGroups) && r.apiGroups.all(g, g != '*') && " +
		"has(r.resources) && r.resources.all(n, n != '*' && !n.contains('/')) && (!has(r.nonResourceURLs) || " +
		"size(r.nonResourceURLs) == 0)"
	rules := func(role, each string) string {
		return all(is("object.metadata.name", role), "(!has(object.rules) || object.rules.all(r, "+named+" && "+each+"))")
	}
	return policy(rolePolicy, when("controller", o.by(ControllerAccount)),
		resources(rbacv1.GroupName, "*", admissionregistrationv1.OperationAll),
		decision{
			rule: all(
				"request.operation == 'UPDATE'", isResource(rbacv1.GroupName, "clusterroles"),
				"!has(object.aggregationRule)",
				// A label could aggregate the role into roles of others.
				kept("metadata.labels"), kept("metadata.annotations"),
				"("+anyOf(
					rules(laterRole, "has(r.verbs) && r.verbs.all(v, v in ['get', 'list', 'patch']) && "+
						"!('admissionregistration.k8s.io' in r.apiGroups)"),
					rules(versionsRole, "has(r.verbs) && r.verbs.all(v, v == '"+grant.Verb+"') && "+
						"has(r.resourceNames) && size(r.resourceNames) > 0"),
				)+")",
			),
			text: "the controller of kube-migrator may only let its worker get, list and patch resources that the " +
				"ClusterRole " + laterRole + " names, and no admission policies, and rewrite them at the versions " +
				"that the ClusterRole " + versionsRole + " names",
		},
	)
}

// decision is one rule of a policy, and the message of its refusal. The API server uses text if expression fails.
type decision struct{ rule, text, expression string }

// policy returns a policy that refuses requests if it cannot decide.
func policy(
	name string, conditions []admissionregistrationv1.MatchCondition,
	matched []admissionregistrationv1.NamedRuleWithOperations, rules ...decision,
) *admissionregistrationv1.ValidatingAdmissionPolicy {
	p := &admissionregistrationv1.ValidatingAdmissionPolicy{
		ObjectMeta: meta(componentInstall, "", name),
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy:   new(admissionregistrationv1.Fail),
			MatchConditions: conditions,
			MatchConstraints: &admissionregistrationv1.MatchResources{ResourceRules: matched,
				MatchPolicy: new(admissionregistrationv1.Equivalent)},
		},
	}
	for _, v := range rules {
		p.Spec.Validations = append(p.Spec.Validations, admissionregistrationv1.Validation{
			Expression: v.rule, Message: v.text, MessageExpression: v.expression,
			Reason: new(metav1.StatusReasonForbidden),
		})
	}
	return p
}

func when(name, expression string) []admissionregistrationv1.MatchCondition {
	return []admissionregistrationv1.MatchCondition{{Name: name, Expression: expression}}
}

func resources(
	group, resource string, operations ...admissionregistrationv1.OperationType,
) []admissionregistrationv1.NamedRuleWithOperations {
	return []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
		Operations: operations,
		Rule: admissionregistrationv1.Rule{
			APIGroups: []string{group}, APIVersions: []string{"*"}, Resources: []string{resource},
			Scope: new(admissionregistrationv1.AllScopes),
		},
	}}}
}

// The parts of expressions. They test for a field that may be absent before they read it: reading an absent field is an
// error, and an error refuses the request.

func all(parts ...string) string   { return "(" + strings.Join(parts, " && ") + ")" }
func anyOf(parts ...string) string { return strings.Join(parts, " || ") }

func is(path, value string) string { return path + " == '" + value + "'" }

func (o Options) by(account string) string {
	return is("request.userInfo.username", "system:serviceaccount:"+o.Namespace+":"+account)
}

func (o Options) inNamespace() string {
	return "has(request.namespace) && " + is("request.namespace", o.Namespace)
}

func isResource(group, resource string) string {
	return is("request.resource.group", group) + " && " + is("request.resource.resource", resource)
}

func isSubresource(name string) string {
	return "has(request.subResource) && " + is("request.subResource", name)
}

// kept is true if an update leaves a field of the object as it was.
func kept(path string) string {
	return fmt.Sprintf("has(object.%[1]s) == has(oldObject.%[1]s) && (!has(object.%[1]s) || object.%[1]s == "+
		"oldObject.%[1]s)", path)
}

// ofAWorker is true if a ConfigMap has the labels of a checkpoint or a roster. The expression is in parentheses.
func ofAWorker(object string) string {
	return fmt.Sprintf("(has(%[1]s.metadata.labels) && '%[2]s' in %[1]s.metadata.labels && "+
		"%[1]s.metadata.labels['%[2]s'] == '%[3]s' && "+
		"'%[4]s' in %[1]s.metadata.labels && %[1]s.metadata.labels['%[4]s'] == '%[5]s')", object, nameLabel, Name,
		componentLabel, componentWorker)
}

// fewerManagers is true if the only change of an update is that managedFields loses entries of other API versions.
var fewerManagers = all(
	"object.all(k, k == 'metadata' || k in oldObject && object[k] == oldObject[k])", "oldObject.all(k, k in object)",
	"object.metadata.all(k, k == 'managedFields' || k in oldObject.metadata && object.metadata[k] == "+
		"oldObject.metadata[k])",
	"oldObject.metadata.all(k, k == 'managedFields' || k in object.metadata)",
	"has(oldObject.metadata.managedFields)",
	"(!has(object.metadata.managedFields) || object.metadata.managedFields.all(m, m in "+
		"oldObject.metadata.managedFields))",
	"oldObject.metadata.managedFields.all(m, has(m.apiVersion) && m.apiVersion != object.apiVersion || "+
		"has(object.metadata.managedFields) && m in object.metadata.managedFields)",
)

// mayRewrite asks the authorizer whether the user of the request has the verb of package grant at its version.
var mayRewrite = fmt.Sprintf("authorizer.group(request.resource.group).resource(request.resource.resource)."+
	"name(request.resource.version).check('%s').allowed()", grant.Verb)

// mayRecord asks the API server's authorizer whether the user of the request has RecordVerb.
var mayRecord = fmt.Sprintf("authorizer.group('%s').resource('storagestates').check('%s').allowed()",
	migrationGroup, RecordVerb)
