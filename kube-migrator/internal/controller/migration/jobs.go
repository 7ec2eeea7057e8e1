// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"encoding/json"
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

// jobs carries out runs in Jobs. The worker of a Job carries out one run after the other; its roster, a ConfigMap that
// the Job owns, says which one it is working on (worker.Roster). A run is the ConfigMap of its checkpoint. The
// migration owns it, so that neither the deletion of a Job nor that of another migration deletes it.
type jobs struct {
	store
	image           string
	imagePullPolicy corev1.PullPolicy
	serviceAccount  string
}

func (j *jobs) list(ctx context.Context, live bool) ([]run, error) {
	carriers, checkpoints, err := j.look(ctx, live)
	if err != nil {
		return nil, err
	}
	var all []run
	for _, checkpoint := range checkpoints {
		if r, ours := j.identify(checkpoint); ours {
			r.read(checkpoint)
			all = append(all, r)
		}
	}
	return withCarriers(all, carriers), nil
}

// look reads all Jobs with their rosters, and the ConfigMaps of checkpoints. Jobs come first: the roster of a listed
// Job exists, unless someone deleted it or its creation was interrupted.
func (j *jobs) look(ctx context.Context, live bool) ([]carrier, map[string]*corev1.ConfigMap, error) {
	found := new(batchv1.JobList)
	if err := j.reader(live).List(ctx, found, j.ours()...); err != nil {
		return nil, nil, fmt.Errorf("list jobs: %w", err)
	}
	checkpoints, rosters, err := j.configMaps(ctx, live)
	if err != nil {
		return nil, nil, err
	}
	var all []carrier
	for i := range found.Items {
		c, err := j.carrier(&found.Items[i], rosters)
		if err != nil {
			j.log.Warn("Cannot read the roster of a Job; removing the Job", "job",
				found.Items[i].Name, "error", err)
		}
		all = append(all, c)
	}
	return all, checkpoints, nil
}

// carrier returns a Job with its roster as they are found.
func (j *jobs) carrier(job *batchv1.Job, rosters map[string]*corev1.ConfigMap) (c carrier, err error) {
	c.job = job
	c.working, c.broken = stateOf(job)
	c.outdated, c.otherwise = workerOf(job) != j.worker(), job.Annotations[settingsAnnotation] != j.settings.String()
	var r worker.Roster
	if last, noted := job.Annotations[lastAnnotation]; noted && job.DeletionTimestamp != nil {
		// The garbage collector deletes the roster before the pods have ended. A Job that is being deleted is assigned
		// nothing.
		if err = json.Unmarshal([]byte(last), &r.Task); err == nil {
			if r.Done = r.Task.Number - 1; r.Task.ConfigMap == "" {
				r.Done = r.Task.Number
			}
			c.roster = &r
		}
		return c, err
	}
	if sheet := rosters[rosterOf(job.Name)]; sheet != nil && metav1.IsControlledBy(sheet, job) {
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

// haltedOrResumed returns when the Job was last suspended or resumed, or zero if it never was.
func haltedOrResumed(job *batchv1.Job) time.Time {
	at, err := time.Parse(time.RFC3339, job.Annotations[begunAnnotation])
	if err != nil {
		return time.Time{}
	}
	return at
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

// start creates the checkpoint, then finds a worker: the one that is working on the run, an idle one, or that of a new
// Job. A crash in between leaves a run without a worker, for which start is called again.
func (j *jobs) start(ctx context.Context, m *v1alpha1.StorageVersionMigration, r run, seed string) error {
	owner := *metav1.NewControllerRef(m, v1alpha1.SchemeGroupVersion.WithKind("StorageVersionMigration"))
	if err := j.createCheckpoint(ctx, r.metadata(j.namespace, owner), seed); err != nil {
		return err
	}
	all, _, err := j.look(ctx, true)
	if err != nil {
		return err
	}
	switch c := choose(all, r); {
	case c == nil:
		return j.employ(ctx, all, r)
	case c.at(r) && c.job.DeletionTimestamp != nil:
		return nil // the Job has to end first
	case c.at(r):
		if err := j.suspend(ctx, c.job, false); err != nil {
			return fmt.Errorf("resume job %s: %w", c.job.Name, err)
		}
		return nil
	default:
		return j.give(ctx, c, r)
	}
}

// give assigns the run to an idle worker, under the resourceVersion at which the worker was idle.
func (j *jobs) give(ctx context.Context, c *carrier, r run) error {
	sheet := c.sheet.DeepCopy()
	if err := worker.Give(sheet, r.task()); err != nil {
		return fmt.Errorf("give run %s to job %s: %w", r.name, c.job.Name, err)
	}
	if err := j.client.Update(ctx, sheet); err != nil {
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

// halt suspends the Job. The earlier runs of its worker have ended, so it halts only this run. If this run has ended in
// the meantime, the Job is no longer needed.
func (j *jobs) halt(ctx context.Context, r run) error {
	if r.job == "" {
		return nil
	}
	job := new(batchv1.Job)
	err := j.live.Get(ctx, client.ObjectKey{Namespace: j.namespace, Name: r.job}, job)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = j.suspend(ctx, job, true)
	}
	if err != nil {
		return fmt.Errorf("suspend job %s: %w", r.job, err)
	}
	return nil
}

func (j *jobs) suspend(ctx context.Context, job *batchv1.Job, suspend bool) error {
	if job.Spec.Suspend != nil && *job.Spec.Suspend == suspend || job.Spec.Suspend == nil && !suspend {
		return nil
	}
	return j.client.Patch(ctx, job, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil,
		`{"metadata":{"annotations":{%q:%q}},"spec":{"suspend":%t}}`, begunAnnotation,
		time.Now().Format(time.RFC3339), suspend)))
}

// giveUp writes the outcome first, which ends a worker that is still alive somewhere. After the Job's pods are deleted,
// no worker will continue the run.
func (j *jobs) giveUp(ctx context.Context, r run, why string) error {
	if err := j.store.giveUp(ctx, r, why); err != nil {
		return err
	}
	return j.halt(ctx, r)
}

// remove deletes the Job whose worker is working on the run, and the checkpoint. The API server keeps the Job until its
// pods are gone. Until then the run counts as active, even if its migration and its checkpoint are deleted (I8).
func (j *jobs) remove(ctx context.Context, r run) error {
	if r.job != "" && !r.dismissed {
		if err := j.dismiss(ctx, r); err != nil {
			return err
		}
	}
	if r.stray || r.removing {
		return nil
	}
	checkpoint := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: r.name}}
	if err := j.client.Delete(ctx, checkpoint); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete checkpoint %s: %w", r.name, err)
	}
	return nil
}

// dismiss deletes a Job. It first records what the worker is working on, because the garbage collector deletes the
// roster before the pods. It records nothing if that cannot be determined.
func (j *jobs) dismiss(ctx context.Context, r run) error {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: r.job}}
	if !r.stray || !r.active {
		last := worker.Task{}
		if r.active {
			last = r.task()
		}
		note, err := json.Marshal(last)
		if err != nil {
			return fmt.Errorf("encode task: %w", err)
		}
		patch, err := json.Marshal(
			map[string]any{"metadata": map[string]any{"annotations": map[string]string{lastAnnotation: string(note)}}},
		)
		if err != nil {
			return fmt.Errorf("encode task: %w", err)
		}
		if err := j.client.Patch(ctx, job, client.RawPatch("application/merge-patch+json",
			patch)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete job %s: %w", r.job, err)
		}
	}
	if err := j.client.Delete(
		ctx, job, client.PropagationPolicy(metav1.DeletePropagationForeground),
	); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete job %s: %w", r.job, err)
	}
	return nil
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
