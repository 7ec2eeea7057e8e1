// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"context"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
)

// jobs carries out runs as Jobs, each with the ConfigMap of its checkpoint.
type jobs struct {
	store
	image           string
	imagePullPolicy corev1.PullPolicy
	serviceAccount  string
}

func (j *jobs) list(ctx context.Context, live bool) ([]run, error) {
	found := new(batchv1.JobList)
	if err := j.reader(live).List(ctx, found, j.ours()...); err != nil {
		return nil, fmt.Errorf("list jobs: %w", err)
	}
	checkpoints, err := j.checkpoints(ctx, live)
	if err != nil {
		return nil, err
	}
	var all []run
	for i := range found.Items {
		job := &found.Items[i]
		if r, ours := j.identify(job); ours {
			all = append(all, j.found(r, job, checkpoints[job.Name]))
		}
	}
	return all, nil
}

// found is a run as its Job and the ConfigMap of its checkpoint show it; nil where there is none.
func (j *jobs) found(r run, job *batchv1.Job, checkpoint *corev1.ConfigMap) run {
	r.active, r.broken = stateOf(job)
	r.incomplete = checkpoint == nil || !metav1.IsControlledBy(checkpoint, job)
	if !r.incomplete {
		r.read(checkpoint)
	}
	if r.report != nil && r.report.Outcome != nil {
		r.active = false // the outcome is the last thing that a worker writes
	}
	r.outdated = workerOf(job) != j.worker()
	if at, err := time.Parse(time.RFC3339, job.Annotations[begunAnnotation]); err == nil {
		r.begun = at
	}
	r.whereabouts = fmt.Sprintf("the Job %s %s (to see why: kubectl -n %s describe job %s)", job.Name, podOf(job), job.Namespace, job.Name)
	return r
}

// worker is what a new Job's worker runs as; workerOf is what that of an existing one was given. Admission may have changed the template
// since, which is not for us to judge.
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

// podOf says what the Job tells of its pod: the controller may not read pods.
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

// stateOf says whether pods of the job may write, and why none will come any more.
func stateOf(job *batchv1.Job) (active bool, broken string) {
	var suspended bool
	for _, c := range job.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type { //nolint:exhaustive // the other conditions announce these
		case batchv1.JobComplete:
			return false, "the worker ended without a result; its log says why"
		case batchv1.JobFailed:
			return false, fmt.Sprintf("the Job %s failed: %s; the logs of its pods say why", job.Name, c.Message)
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

// start creates the Job, then the ConfigMap that its pod waits for. Dying in between leaves a run that is incomplete,
// for which start is called again.
func (j *jobs) start(ctx context.Context, m *v1alpha1.StorageVersionMigration, r run, seed string) error {
	job := j.job(m, r)
	err := j.client.Create(ctx, job)
	if apierrors.IsAlreadyExists(err) {
		if err := j.live.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
			return fmt.Errorf("read job: %w", err)
		}
		if job.DeletionTimestamp != nil {
			return nil // its end is waited for
		}
		err = j.suspend(ctx, job, false)
	}
	if err != nil {
		return fmt.Errorf("start job %s: %w", r.name, err)
	}
	owner := *metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))
	return j.createCheckpoint(ctx, r.metadata(j.namespace, owner), seed)
}

func (j *jobs) halt(ctx context.Context, r run) error {
	job := new(batchv1.Job)
	err := j.live.Get(ctx, client.ObjectKey{Namespace: j.namespace, Name: r.name}, job)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err == nil {
		err = j.suspend(ctx, job, true)
	}
	if err != nil {
		return fmt.Errorf("suspend job %s: %w", r.name, err)
	}
	return nil
}

func (j *jobs) suspend(ctx context.Context, job *batchv1.Job, suspend bool) error {
	if job.Spec.Suspend != nil && *job.Spec.Suspend == suspend {
		return nil
	}
	return j.client.Patch(ctx, job, client.RawPatch("application/merge-patch+json", fmt.Appendf(nil,
		`{"metadata":{"annotations":{%q:%q}},"spec":{"suspend":%t}}`, begunAnnotation, time.Now().Format(time.RFC3339), suspend)))
}

// giveUp writes the outcome first: that ends a worker which is alive somewhere. Without the Job's pods none comes any more.
func (j *jobs) giveUp(ctx context.Context, r run, why string) error {
	if err := j.store.giveUp(ctx, r, why); err != nil {
		return err
	}
	return j.halt(ctx, r)
}

// remove deletes the Job and waits in the API server until its pods are gone: until then the run is there, and nothing
// else is started for the resource (I8). The ConfigMap is garbage.
func (j *jobs) remove(ctx context.Context, r run) error {
	if r.removing {
		return nil
	}
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: j.namespace, Name: r.name}}
	if err := j.client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationForeground)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete job %s: %w", r.name, err)
	}
	return nil
}

// job is the Job of a run: one pod at a time, restarted until it has a result.
func (j *jobs) job(m *v1alpha1.StorageVersionMigration, r run) *batchv1.Job {
	args := []string{
		"worker", "--migration=" + m.Name, "--uid=" + string(m.UID),
		fmt.Sprintf("--generation=%d", r.generation), fmt.Sprintf("--attempt=%d", r.attempt),
		"--namespace=" + j.namespace, "--configmap=" + r.name,
		"--min-evidence=" + strings.ToLower(j.minEvidence), "--settle-time=" + j.settleTime.String(),
		"--shutdown-delay=" + j.shutdownDelay.String(),
	}
	owner := *metav1.NewControllerRef(m, v1alpha1.SchemeGroupVersion.WithKind("StorageVersionMigration"))
	meta := r.metadata(j.namespace, owner)
	meta.Annotations[workerAnnotation] = j.worker()
	// Also where the garbage collector deletes the Job, because its migration is gone, the Job is there until its pods are not (I8).
	meta.Finalizers = []string{metav1.FinalizerDeleteDependents}
	return &batchv1.Job{
		ObjectMeta: meta,
		Spec: batchv1.JobSpec{
			Parallelism: new(int32(1)), Completions: new(int32(1)),
			// Pods are evicted, nodes fail, and a worker that was ended goes on where it was: what is no progress the worker counts itself.
			BackoffLimit: new(int32(1000)),
			// A pod's replacement begins when the pod has ended, not when it is told to: never two sweeps of one resource (I8).
			PodReplacementPolicy: new(batchv1.Failed),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: meta.Labels, Annotations: meta.Annotations},
				Spec:       j.pod(args),
			},
		},
	}
}

func (j *jobs) pod(args []string) corev1.PodSpec {
	return corev1.PodSpec{
		ServiceAccountName:            j.serviceAccount,
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
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("64Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
			},
			// 90 % of the limit, as for the controller: the garbage collector works harder before the kernel ends the process (I6).
			Env: []corev1.EnvVar{{Name: "GOMEMLIMIT", Value: "230MiB"}},
			// What the last lines of the log say is in the pod's status, for those who cannot read logs.
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
		}},
	}
}
