// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"context"
	"fmt"
	"net/http"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/identity"
)

func leasesPath(namespace string) (string, error) {
	path, err := apipath.Join("/apis/coordination.k8s.io/v1/namespaces", namespace)
	return path + "/leases", err
}

// membership is the identity Lease of this process.
type membership struct {
	api              *client
	path             string // of the Leases in the namespace
	template         coordinationv1.Lease
	duration         time.Duration
	held             *coordinationv1.Lease // as it was last written; nil while it is not ours
	renewed          time.Time             // when the last successful renewal was started
	others           observations
	objectPath, name string
	// everHeld is whether this process has ever held the Lease.
	everHeld bool
	// inheritance is set while an earlier process with this ID, whose Lease this one continues, may still write.
	inheritance *inheritance
}

// inheritance is a Lease that was continued before it had expired. Other servers see it renewed, so the entries of the
// earlier process stay; they are its entries, so this process publishes nothing until that one has surely stopped
// writing: its whole duration after it was seen last.
type inheritance struct {
	since   time.Time
	left    time.Duration
	seconds int32 // the duration of the earlier process's Lease
}

// isOver reports whether the earlier process has stopped writing.
func (i *inheritance) isOver() bool { return surely(i.since) >= i.left }

// errInherited says that the earlier process may still write.
type errInherited struct {
	name string
	left time.Duration
}

func (e *errInherited) Error() string {
	return fmt.Sprintf("an earlier process held the identity Lease %s: waiting another %s until it has surely stopped writing",
		e.name, e.left.Round(time.Second))
}

// errLeaseHeld says that another process may still use the identity.
type errLeaseHeld struct{ name, holder string }

func (e *errLeaseHeld) Error() string {
	return fmt.Sprintf("the identity Lease %s is held by %s: waiting until it is deleted or has expired (IDs must be unique)",
		e.name, e.holder)
}

// keep renews the Lease, or takes it. at is a moment from which its life counts. joined reports that the Lease was not
// ours without interruption: others may have dropped entries since. An error leaves it open whether the Lease is
// renewed; lost reports that it is not ours.
func (m *membership) keep(ctx context.Context) (at time.Time, joined, lost bool, err error) {
	before := m.renewed
	if m.held != nil {
		at, err = m.put(ctx, m.held, false)
		if hasStatus(err, http.StatusConflict) || hasStatus(err, http.StatusNotFound) {
			err = m.read(ctx)
			if err == nil && m.held != nil {
				at, err = m.put(ctx, m.held, false)
			}
		}
		if err != nil {
			return at, false, false, err
		}
		if m.held != nil {
			began, err := m.inherit()
			return at, err == nil && (began || possibly(before) >= m.duration), false, err
		}
		lost = true
	}
	if at, err = m.take(ctx); err == nil {
		_, err = m.inherit()
	}
	return at, err == nil, lost, err
}

// inherit returns an error while an earlier process may still write. over is true once, when that wait has just ended.
func (m *membership) inherit() (over bool, err error) {
	i := m.inheritance
	switch {
	case i == nil:
		return false, nil
	case !i.isOver():
		return false, &errInherited{name: m.name, left: i.left - surely(i.since)}
	}
	m.inheritance = nil
	return true, nil
}

// read reads the Lease. It is not held any more if it is gone or another process has taken it.
func (m *membership) read(ctx context.Context) error {
	var lease coordinationv1.Lease
	err := m.api.do(ctx, http.MethodGet, m.objectPath, nil, nil, &lease)
	switch {
	case hasStatus(err, http.StatusNotFound):
		m.held = nil
	case err != nil:
		return err
	case holderOf(&lease) == *m.template.Spec.HolderIdentity:
		m.held = &lease
	default:
		m.held = nil
	}
	return nil
}

// take creates the Lease, or takes it over: from a process that has not renewed it for its whole duration, or, as the
// first thing that this process does, from an earlier process of the same host, whose entries then stay (inheritance).
// A process that has lost the Lease takes it back only once it has expired: otherwise two processes that run with one
// ID by mistake would take it from each other all the time.
func (m *membership) take(ctx context.Context) (time.Time, error) {
	var lease coordinationv1.Lease
	err := m.api.do(ctx, http.MethodGet, m.objectPath, nil, nil, &lease)
	switch {
	case hasStatus(err, http.StatusNotFound):
		return m.create(ctx)
	case err != nil:
		return time.Time{}, err
	case holderOf(&lease) == *m.template.Spec.HolderIdentity: // the answer to an earlier request was lost
		return m.put(ctx, &lease, false)
	}
	left := m.others.left(&lease)
	if left > 0 && (m.everHeld || !m.isOfThisHost(&lease)) {
		return time.Time{}, &errLeaseHeld{name: m.name, holder: holderOf(&lease)}
	}
	m.inheritance = nil
	if left > 0 {
		m.inheritance = &inheritance{since: time.Now(), left: left, seconds: secondsOf(&lease)}
	}
	return m.put(ctx, &lease, true)
}

// isOfThisHost reports whether a process on this host, or in a container of this pod, holds the Lease.
func (m *membership) isOfThisHost(lease *coordinationv1.Lease) bool {
	host := m.template.Labels[identity.HostLabel]
	return host != "" && lease.Labels[identity.HostLabel] == host
}

func (m *membership) create(ctx context.Context) (time.Time, error) {
	start := time.Now()
	lease := m.template.DeepCopy()
	lease.Spec.AcquireTime = &metav1.MicroTime{Time: start}
	lease.Spec.RenewTime = lease.Spec.AcquireTime
	var created coordinationv1.Lease
	if err := m.api.do(ctx, http.MethodPost, m.path, nil, lease, &created); err != nil {
		return time.Time{}, err
	}
	m.held, m.renewed, m.everHeld = &created, start, true
	return start, nil
}

// put renews the Lease under the resourceVersion that was read.
func (m *membership) put(ctx context.Context, read *coordinationv1.Lease, takeOver bool) (time.Time, error) {
	start := time.Now()
	lease := m.template.DeepCopy()
	lease.UID, lease.ResourceVersion = read.UID, read.ResourceVersion
	lease.Spec.AcquireTime, lease.Spec.LeaseTransitions = read.Spec.AcquireTime, read.Spec.LeaseTransitions
	lease.Spec.RenewTime = &metav1.MicroTime{Time: start}
	if i := m.inheritance; i != nil { // a process that comes next waits for the earliest, too
		seconds := max(i.seconds, *lease.Spec.LeaseDurationSeconds)
		lease.Spec.LeaseDurationSeconds = &seconds
	}
	if takeOver {
		transitions := int32(1)
		if read.Spec.LeaseTransitions != nil {
			transitions += *read.Spec.LeaseTransitions
		}
		lease.Spec.AcquireTime, lease.Spec.LeaseTransitions = lease.Spec.RenewTime, &transitions
	}
	var renewed coordinationv1.Lease
	if err := m.api.do(ctx, http.MethodPut, m.objectPath, nil, lease, &renewed); err != nil {
		return start, err
	}
	m.held, m.renewed, m.everHeld = &renewed, start, true
	return start, nil
}

// release deletes the Lease unless it is another process's by now.
func (m *membership) release(ctx context.Context) error {
	if m.held == nil {
		return nil
	}
	if err := m.read(ctx); err != nil || m.held == nil {
		return err
	}
	return deleteLease(ctx, m.api, m.objectPath, m.held)
}

// deleteLease deletes a Lease that is as it was read.
func deleteLease(ctx context.Context, api *client, path string, lease *coordinationv1.Lease) error {
	options := metav1.DeleteOptions{
		TypeMeta:      metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"},
		Preconditions: &metav1.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion},
	}
	err := api.do(ctx, http.MethodDelete, path, nil, options, nil)
	if hasStatus(err, http.StatusNotFound) || hasStatus(err, http.StatusConflict) {
		return nil
	}
	return err
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// secondsOf is the duration of a Lease.
func secondsOf(lease *coordinationv1.Lease) int32 {
	if s := lease.Spec.LeaseDurationSeconds; s != nil && *s > 0 {
		return *s
	}
	return int32(identity.UnstatedDuration / time.Second)
}

// observations is since when Leases were seen as they are. A Lease counts as expired once it was seen unchanged for its
// whole duration by this machine's clock: that its holder's clock may be wrong by hours does not matter (see gate).
type observations map[string]observation

type observation struct {
	// version is UID and resourceVersion.
	version string
	// since is when it was first seen as it is, last when it was last seen.
	since, last time.Time
}

// forget forgets Leases that were not seen for a long time: they are gone.
func (o observations) forget() {
	for key, known := range o {
		if surely(known.last) > 2*identity.UnstatedDuration {
			delete(o, key)
		}
	}
}

// unchanged notes an object as it was just read, and returns for how long it was seen as it is.
func (o observations) unchanged(key, version string) time.Duration {
	known, ok := o[key]
	if !ok || known.version != version {
		known = observation{version: version, since: time.Now()}
	}
	known.last = time.Now()
	o[key] = known
	return surely(known.since)
}

// left notes the Lease as it was just read, and returns for how long it can still count without being renewed. It has
// expired if that is not positive.
func (o observations) left(lease *coordinationv1.Lease) time.Duration {
	duration := time.Duration(secondsOf(lease)) * time.Second
	return duration - o.unchanged(lease.Namespace+"/"+lease.Name, string(lease.UID)+"/"+lease.ResourceVersion)
}
