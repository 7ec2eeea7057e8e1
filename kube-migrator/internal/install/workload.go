// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install/discovery"
)

const (
	metricsPort = 8443
	healthPort  = 8081
	// memoryLimit is that of the container. goMemoryLimit is 90 % of it: from there on Go's garbage collector works
	// harder, before the kernel ends the process (https://go.dev/doc/gc-guide#Memory_limit). The rest is for memory
	// that Go does not count.
	memoryLimit   = "256Mi"
	goMemoryLimit = "230MiB"
	// unprivileged is the user of the container. The image does not need to define it.
	unprivileged = 65532
	// podSecurityVersion pins the requirements of the restricted level, so that an upgrade of the cluster does not
	// change whether our pods are admitted. It is that of the newest tested release; an older API server uses the
	// newest version that it knows.
	podSecurityVersion = "v1.37"
	// metricsCertDir is where the controller finds the certificate of Options.MetricsCertSecret.
	metricsCertDir = "/etc/kube-migrator/metrics"
)

func (o Options) namespace() *corev1.Namespace {
	n := &corev1.Namespace{ObjectMeta: meta(componentInstall, "", o.Namespace)}
	for _, mode := range []string{"enforce", "audit", "warn"} {
		n.Labels["pod-security.kubernetes.io/"+mode] = "restricted"
		n.Labels["pod-security.kubernetes.io/"+mode+"-version"] = podSecurityVersion
	}
	return n
}

// serviceAccounts do not mount tokens by default: the pods of the controller and of the workers request them through
// automountServiceAccountToken.
func (o Options) serviceAccounts() []*corev1.ServiceAccount {
	account := func(component, name string) *corev1.ServiceAccount {
		return &corev1.ServiceAccount{ObjectMeta: meta(component, o.Namespace, name),
			AutomountServiceAccountToken: new(false)}
	}
	return []*corev1.ServiceAccount{
		account(componentController, ControllerAccount),
		account(componentWorker, WorkerAccount),
		account(componentInstall, discovery.Account), // it has no role, and no pod uses it
	}
}

// deployment returns the Deployment of the controller. All replicas but one wait for the leader's Lease.
func (o Options) deployment() *appsv1.Deployment {
	return &appsv1.Deployment{
		ObjectMeta: meta(componentController, o.Namespace, Controller),
		Spec: appsv1.DeploymentSpec{
			Replicas: new(o.Replicas),
			Selector: &metav1.LabelSelector{MatchLabels: selector(componentController)},
			Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels(componentController)},
				Spec:       o.pod(),
			},
		},
	}
}

// pod complies with the restricted policy of Pod Security Standards
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/).
func (o Options) pod() corev1.PodSpec {
	return corev1.PodSpec{
		ServiceAccountName:           ControllerAccount,
		AutomountServiceAccountToken: new(true),
		// otherwise Services of the namespace would become environment variables
		EnableServiceLinks:            new(false),
		TerminationGracePeriodSeconds: new(int64(30)),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(unprivileged)), RunAsGroup: new(int64(unprivileged)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		// The second replica is for the failure of a node. On a cluster with one node both have to run there.
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: selector(componentController)},
		}},
		Containers: []corev1.Container{o.container()},
		Volumes:    o.volumes(),
	}
}

// volumes returns the volumes of the controller's pod: the certificate for metrics, if there is one. The pod does not
// start before the Secret exists.
func (o Options) volumes() []corev1.Volume {
	if o.MetricsCertSecret == "" {
		return nil
	}
	secret := &corev1.SecretVolumeSource{SecretName: o.MetricsCertSecret}
	return []corev1.Volume{{Name: "metrics-cert", VolumeSource: corev1.VolumeSource{Secret: secret}}}
}

func (o Options) volumeMounts() []corev1.VolumeMount {
	if o.MetricsCertSecret == "" {
		return nil
	}
	return []corev1.VolumeMount{{Name: "metrics-cert", MountPath: metricsCertDir, ReadOnly: true}}
}

func (o Options) container() corev1.Container {
	probe := func(path string) *corev1.Probe {
		return &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path,
				Port: intstr.FromString("health")}},
			PeriodSeconds: 10, TimeoutSeconds: 5, FailureThreshold: 3,
		}
	}
	return corev1.Container{
		Name: "controller", Image: o.Image, ImagePullPolicy: corev1.PullPolicy(o.ImagePullPolicy), Args: o.arguments(),
		Ports: []corev1.ContainerPort{
			{Name: "metrics", ContainerPort: metricsPort, Protocol: corev1.ProtocolTCP},
			{Name: "health", ContainerPort: healthPort, Protocol: corev1.ProtocolTCP},
		},
		LivenessProbe: probe("/healthz"), ReadinessProbe: probe("/readyz"),
		// There is no CPU limit, because it would make a busy controller renew its Lease too late.
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"),
				corev1.ResourceMemory: resource.MustParse("64Mi")},
			Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memoryLimit)},
		},
		Env:          []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: goMemoryLimit}},
		VolumeMounts: o.volumeMounts(),
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
			Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		},
	}
}

// disruptionBudget bounds the unavailable replicas, not the available ones, so that a single replica can be drained.
func (o Options) disruptionBudget() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: meta(componentController, o.Namespace, Controller),
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(1)),
			Selector:       &metav1.LabelSelector{MatchLabels: selector(componentController)},
		},
	}
}

// priorityLevel gives sweeps a small share of the API server of their own (I7): they cannot crowd out other clients,
// and in an idle cluster they borrow. While no sweep runs, half of the share is lent to others.
func priorityLevel() *flowcontrolv1.PriorityLevelConfiguration {
	return &flowcontrolv1.PriorityLevelConfiguration{
		ObjectMeta: meta(componentInstall, "", Name),
		Spec: flowcontrolv1.PriorityLevelConfigurationSpec{
			Type: flowcontrolv1.PriorityLevelEnablementLimited,
			Limited: &flowcontrolv1.LimitedPriorityLevelConfiguration{
				NominalConcurrencyShares: new(int32(20)),
				LendablePercent:          new(int32(50)),
				LimitResponse: flowcontrolv1.LimitResponse{
					Type:    flowcontrolv1.LimitResponseTypeQueue,
					Queuing: &flowcontrolv1.QueuingConfiguration{Queues: 16, HandSize: 4, QueueLengthLimit: 50},
				},
			},
		},
	}
}

// flowSchema assigns the requests of sweeps to the priority level. It matches after the API server's own schemas for
// leader election, nodes and kube-system, and before the one for all ServiceAccounts. It matches only the verbs of a
// sweep, because the writes of a worker's reports must not wait behind its own sweep.
func (o Options) flowSchema() *flowcontrolv1.FlowSchema {
	return &flowcontrolv1.FlowSchema{
		ObjectMeta: meta(componentInstall, "", Name),
		Spec: flowcontrolv1.FlowSchemaSpec{
			PriorityLevelConfiguration: flowcontrolv1.PriorityLevelConfigurationReference{Name: Name},
			MatchingPrecedence:         1000,
			DistinguisherMethod: &flowcontrolv1.FlowDistinguisherMethod{
				Type: flowcontrolv1.FlowDistinguisherMethodByUserType,
			},
			Rules: []flowcontrolv1.PolicyRulesWithSubjects{{
				Subjects: []flowcontrolv1.Subject{{
					Kind:           flowcontrolv1.SubjectKindServiceAccount,
					ServiceAccount: &flowcontrolv1.ServiceAccountSubject{Namespace: o.Namespace, Name: WorkerAccount},
				}},
				ResourceRules: []flowcontrolv1.ResourcePolicyRule{{
					Verbs: []string{"get", "list", "patch"}, APIGroups: []string{flowcontrolv1.APIGroupAll},
					Resources:    []string{flowcontrolv1.ResourceAll},
					ClusterScope: true, Namespaces: []string{flowcontrolv1.NamespaceEvery},
				}},
			}},
		},
	}
}
