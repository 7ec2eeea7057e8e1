// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/access"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
)

const (
	// permitEvery is how long a positive answer is trusted, and how often the trigger asks again while a resource is
	// forbidden: no watch shows that a role was extended.
	permitEvery = time.Minute
	// askedAgain is how many of the forbidden resources it asks about then, in turn. An administrator grants many at
	// once, and a look finds the others.
	askedAgain = 8
)

// permits asks what the worker's account may do, and reports what it is forbidden to do: a migration of such a resource
// would only fail.
type permits struct {
	rest    rest.Interface
	account access.Account
	// forbidden is 1 for each resource that the account is forbidden to migrate.
	forbidden *prometheus.GaugeVec
	// until is how long a resource counts as permitted without asking again.
	until map[schema.GroupResource]time.Time
	// missing are the resources of the last look that are forbidden, and turn is where to continue with them.
	missing []schema.GroupResource
	turn    int
	// unguarded means that nothing was granted at the last look because the guard was not in force.
	unguarded bool
}

func newPermits(client rest.Interface, account access.Account, registry prometheus.Registerer) (*permits, error) {
	p := &permits{
		rest: client, account: account, until: map[schema.GroupResource]time.Time{},
		forbidden: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: "kube_migrator", Name: "forbidden",
			Help: "1 if the worker is forbidden to migrate a resource that is included. At most " +
				strconv.Itoa(mostNamed) + " resources.",
		}, []string{"resource"}),
	}
	return p, registry.Register(p.forbidden)
}

// everything stands for all resources. If the account may migrate everything, no other resource has to be asked about.
var everything = schema.GroupResource{Group: "*", Resource: "*"}

// ask returns what the account lacks to migrate a resource, or nil if it lacks nothing.
func (p *permits) ask(ctx context.Context, r schema.GroupResource) (*access.ForbiddenError, error) {
	if time.Now().Before(p.until[r]) {
		return nil, nil
	}
	var needed []access.Permission
	for _, verb := range []string{"get", "list", "patch"} {
		needed = append(needed, access.Permission{Verb: verb, Resource: r})
	}
	err := access.AskFor(ctx, p.rest, p.account, needed)
	if missing := (*access.ForbiddenError)(nil); errors.As(err, &missing) {
		return missing, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask what the worker may do with %s: %w", r, err)
	}
	p.until[r] = time.Now().Add(permitEvery)
	return nil, nil
}

// forbid counts a forbidden resource. Users who may create CRDs choose the names of resources, so the number of series
// is bounded (I6).
func (p *permits) forbid(name string) {
	p.missing = append(p.missing, schema.ParseGroupResource(name))
	if len(p.missing) <= mostNamed {
		p.forbidden.WithLabelValues(name).Set(1)
	}
}

// mayMore reports whether a look would find that the worker may migrate more than at the last one. It asks nothing else
// of the API servers: a look would ask each of them for everything.
func (t *trigger) mayMore(ctx context.Context) bool {
	p := t.permits
	if p == nil || len(p.missing) == 0 {
		return false
	}
	if p.unguarded && t.grants.isGuarded(ctx) {
		return true
	}
	for range min(askedAgain, len(p.missing)) {
		p.turn = (p.turn + 1) % len(p.missing)
		if missing, err := p.ask(ctx, p.missing[p.turn]); err == nil && missing == nil {
			return true
		}
	}
	return false
}

// permitted returns the condition about missing permissions; missing is nil if there are none, and unguarded means that
// nothing is granted because the guard is not in force. ok is false if the resource needs no such condition: a resource
// gets one when it is forbidden for the first time, and keeps it. It is pure.
func permitted(before []v1alpha1.Condition, missing *access.ForbiddenError, unguarded bool,
	now metav1.Time) (c v1alpha1.Condition, ok bool) {
	c = v1alpha1.Condition{
		Type:    v1alpha1.ConditionPermitted,
		Status:  metav1.ConditionTrue,
		Reason:  v1alpha1.ReasonGranted,
		Message: "The worker may migrate the resource",
	}
	if missing != nil {
		c.Status, c.Reason = metav1.ConditionFalse, v1alpha1.ReasonForbidden
		c.Message = fmt.Sprintf("forbidden: the worker cannot %s %s, so that no migration is requested. Try: "+
			"kube-migrator install", missing.Verb, missing.Resource)
		if unguarded {
			c.Reason = v1alpha1.ReasonUnguarded
			c.Message = fmt.Sprintf("forbidden: the worker cannot %s %s, and is granted nothing until the admission "+
				"policies of the guard are in force. Try: %s", missing.Verb, missing.Resource, showGuard)
		}
		if inventory.ExemptFromPolicies(missing.Resource) {
			c.Reason = v1alpha1.ReasonByHand
			c.Message = fmt.Sprintf("forbidden: the worker cannot %s %s. No admission policy can guard this resource, "+
				"so an administrator migrates it. Try: kube-migrator migrate %s",
				missing.Verb, missing.Resource, missing.Resource)
		}
	}
	return c.Dated(before, now), missing != nil || isAboutPermission(before)
}

// showGuard shows whether the policies and their bindings exist.
const showGuard = "kubectl get validatingadmissionpolicies,validatingadmissionpolicybindings " +
	"-l app.kubernetes.io/name=kube-migrator"

// permit asks about each resource that may have to be migrated, and marks those that are forbidden. It runs after the
// looks are recorded and does not delay them. An entry whose condition cannot be written counts as failed: what has been
// recorded about it since the look may say something else, and a migration is requested only for what is recorded.
func (t *trigger) permit(ctx context.Context, plan []entryPlan) (problems []error) {
	var asked []*entryPlan
	for i := range plan {
		e := &plan[i]
		if e.failed || e.decision.Forget || e.resource.entry == nil || e.resource.entry.Problem != nil ||
			t.excludes(e.resource.entry.Names()) {
			continue
		}
		if !e.decision.State.Migrated() || isAboutPermission(e.state.Status.Conditions) {
			asked = append(asked, e)
		}
	}
	t.permits.forbidden.Reset()
	t.permits.missing, t.permits.unguarded = nil, false
	if len(asked) == 0 {
		return nil
	}
	lacking, err := t.lacking(ctx, asked)
	if err != nil {
		return []error{err}
	}
	granted, err := t.grants.extend(ctx, lacking, t.observer.known)
	unguarded := errors.Is(err, errUnguarded)
	t.permits.unguarded = unguarded
	if err != nil {
		problems = append(problems, err)
	} else if len(granted) > 0 {
		t.Logger.Info("Granted the worker the permissions for new resources", "resources", granted)
		if lacking, err = t.untilGranted(ctx, asked, granted); err != nil {
			return append(problems, err)
		}
	}
	for _, e := range asked {
		missing := lacking[e.resource.entry.GroupResource]
		e.forbidden = missing != nil
		// no role will ever include these
		if e.forbidden && !inventory.ExemptFromPolicies(e.resource.entry.GroupResource) {
			t.permits.forbid(e.name)
		}
		if err := t.recordPermission(ctx, e, missing, unguarded); err != nil {
			problems = append(problems, fmt.Errorf("storage state %s: %w", e.name, err))
			e.failed = true
		}
	}
	return problems
}

// lacking returns, for each resource that the account cannot migrate, what it lacks.
func (t *trigger) lacking(ctx context.Context,
	asked []*entryPlan) (map[schema.GroupResource]*access.ForbiddenError, error) {
	all, err := t.permits.ask(ctx, everything)
	if err != nil || all == nil {
		return nil, err
	}
	lacking := map[schema.GroupResource]*access.ForbiddenError{}
	for _, e := range asked {
		r := e.resource.entry.GroupResource
		missing, err := t.permits.ask(ctx, r)
		if err != nil {
			return nil, err
		}
		if missing != nil {
			lacking[r] = missing
		}
	}
	return lacking, nil
}

// inForce is how long to wait at most until an API server's authorizer knows a grant. The authorizer learns of it
// through a watch, usually within milliseconds.
const inForce = 5 * time.Second

// untilGranted asks again until the account has every permission that was granted.
func (t *trigger) untilGranted(
	ctx context.Context, asked []*entryPlan, granted []schema.GroupResource,
) (lacking map[schema.GroupResource]*access.ForbiddenError, err error) {
	for begin := time.Now(); ; _ = pace.Sleep(ctx, gather) {
		lacking, err = t.lacking(ctx, asked)
		waits := slices.ContainsFunc(granted, func(r schema.GroupResource) bool { return lacking[r] != nil })
		if err != nil || !waits || time.Since(begin) > inForce || ctx.Err() != nil {
			return lacking, err
		}
	}
}

// isAboutPermission reports whether a permission is or was missing.
func isAboutPermission(conditions []v1alpha1.Condition) bool {
	return slices.ContainsFunc(
		conditions,
		func(c v1alpha1.Condition) bool { return c.Type == v1alpha1.ConditionPermitted },
	)
}

// recordPermission writes the condition if it changes, and an Event with it.
func (t *trigger) recordPermission(
	ctx context.Context, e *entryPlan, missing *access.ForbiddenError, unguarded bool,
) error {
	all := e.state.Status.Conditions
	next, needed := permitted(all, missing, unguarded, metav1.Now().Rfc3339Copy())
	if !needed || slices.Contains(all, next) {
		return nil
	}
	others := slices.DeleteFunc(slices.Clone(all),
		func(c v1alpha1.Condition) bool { return c.Type == v1alpha1.ConditionPermitted })
	e.state.Status.Conditions = append(others, next)
	e.state.Status.State = phase(&e.state.Status)
	if err := t.client.Status().Update(ctx, e.state); err != nil {
		return err
	}
	t.observer.main.saw(e.state)
	if missing == nil {
		t.events.Eventf(e.state, nil, corev1.EventTypeNormal, next.Reason, "Migrate", "%s", next.Message)
	} else {
		t.events.Eventf(e.state, nil, corev1.EventTypeWarning, next.Reason, "Migrate", "%s", next.Message)
	}
	t.Logger.Info("The permissions of the worker for a resource changed", "resource", e.name,
		"permitted", missing == nil)
	return nil
}
