// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/worker"
)

// jobs carries out runs in Jobs. The worker of a Job carries out several runs at the same time; its roster, a ConfigMap
// that the Job owns, says which ones it is working on (worker.Roster). A run is the ConfigMap of its checkpoint. The
// migration owns it, so that neither the deletion of a Job nor that of another migration deletes it.
//
// A run is halted in the roster, and the worker goes on with the others. A Job whose worker does not answer is
// suspended, and never resumed: once its pods are gone, other workers continue its runs.
type jobs struct {
	store
	image           string
	imagePullPolicy corev1.PullPolicy
	serviceAccount  string
}

func (j *jobs) list(ctx context.Context, live bool) ([]run, error) {
	carriers, found, err := j.look(ctx, live)
	if err != nil {
		return nil, err
	}
	return withCarriers(j.runsOf(found), carriers), nil
}

// look reads all Jobs with their rosters, and the ConfigMaps, or some of them. Jobs come first: the roster of a listed
// Job exists, unless someone deleted it or its creation was interrupted.
func (j *jobs) look(ctx context.Context, live bool, some ...client.ListOption) ([]carrier, []corev1.ConfigMap, error) {
	jobs := new(batchv1.JobList)
	if err := j.reader(live).List(ctx, jobs, j.ours()...); err != nil {
		return nil, nil, fmt.Errorf("list jobs: %w", err)
	}
	found, err := j.configMaps(ctx, live, some...)
	if err != nil {
		return nil, nil, err
	}
	sheets := map[string]*corev1.ConfigMap{}
	for i := range found {
		if _, is := found[i].Labels[rosterLabel]; is {
			sheets[found[i].Name] = &found[i]
		}
	}
	var all []carrier
	for i := range jobs.Items {
		job := &jobs.Items[i]
		c, err := j.carrier(job, sheets[rosterOf(job.Name)])
		if err != nil {
			j.log.Warn("Cannot read the roster of a Job; removing the Job", "job", job.Name, "error", err)
		}
		all = append(all, c)
	}
	return all, found, nil
}

// carriers reads all Jobs with their rosters past the cache.
func (j *jobs) carriers(ctx context.Context) ([]carrier, error) {
	all, _, err := j.look(ctx, true, client.HasLabels{rosterLabel})
	return all, err
}

// carrier returns a Job with its roster as they are found.
func (j *jobs) carrier(job *batchv1.Job, sheet *corev1.ConfigMap) (c carrier, err error) {
	c.job = job
	c.working, c.broken = stateOf(job)
	c.outdated = workerOf(job) != j.worker()
	_, said := job.Annotations[workerAnnotation]
	settings, saidSettings := job.Annotations[settingsAnnotation]
	c.superseded = said && c.outdated || saidSettings && settings != j.settings.String()
	// The garbage collector deletes the roster of a Job that is being deleted before the pods have ended.
	if sheet != nil && metav1.IsControlledBy(sheet, job) {
		var r worker.Roster
		if r, err = worker.ReadRoster(sheet); err == nil {
			c.sheet, c.roster = sheet, &r
		}
	}
	return c, err
}

// worker identifies the image and account of a new Job's worker; workerOf returns what an existing Job was created
// with. It does not read the template, because admission may have changed that, which does not make a worker outdated.
func (j *jobs) worker() string { return j.image + " " + j.serviceAccount }

func workerOf(job *batchv1.Job) string {
	if given, ok := job.Annotations[workerAnnotation]; ok {
		return given
	}
	pod := job.Spec.Template.Spec
	image := ""
	if len(pod.Containers) > 0 {
		image = pod.Containers[0].Image
	}
	return image + " " + pod.ServiceAccountName
}

// podOf describes the Job's pod as the Job's status shows it, because the controller may not read pods.
func podOf(job *batchv1.Job) string {
	text := "has a pod"
	switch s := job.Status; {
	case s.Active == 0:
		text = "has no pod"
	case s.Ready == nil || *s.Ready == 0:
		text = "has a pod that is not ready"
	}
	if job.Status.Failed > 0 {
		text += fmt.Sprintf(", and %d before have failed", job.Status.Failed)
	}
	return text
}

// stateOf reports whether pods of the Job may write, and why none will start any more.
func stateOf(job *batchv1.Job) (active bool, broken string) {
	var suspended bool
	for _, c := range job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type { //nolint:exhaustive // the other conditions announce these
		case batchv1.JobComplete:
			return false, "the worker ended without a result; see its log"
		case batchv1.JobFailed:
			return false, fmt.Sprintf("the Job %s failed: %s; see the logs of its pods", job.Name, c.Message)
		case batchv1.JobSuspended:
			suspended = true
		}
	}
	if job.Spec.Suspend == nil || !*job.Spec.Suspend {
		return true, ""
	}
	terminating := int32(0)
	if job.Status.Terminating != nil {
		terminating = *job.Status.Terminating
	}
	return !suspended || job.Status.Active+terminating > 0, ""
}

// mostTries bounds how often a run is offered to workers that write their rosters in the same moment.
const mostTries = 10

// start creates the checkpoint, then finds a worker: one that takes runs, or that of a new Job. A crash in between leaves
// a run without a worker, for which start is called again.
func (j *jobs) start(ctx context.Context, m *v1alpha1.StorageVersionMigration, r run, seed string) error {
	err := j.createCheckpoint(ctx, m, r, seed)
	for tries, given := 0, false; err == nil && !given && tries < mostTries; tries++ {
		given, err = j.assign(ctx, r)
		if apierrors.IsConflict(err) {
			given, err = false, nil
		}
	}
	return err
}

// assign assigns the run to a worker, and reports whether one has it now.
func (j *jobs) assign(ctx context.Context, r run) (given bool, err error) {
	all, err := j.carriers(ctx)
	if err != nil {
		return false, err
	}
	switch c := choose(all, r); {
	case c == nil:
		return true, j.employ(ctx, all, r)
	case c.at(r) && c.working:
		return true, nil
	case c.at(r):
		_, err := j.stop(ctx, c, r) // no pod of it will start any more
		return false, err
	default:
		return true, j.give(ctx, c, r)
	}
}

// give assigns the run to a worker, under the resourceVersion at which the worker took runs.
func (j *jobs) give(ctx context.Context, c *carrier, r run) error {
	sheet := c.sheet.DeepCopy()
	err := worker.Give(sheet, r.task())
	if err == nil {
		err = j.client.Update(ctx, sheet)
	}
	if err != nil {
		return fmt.Errorf("give run %s to job %s: %w", r.name, c.job.Name, err)
	}
	return nil
}

// employ creates a Job, then the roster for which its pod waits, with the run. A crash in between leaves a Job whose
// work cannot be determined, which is removed.
func (j *jobs) employ(ctx context.Context, all []carrier, r run) error {
	job := j.job(freeName(all, r.name))
	if err := j.client.Create(ctx, job); err != nil {
		return fmt.Errorf("create job %s: %w", job.Name, err)
	}
	owner := *metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))
	sheet := &corev1.ConfigMap{ObjectMeta: j.metadata(rosterOf(job.Name))}
	sheet.OwnerReferences, sheet.Labels[rosterLabel] = []metav1.OwnerReference{owner}, "true"
	if err := worker.Give(sheet, r.task()); err != nil {
		return fmt.Errorf("give run %s to job %s: %w", r.name, job.Name, err)
	}
	if err := j.client.Create(ctx, sheet); err != nil {
		return fmt.Errorf("create roster of job %s: %w", job.Name, err)
	}
	return nil
}

// halt tells the worker in its roster to end the run. The Job of a worker that does not do so is suspended, which
// interrupts its other runs, too.
func (j *jobs) halt(ctx context.Context, r run) error {
	if r.job == "" {
		return nil
	}
	all, err := j.carriers(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		c := &all[i]
		if !c.at(r) || c.working && !r.active { // a run that has its outcome needs no stop
			continue
		}
		told, err := j.stop(ctx, c, r)
		if err != nil {
			return err
		}
		if c.working && !told.IsZero() && time.Since(told) > silence {
			return j.suspend(ctx, c.job.Name)
		}
	}
	return nil
}

// stop writes into the roster that the run is to end, and returns since when it has said so. If no pod of the Job can
// write, the run has ended.
func (j *jobs) stop(ctx context.Context, c *carrier, r run) (told time.Time, err error) {
	if c.sheet == nil {
		return told, nil
	}
	sheet := c.sheet.DeepCopy()
	told, changed, err := worker.Stop(sheet, r.name, !c.working, time.Now())
	if err == nil && changed {
		err = j.client.Update(ctx, sheet)
	}
	if err != nil {
		return told, fmt.Errorf("stop run %s in job %s: %w", r.name, c.job.Name, err)
	}
	return told, nil
}

func (j *jobs) suspend(ctx context.Context, name string) error {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: name}}
	err := j.client.Patch(ctx, job, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"suspend":true}}`)))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("suspend job %s: %w", name, err)
	}
	return nil
}

// giveUp writes the outcome first, which ends a run that is still alive somewhere. If the worker reports of no other run
// either, its Job is suspended. After its pods are deleted, other workers continue those.
func (j *jobs) giveUp(ctx context.Context, r run, why string) error {
	if given, err := j.store.giveUp(ctx, r, why); !given || r.job == "" {
		return err
	}
	if time.Since(r.workerHeardAt) > silence {
		return j.suspend(ctx, r.job)
	}
	return j.halt(ctx, r)
}

// remove deletes the checkpoint once no worker is at the run. Until then the run counts as active, even if its migration
// and its checkpoint are deleted (I8). Of a Job that is no longer needed, or of which no one can tell what it does, the
// API server keeps the Job until its pods are gone.
func (j *jobs) remove(ctx context.Context, r run) error {
	if r.stray {
		if r.dismissed {
			return nil
		}
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: r.job}}
		err := j.client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationForeground))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete job %s: %w", r.job, err)
		}
		return nil
	}
	if err := j.halt(ctx, r); err != nil || r.active || r.removing {
		return err
	}
	return j.deleteCheckpoint(ctx, r.name)
}

// metadata returns the metadata of Jobs and rosters.
func (j *jobs) metadata(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: j.namespace, Name: name,
		Labels: map[string]string{componentLabel: workerComponent, nameLabel: program, managedByLabel: program},
	}
}

// job returns a Job: one pod at a time, restarted until its worker closes the roster. No migration owns it.
func (j *jobs) job(name string) *batchv1.Job {
	meta := j.metadata(name)
	meta.Annotations = map[string]string{workerAnnotation: j.worker(), settingsAnnotation: j.settings.String()}
	// With any way of deleting it, the Job exists until its pods are gone (I8).
	meta.Finalizers = []string{metav1.FinalizerDeleteDependents}
	arguments := worker.Arguments{Namespace: j.namespace, Roster: rosterOf(name), Settings: j.settings}
	return &batchv1.Job{
		ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			Parallelism: new(int32(1)), Completions: new(int32(1)),
			// Pods are evicted, nodes fail, and a worker that was ended resumes where it was. The worker itself counts
			// runs without progress.
			BackoffLimit: new(int32(1000)),
			// A replacement pod starts when the pod has ended, not when it is told to end: two sweeps of one resource
			// must never run at once (I8).
			PodReplacementPolicy: new(batchv1.Failed),
			// The controller deletes a Job that has ended. If no controller runs any more, Kubernetes does.
			TTLSecondsAfterFinished: new(int32(3600)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels, Annotations: meta.Annotations},
				Spec:       j.pod(arguments.CommandLine()),
			},
		},
	}
}

func (j *jobs) pod(args []string) corev1.PodSpec {
	return corev1.PodSpec{
		ServiceAccountName:           j.serviceAccount,
		AutomountServiceAccountToken: new(true), // the account itself gives no pod a token
		// otherwise Services of the namespace would become environment variables
		EnableServiceLinks:            new(false),
		RestartPolicy:                 corev1.RestartPolicyNever,
		TerminationGracePeriodSeconds: new(int64(20)),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(65532)), RunAsGroup: new(int64(65532)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: workerComponent, Image: j.image, ImagePullPolicy: j.imagePullPolicy, Args: args,
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"),
					corev1.ResourceMemory: resource.MustParse("64Mi")},
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
			},
			// 90 % of the limit, as for the controller: the garbage collector works harder before the kernel ends the
			// process (I6).
			Env: []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: "230MiB"}},
			// The last lines of the log are in the pod's status, for users who cannot read logs.
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		}},
	}
}
