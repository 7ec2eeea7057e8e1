// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/printable"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/inventory"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// judge says what the end of the sweep means for the run: the run is over with an outcome, or continues if there is
// none. An error is ErrOutdated, ErrStopped, that of the context, or a transient one.
func (s *sweeping) judge(ctx context.Context, err error) (*Outcome, error) {
	switch reason := s.why(); {
	case errors.Is(err, ErrOutdated):
		return nil, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err == nil, errors.Is(err, migrate.ErrObjectsFailed), errors.Is(err, migrate.ErrNotProven):
		// the sweep completed, even if it was told to end in the meantime
	case errors.Is(reason, ErrStopped):
		return nil, ErrStopped
	case reason != nil:
		s.run.log.Info("The sweep was interrupted", "reason", reason)
		return nil, nil
	}
	result := resultOf(err)
	if result == "" {
		return nil, err
	}
	outcome := &Outcome{Result: result, Message: s.message(ctx, result, err)}
	if u := (*migrate.UnsettledError)(nil); errors.As(err, &u) {
		outcome.Left = u.Left
	}
	return outcome, nil
}

// problem is why a run cannot begin.
type problem struct {
	result Result
	text   string
}

func (p *problem) Error() string { return p.text }

// resultOf returns the result that an error stands for, or "" if the error may be transient. It is pure.
func resultOf(err error) Result {
	if p := (*problem)(nil); errors.As(err, &p) {
		return p.result
	}
	if u := (*migrate.UnsettledError)(nil); errors.As(err, &u) {
		return ResultUnsettled
	}
	for _, known := range []struct {
		err    error
		result Result
	}{
		{migrate.ErrWouldLoseFields, ResultWouldLoseFields}, // which is an ErrObjectsFailed, too
		{migrate.ErrObjectsFailed, ResultObjectsFailed},
		{migrate.ErrNotProven, ResultNotProven},
		{migrate.ErrNoAgreement, ResultNoAgreement},
		{migrate.ErrStorageVersionMoved, ResultStorageVersionMoved},
		{migrate.ErrForbidden, ResultForbidden},
		{migrate.ErrNotReady, ResultNotReady},
		{migrate.ErrResourceGone, ResultResourceGone},
		{migrate.ErrUntrustedAnswer, ResultUntrustedAnswer},
		{migrate.ErrEndlessList, ResultUntrustedAnswer},
		{migrate.ErrAnswerTooLarge, ResultUntrustedAnswer},
		{migrate.ErrStalled, ResultNoProgress},
	} {
		if errors.Is(err, known.err) {
			return known.result
		}
	}
	switch {
	case err == nil:
		return ResultProven
	case errors.Is(err, migrate.ErrCheckpointTooLarge):
		return ResultBroken
	case apierrors.IsForbidden(err) && !errors.Is(err, errUnsaved):
		return ResultForbidden
	}
	return ""
}

// message returns a sentence for users.
func (s *sweeping) message(ctx context.Context, result Result, err error) string {
	if p := (*problem)(nil); errors.As(err, &p) {
		return cut(p.text)
	}
	report := s.report()
	done := report.Counts.Done()
	switch result { //nolint:exhaustive // the others are told by their error
	case ResultProven:
		return fmt.Sprintf("all %d objects are stored in the current version", done)
	case ResultWouldLoseFields:
		return cut(wouldLose(report.Counts, report.Failures, s.asked.name()))
	case ResultObjectsFailed:
		text := fmt.Sprintf("%d of %d objects could not be rewritten", report.Counts.Failed, done)
		if len(report.Failures) > 0 {
			text += ", the first: " + describe(report.Failures[0])
		}
		return cut(text)
	case ResultNotProven:
		if report.Epoch.Evidence.Reachable() >= s.run.leastEvidence() { // second passes found objects in another version
			return cut(sentence(err))
		}
		return cut(notProven(done, report.Epoch.Evidence, s.run.leastEvidence(), s.weakness(ctx)))
	case ResultStorageVersionMoved:
		return cut(sentence(err) + s.moved(ctx))
	case ResultForbidden:
		return forbidden(err, s.asked.name())
	}
	return sentence(err)
}

// wouldLose describes the objects that were left alone, and how to accept the loss. It is pure.
func wouldLose(counts migrate.Counts, failures []migrate.Failure, r schema.GroupResource) string {
	text := fmt.Sprintf("%d of %d objects were left alone because they would lose fields", counts.WouldLoseFields,
		counts.Done())
	if len(failures) > 0 {
		text += ", the first: " + describe(failures[0])
	}
	return text + "; correct the schema of the CustomResourceDefinition, or accept the loss of each field: " +
		"kube-migrator request " + r.String() + " --accept-field-loss=FIELD"
}

// forbidden describes a missing permission. If workers lack the permission on purpose, it names the command for
// administrators. It is pure.
func forbidden(err error, r schema.GroupResource) string {
	if !inventory.ExemptFromPolicies(r) {
		return sentence(err)
	}
	return cut(sentence(err) + "; no admission policy can guard this resource, so an administrator migrates it: " +
		"kube-migrator migrate " + r.String())
}

// weakness returns why the evidence is not stronger, or "" if that is unknown.
func (s *sweeping) weakness(ctx context.Context) string {
	if s.servers == nil {
		return ""
	}
	_, explanation, err := s.servers.Look(ctx)
	if err != nil {
		return ""
	}
	return explanation.Reason
}

// notProven describes a complete sweep whose evidence is too weak, and how to accept that evidence. It is pure.
func notProven(done int64, evidence, least migrate.Evidence, why string) string {
	if why != "" {
		why = " (" + strings.Join(strings.Fields(why), " ") + ")"
	}
	text := fmt.Sprintf("all %d objects were rewritten, but it is not proven that none is left: the evidence is "+
		"%v%s, but %v is required",
		done, evidence, why, least)
	if evidence == 0 {
		return text
	}
	return text + "; to accept weaker evidence: kube-migrator install --min-evidence=" +
		strings.ToLower(evidence.Reachable().String())
}

// moved names the versions between which the storage version moved, as far as they are known.
func (s *sweeping) moved(ctx context.Context) string {
	all, err := inventory.TakeOne(ctx, s.run.Process.client, s.asked.name())
	if err != nil {
		return ""
	}
	now, err := choose(all, s.asked.resource)
	if err != nil || now.Storage() == "" || s.resource.Storage() == "" ||
		now.StorageVersionHash == s.resource.StorageVersionHash {
		return ""
	}
	return fmt.Sprintf(": from %s to %s", s.resource.Storage(), now.Storage())
}

func describe(f migrate.Failure) string {
	return fmt.Sprintf("%s: %s: %s", printable.Name(f.Namespace, f.Name), f.Reason, strings.Join(strings.Fields(f.Message), " "))
}

// sentence returns an error's text on one line of bounded length.
func sentence(err error) string { return cut(strings.Join(strings.Fields(err.Error()), " ")) }
