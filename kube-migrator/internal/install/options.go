// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package install installs the controller of kube-migrator in a cluster, and removes it again.
//
// It owns the manifests of an installation, the permissions in them, the order in which they are written and removed,
// and the decision whether an existing object is ours. The objects to write are a pure function of the options and of
// the resources that may be migrated (Plan); writing, waiting and removing happen around it.
//
// It never reads objects of the resources that are migrated. It deletes only objects that carry our labels, with two
// exceptions: the contents of a namespace that we created, when that is purged, and a Deployment with our name that the
// user told us to adopt.
//
// Invariants:
//   - No rule has a wildcard in its verbs or names. A worker may get, list and patch the resources that it migrates. If
//     the user includes or excludes resources, the rules name the remaining ones, and no other resource can be
//     migrated, no matter who requests it.
//   - With the guard, rules name every resource, and none names a resource that admission policies cannot guard.
//     Without the guard and without patterns, the worker's rule covers everything.
//   - The guard is in force before a worker of this installation can start (verifyGuard), and is removed after the last
//     worker has ended.
//   - Nothing that a worker can write decides what the next installation grants: flags are remembered where a worker
//     can only write if it may migrate all ConfigMaps.
//   - CRDs of another installation are changed only if the user says so (ForeignError).
//   - Removal begins with the permissions: whatever still runs can write nothing from then on (I7).
package install

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// The names of an installation.
const (
	// Name is the name of the program and the prefix of all other names.
	Name = "kube-migrator"
	// FieldManager is our name in managedFields.
	FieldManager = "kube-migrator"
	// ControllerAccount and WorkerAccount are ServiceAccounts. The roles of each have the same name.
	ControllerAccount = Name + "-controller"
	WorkerAccount     = Name + "-worker"
	// Controller is the name of the Deployment and of the Lease of its leader election.
	Controller = Name + "-controller"
	// metricsReader is the role that allows reading the controller's metrics. It is unbound until an administrator
	// binds it.
	metricsReader = Name + "-metrics-reader"
	// agreementRole lets workers see which API servers there are.
	agreementRole = Name + "-agreement"
)

// The labels of every object of an installation.
const (
	nameLabel      = "app.kubernetes.io/name"
	managedByLabel = "app.kubernetes.io/managed-by"
	componentLabel = "app.kubernetes.io/component"
)

// guestLabel marks a namespace of someone else that the user told us to use. The namespace has none of our other
// labels, so that nothing of ours ever deletes it.
const guestLabel = "migration.k8s.io/adopted-by"

// The values of the component label.
const (
	componentController = "controller"
	componentWorker     = "worker"
	componentInstall    = "install"
)

const (
	// ours selects every object of an installation.
	ours = nameLabel + "=" + Name + "," + managedByLabel + "=" + Name
	// controllers selects Deployments of the controller, no matter who manages them.
	controllers = nameLabel + "=" + Name + "," + componentLabel + "=" + componentController
)

// Bootstrap says what the controller requests when it starts.
type Bootstrap string

// The values of Bootstrap.
const (
	BootstrapAll  Bootstrap = "all"
	BootstrapNone Bootstrap = "none"
)

// The defaults of Options.
const (
	DefaultNamespace = Name
	DefaultReplicas  = 2
)

// Options say what to install. Image is required; Complete fills in the other defaults.
type Options struct {
	// Namespace is where the controller and its workers run. Default: kube-migrator.
	Namespace string
	// Image is the image of the controller and of the workers.
	Image string
	// ImagePullPolicy is Always, IfNotPresent or Never. Default: IfNotPresent.
	ImagePullPolicy string
	// Replicas is the number of replicas of the controller, of which one is active. Default: 2.
	Replicas int32
	// RecordOnly makes the controller keep StorageStates and request no migration by itself.
	RecordOnly bool
	// DiscoveryPeriod is how often the controller asks all API servers what they store while nothing changes. 0 means
	// the controller's default.
	DiscoveryPeriod time.Duration
	// Bootstrap is what the controller requests when it starts. Default: BootstrapAll.
	Bootstrap Bootstrap
	// Include and Exclude are patterns of full names of the resources that may be migrated. Default: every resource,
	// including those that are created later.
	Include, Exclude []string
	// Flags are the flags that the user gave: the text of their values by name. The next installation starts from them.
	Flags map[string]string
	// Guard installs admission policies that keep the worker from changing anything. It needs API servers that serve
	// ValidatingAdmissionPolicies of admissionregistration.k8s.io/v1 (Guardable). Default: no guard.
	Guard bool
	// MinEvidence is the weakest evidence that proves anything. Default: migrate.Verified.
	MinEvidence migrate.Evidence
	// SettleTime is passed on to the workers. Default: migrate.DefaultSettleTime.
	SettleTime time.Duration
	// ShutdownDelay is how long an API server that was told to shut down counts as serving if it cannot be asked.
	// Default: agreement.DefaultShutdownDelay.
	ShutdownDelay time.Duration
	// Pace bounds the load of each migration that the controller requests by itself. The zero value leaves it to the API
	// servers' own signals; the flags of install have other defaults.
	Pace v1alpha1.Pace
	// MaxConcurrentMigrations bounds how many sweeps run at the same time in the cluster. Those at one pace keep its
	// bounds together, so more of them cost no more load, but memory. Default: 16.
	MaxConcurrentMigrations int
	// MetricsFromNamespaces are the namespaces whose pods may connect to the port of the metrics. Default: all pods
	// may.
	MetricsFromNamespaces []string
	// MetricsCertSecret is a Secret of the type kubernetes.io/tls in Namespace, with which metrics are served. Default:
	// a certificate that the controller creates and that scrapers cannot verify.
	MetricsCertSecret string
	// EgressTo are the blocks of addresses that controllers and workers may connect to, in CIDR notation, each followed
	// by ":" and a TCP port, or without a port for every port. Default: every address.
	EgressTo []string
}

// Complete returns the options with unset fields replaced by their defaults.
func (o Options) Complete() Options {
	if o.Namespace == "" {
		o.Namespace = DefaultNamespace
	}
	if o.ImagePullPolicy == "" {
		o.ImagePullPolicy = "IfNotPresent"
	}
	if o.Replicas == 0 {
		o.Replicas = DefaultReplicas
	}
	if o.Bootstrap == "" {
		o.Bootstrap = BootstrapAll
	}
	if o.MinEvidence == 0 {
		o.MinEvidence = migrate.Verified
	}
	if o.SettleTime == 0 {
		o.SettleTime = migrate.DefaultSettleTime
	}
	if o.ShutdownDelay == 0 {
		o.ShutdownDelay = agreement.DefaultShutdownDelay
	}
	if o.MaxConcurrentMigrations == 0 {
		o.MaxConcurrentMigrations = worker.DefaultAtOnce
	}
	return o
}

// All reports whether every resource may be migrated, including those that are created later.
func (o Options) All() bool { return len(o.Include)+len(o.Exclude) == 0 }

// Names reports whether the worker's role names resources: those that are included, or those that the guard covers.
// Otherwise the role covers everything.
func (o Options) Names() bool { return !o.All() || o.Guard }

// Extends reports whether the controller grants the worker resources that are created after the installation. A role
// that covers everything does not need that.
func (o Options) Extends() bool { return o.All() && o.Guard }

// reserved namespaces contain the cluster's own workloads, on which we must not put our restrictions.
var reserved = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease"}

// image matches references as container runtimes accept them: a host, a path, a tag, a digest.
var image = regexp.MustCompile(
	`^([a-zA-Z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$`,
)

// Check returns an error if completed options are invalid. The error names the flags.
func (o Options) Check() error {
	pullPolicies := []string{"Always", "IfNotPresent", "Never"}
	switch problems := validation.IsDNS1123Label(o.Namespace); {
	case len(problems) > 0:
		return invalid("namespace", o.Namespace, "a DNS label: lower-case letters, digits and -, at most 63 of them")
	case slices.Contains(reserved, o.Namespace):
		return invalid("namespace", o.Namespace,
			"a namespace of its own, because that one holds the cluster's own workloads")
	case !image.MatchString(o.Image):
		return invalid("image", o.Image, "a reference such as registry.example.com/kube-migrator:v1.0.0")
	case !slices.Contains(pullPolicies, o.ImagePullPolicy):
		return invalid("image-pull-policy", o.ImagePullPolicy, "Always, IfNotPresent or Never")
	case o.Replicas < 1:
		return invalid("replicas", o.Replicas, "1 or more replicas")
	case o.Bootstrap != BootstrapAll && o.Bootstrap != BootstrapNone:
		return invalid("bootstrap", o.Bootstrap, "all or none")
	case o.DiscoveryPeriod != 0 && o.DiscoveryPeriod < time.Second:
		return invalid("discovery-period", o.DiscoveryPeriod, "a duration of 1s or more")
	case o.SettleTime < 0:
		return invalid("settle-time", o.SettleTime, "a duration of more than 0s")
	case o.ShutdownDelay < 0:
		return invalid("shutdown-delay", o.ShutdownDelay, "a duration of 0s or more")
	case o.Pace.MaxObjectsPerSecond < 0 || o.Pace.MaxObjectsPerSecond > v1alpha1.MostObjectsPerSecond:
		return invalid("max-rate", o.Pace.MaxObjectsPerSecond,
			fmt.Sprintf("0 to %d objects per second", v1alpha1.MostObjectsPerSecond))
	case o.Pace.MaxInFlight < 0 || o.Pace.MaxInFlight > v1alpha1.MostInFlight:
		return invalid("max-in-flight", o.Pace.MaxInFlight, fmt.Sprintf("0 to %d requests", v1alpha1.MostInFlight))
	case o.Pace.MaxBytesPerSecond < 0 || o.Pace.MaxBytesPerSecond > v1alpha1.MostBytesPerSecond:
		return invalid("max-bandwidth", o.Pace.MaxBytesPerSecond,
			fmt.Sprintf("0 to %d bytes per second, such as 500k or 10Mi", int64(v1alpha1.MostBytesPerSecond)))
	case o.MaxConcurrentMigrations < 1:
		return invalid("max-concurrent-migrations", o.MaxConcurrentMigrations, "1 or more migrations")
	case o.MetricsCertSecret != "" && len(validation.IsDNS1123Subdomain(o.MetricsCertSecret)) > 0:
		return invalid("metrics-cert-secret", o.MetricsCertSecret, "the name of a Secret")
	}
	return o.checkNetwork()
}

// invalid returns the error about an option, in the phrasing that every command uses for a flag.
func invalid[T any](flag string, value T, use string) error {
	return fmt.Errorf("invalid value %q for --%s: use %s", fmt.Sprint(value), flag, use)
}

// arguments returns the command line of the controller.
func (o Options) arguments() []string {
	arguments := []string{
		"controller",
		"--namespace=" + o.Namespace,
		"--workers=jobs",
		"--worker-image=" + o.Image,
		"--worker-image-pull-policy=" + o.ImagePullPolicy,
		"--worker-service-account=" + WorkerAccount,
		fmt.Sprintf("--max-concurrent-migrations=%d", o.MaxConcurrentMigrations),
		fmt.Sprintf("--auto-trigger=%t", !o.RecordOnly),
		"--bootstrap=" + string(o.Bootstrap),
	}
	if o.Extends() {
		arguments = append(arguments, "--worker-role="+laterRole)
	}
	if o.Guard {
		arguments = append(arguments, "--worker-versions-role="+versionsRole)
	}
	if o.DiscoveryPeriod != 0 {
		arguments = append(arguments, "--discovery-period="+o.DiscoveryPeriod.String())
	}
	if n := o.Pace.MaxObjectsPerSecond; n != 0 {
		arguments = append(arguments, fmt.Sprintf("--max-rate=%d", n))
	}
	if n := o.Pace.MaxInFlight; n != 0 {
		arguments = append(arguments, fmt.Sprintf("--max-in-flight=%d", n))
	}
	if n := o.Pace.MaxBytesPerSecond; n != 0 {
		arguments = append(arguments, fmt.Sprintf("--max-bandwidth=%d", n))
	}
	for _, pattern := range o.Include {
		arguments = append(arguments, "--include="+pattern)
	}
	for _, pattern := range o.Exclude {
		arguments = append(arguments, "--exclude="+pattern)
	}
	if o.MetricsCertSecret != "" {
		arguments = append(arguments, "--metrics-cert-dir="+metricsCertDir)
	}
	return append(arguments,
		"--min-evidence="+strings.ToLower(o.MinEvidence.String()),
		"--settle-time="+o.SettleTime.String(),
		"--shutdown-delay="+o.ShutdownDelay.String(),
		"--leader-elect=true",
		fmt.Sprintf("--metrics-bind-address=:%d", metricsPort),
		fmt.Sprintf("--health-probe-bind-address=:%d", healthPort),
	)
}

// labels returns the labels of an object of a component.
func labels(component string) map[string]string {
	return map[string]string{nameLabel: Name, managedByLabel: Name, componentLabel: component}
}

// selector returns the selector of a component's pods. It does not include the manager, so that it never has to change.
func selector(component string) map[string]string {
	s := maps.Clone(labels(component))
	delete(s, managedByLabel)
	return s
}
