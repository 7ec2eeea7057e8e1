// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package install puts the controller of kube-migrator into a cluster, and takes it out again.
//
// It owns the manifests of an installation, the permissions in them, the order in which they are written and removed,
// and the question whether what is in the cluster already is ours. What is to be written is a pure function of the
// options and of the resources that may be migrated (Plan); writing, waiting and removing happen around it.
//
// It never reads objects of the resources that are migrated, and never deletes anything that does not carry our labels,
// except what lives in a namespace that we made when that is purged, and a Deployment of our name that the user told us
// to adopt.
//
// Invariants:
//   - No rule has a wildcard in its verbs or names. A worker may get, list and patch what it migrates. Where the user
//     includes or excludes resources, the rules name those that are left, and nothing else can be migrated, whatever
//     anyone requests.
//   - With the guard, rules name every resource, and none names a resource that admission policies do not guard.
//     Without it, and without patterns, the worker's rule is for everything.
//   - The guard is in force before a worker of this installation can start (verifyGuard), and is removed after the last
//     one has ended.
//   - What a worker could write never decides what the next installation grants: flags are remembered where no worker
//     may write unless it may migrate all ConfigMaps.
//   - CRDs of another installation are not touched unless the user says so (ErrForeign).
//   - Removing begins with the permissions: whatever still runs can write nothing from then on (I7).
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
	"github.com/kube-migrator/kube-migrator/migrate"
)

// The names of an installation.
const (
	// Name is that of the program, and the prefix of all names.
	Name = "kube-migrator"
	// FieldManager is who we are in managedFields.
	FieldManager = "kube-migrator"
	// ControllerAccount and WorkerAccount are ServiceAccounts, and the roles of each have its name.
	ControllerAccount = Name + "-controller"
	WorkerAccount     = Name + "-worker"
	// Controller is the Deployment, and the Lease of its leader election.
	Controller = Name + "-controller"
	// metricsReader is the role of those who may read the controller's metrics. No one has it until it is bound.
	metricsReader = Name + "-metrics-reader"
	// agreementRole lets workers see who the API servers are.
	agreementRole = Name + "-agreement"
)

// The labels of everything that belongs to an installation.
const (
	nameLabel      = "app.kubernetes.io/name"
	managedByLabel = "app.kubernetes.io/managed-by"
	componentLabel = "app.kubernetes.io/component"
)

// guestLabel marks a namespace that is someone else's, and that the user told us to use. It has none of the other
// labels, so that nothing of ours ever deletes it.
const guestLabel = "migration.k8s.io/adopted-by"

// The values of the component label.
const (
	componentController = "controller"
	componentWorker     = "worker"
	componentInstall    = "install"
)

const (
	// ours selects everything that belongs to an installation.
	ours = nameLabel + "=" + Name + "," + managedByLabel + "=" + Name
	// controllers selects Deployments of the controller, whoever manages them.
	controllers = nameLabel + "=" + Name + "," + componentLabel + "=" + componentController
)

// Workers is where sweeps run.
type Workers string

// The places.
const (
	// Jobs: sweeps run in Jobs, one after the other, with the permissions of the worker.
	Jobs Workers = "jobs"
	// InProcess: sweeps run in the controller, which then has the worker's permissions too.
	InProcess Workers = "in-process"
)

// Bootstrap is what the controller requests when it starts.
type Bootstrap string

// The values.
const (
	BootstrapAll  Bootstrap = "all"
	BootstrapNone Bootstrap = "none"
)

// The defaults of Options.
const (
	DefaultNamespace = Name
	DefaultReplicas  = 2
)

// Options say what is installed. Image is required; Complete fills in the other defaults.
type Options struct {
	// Namespace the controller and its workers run in. Default: kube-migrator.
	Namespace string
	// Image of the controller and of the workers.
	Image string
	// ImagePullPolicy: Always, IfNotPresent or Never. Default: IfNotPresent.
	ImagePullPolicy string
	// Replicas of the controller, of which one is active. Default: 2.
	Replicas int32
	// Workers is where sweeps run. Default: Jobs.
	Workers Workers
	// RecordOnly: the controller keeps StorageStates, and asks for no migration by itself.
	RecordOnly bool
	// DiscoveryPeriod is how often all API servers are asked what they store when nothing moves. 0: the controller's
	// default.
	DiscoveryPeriod time.Duration
	// Bootstrap is what the controller requests when it starts. Default: BootstrapAll.
	Bootstrap Bootstrap
	// Include and Exclude are patterns of full names of resources: what may be migrated. Default: everything, also what
	// comes later.
	Include, Exclude []string
	// Flags are those that the user gave, by name, with the text of their values. The next installation starts from
	// them.
	Flags map[string]string
	// Guard: admission policies see to it that the worker changes nothing. It needs Workers: Jobs, and API servers that
	// serve ValidatingAdmissionPolicies of admissionregistration.k8s.io/v1 (Guardable). Default: there is no guard.
	Guard bool
	// MinEvidence is the weakest evidence that proves anything. Default: migrate.Observed.
	MinEvidence migrate.Evidence
	// SettleTime is passed on to the workers. Default: migrate.DefaultSettleTime.
	SettleTime time.Duration
	// ShutdownDelay is how long an API server that was told to end counts as serving where it cannot be asked. Default:
	// agreement.DefaultShutdownDelay.
	ShutdownDelay time.Duration
	// Pace bounds the load of each migration that the controller requests by itself. Default: no further bounds than
	// those of the API servers' own signals.
	Pace v1alpha1.Pace
	// MaxConcurrentMigrations bounds the sweeps at one time in the cluster. Default: 1.
	MaxConcurrentMigrations int
	// MetricsFromNamespaces are the namespaces whose pods may connect to the port of the metrics. Default: everyone
	// may.
	MetricsFromNamespaces []string
	// MetricsCertSecret is a Secret of the type kubernetes.io/tls in Namespace, with which metrics are served. Default:
	// a certificate that the controller makes, which scrapers cannot verify.
	MetricsCertSecret string
	// EgressTo are the blocks of addresses that controllers and workers may connect to, in CIDR notation, each with ":"
	// and a TCP port or with every port. Default: every address.
	EgressTo []string
}

// Complete returns the options with defaults where nothing is set.
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
	if o.Workers == "" {
		o.Workers = Jobs
	}
	if o.Bootstrap == "" {
		o.Bootstrap = BootstrapAll
	}
	if o.MinEvidence == 0 {
		o.MinEvidence = migrate.Observed
	}
	if o.SettleTime == 0 {
		o.SettleTime = migrate.DefaultSettleTime
	}
	if o.ShutdownDelay == 0 {
		o.ShutdownDelay = agreement.DefaultShutdownDelay
	}
	if o.MaxConcurrentMigrations == 0 {
		o.MaxConcurrentMigrations = 1
	}
	return o
}

// All reports whether everything may be migrated, also resources that come later.
func (o Options) All() bool { return len(o.Include)+len(o.Exclude) == 0 }

// Names reports whether the worker's role names resources: those that are included, or those that the guard covers.
// Otherwise the role is for everything.
func (o Options) Names() bool { return !o.All() || o.Guard }

// Extends reports whether the controller grants the worker the resources that come after the installation. A role that
// is for everything includes them.
func (o Options) Extends() bool { return o.All() && o.Guard }

// reserved namespaces hold the cluster's own workloads: our restrictions must not be put on them.
var reserved = []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease"}

// image is a reference as container runtimes take it: a host, a path, a tag, a digest.
var image = regexp.MustCompile(
	`^([a-zA-Z0-9.-]+(:[0-9]+)?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?$`,
)

// Check returns what is wrong with completed options, in the words of the flags.
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
	case o.Workers != Jobs && o.Workers != InProcess:
		return invalid("workers", o.Workers, "jobs or in-process")
	case o.Guard && o.Workers != Jobs:
		return fmt.Errorf("the guard needs workers of their own: use --workers=jobs, or --guard=false")
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

// invalid is the error for an option, in the phrasing that every command has for a flag.
func invalid[T any](flag string, value T, use string) error {
	return fmt.Errorf("invalid value %q for --%s: use %s", fmt.Sprint(value), flag, use)
}

// arguments is the command line of the controller.
func (o Options) arguments() []string {
	arguments := []string{
		"controller",
		"--namespace=" + o.Namespace,
		"--workers=" + string(o.Workers),
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

// labels of an object of a component.
func labels(component string) map[string]string {
	return map[string]string{nameLabel: Name, managedByLabel: Name, componentLabel: component}
}

// selector of a component's pods. It leaves out who manages them, so that it need never change.
func selector(component string) map[string]string {
	s := maps.Clone(labels(component))
	delete(s, managedByLabel)
	return s
}
