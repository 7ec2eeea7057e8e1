// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
)

// The errors of Sweep.Run. Test with errors.Is. A nil error means that every object was accounted for and that this is
// proven.
var (
	// ErrObjectsFailed reports that the sweep has ended and at least one object could not be rewritten. Result names
	// these objects.
	ErrObjectsFailed = errors.New("objects could not be rewritten")
	// ErrWouldLoseFields is ErrObjectsFailed if every object that was not rewritten was left alone because it would
	// lose fields. Repeating the run changes nothing: see Options.AcceptFieldLoss.
	ErrWouldLoseFields = fmt.Errorf("%w, because they would lose fields", ErrObjectsFailed)
	// ErrNotProven reports that every object was rewritten, but the evidence is weaker than Options.MinEvidence: not every
	// API server could be asked, or second passes found objects that one of them had stored in another version.
	ErrNotProven = errors.New("rewritten, but not proven")
	// ErrNoAgreement reports that the API servers did not settle on one version within Options.AgreementTimeout.
	ErrNoAgreement = errors.New("no agreement of the API servers")
	// ErrStorageVersionMoved reports that the storage version is no longer the one at the start of the run.
	ErrStorageVersionMoved = errors.New("the storage version changed during the migration")
	// ErrStopped reports that the context of Run ended, or that Stop or Abort was called. The checkpoint is saved.
	ErrStopped = errors.New("stopped")
	// ErrForbidden reports that the account of the client lacks a permission. The text names the verb and the resource.
	ErrForbidden = errors.New("forbidden")
	// ErrNotReady reports that the resource cannot be migrated in its present state: for example, its CRD is not
	// established, or its conversion webhook does not answer. The text says why.
	ErrNotReady = errors.New("not ready to be migrated")
	// ErrWentBackwards reports that objects which this run had rewritten, or the collection, had lower resourceVersions
	// when they were read again, more often than restores of etcd can explain. The resourceVersions of this API server
	// prove nothing.
	ErrWentBackwards = errors.New("resourceVersions went backwards again and again")
	// ErrResourceGone reports that the API servers no longer serve the resource.
	ErrResourceGone = errors.New("the resource is gone")
	// ErrUntrustedAnswer reports that the server of the resource listed an object whose name or namespace is not a path
	// segment, or that its answer to a request was about another object. The sweep sends nothing to such a name, and no
	// answer of this server counts: no checkpoint says that the pass is complete. The text names the resource, the server
	// and the answer.
	ErrUntrustedAnswer = apiserver.ErrUntrusted
	// ErrEndlessList reports that the list does not end: a continue token or a page repeats, keys do not ascend, a
	// hundred pages in a row contain no object, there are more than 10,000,000 objects, or no request can get the next
	// page because of the names of thousands of objects in a row.
	ErrEndlessList = bounded.ErrEndless
	// ErrAnswerTooLarge reports that an answer exceeds the limit on its bytes or elements. The text names the
	// server and the path.
	ErrAnswerTooLarge = bounded.ErrTooLarge
	// ErrStalled reports that no object was accounted for during ten minutes, apart from waits for agreement, for
	// unresponsive API servers and for the end of pauses that a server requests, or that too many objects got no answer
	// although the API server answers other requests. The checkpoint contains all progress.
	ErrStalled = errors.New("no progress")
)

// UnsettledError reports that the epoch has to last longer than Options.SettlePatience before anything can be
// concluded. Test with errors.As. A run that resumes later loses nothing.
type UnsettledError struct {
	// Left is how much longer the epoch has to last.
	Left time.Duration
}

// Error implements error.
func (e *UnsettledError) Error() string {
	return fmt.Sprintf("requests that began before the API servers agreed may still write, for %v",
		e.Left.Round(time.Second))
}

// class is what an answer of an API server means for a sweep. The set is closed: every switch over it handles all
// classes.
type class int

const (
	fine      class = iota
	throttled       // 429 and 503: the server asks for less
	lost            // no answer: connection errors, timeouts, 408, 504
	faulty          // 500, 502 and other errors that we did not cause: may be transient
	conflict        // 409: another client wrote; this says nothing about what is stored (I4)
	missing         // 404
	expired         // 410: the continue token is too old
	rejected        // validation, admission or permissions: not transient
	refused         // 401: no request will succeed
	unready         // the conversion webhook is gone: no request that needs it will succeed
	untrusted       // the answer cannot be true: no answer of this server counts (I4)
	cancelled       // our own context ended
)

func classify(err error) class {
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return fine
	case errors.Is(err, context.Canceled):
		return cancelled
	case errors.Is(err, ErrUntrustedAnswer):
		return untrusted
	case errors.Is(err, ErrAnswerTooLarge), errors.Is(err, errUnnamable), errors.As(err, new(*pruning.LossError)):
		return rejected // another request gets the same answer
	case errors.Is(err, errMalformed), errors.Is(err, errNotTheObject):
		return faulty
	case errors.Is(err, errReplaced):
		return conflict
	case !errors.As(err, &status):
		return lost
	}
	switch code, message := status.Status().Code, status.Status().Message; {
	case isPermanent(err):
		return rejected // whatever the code is, which is mostly 500
	case admissionDenial.MatchString(message), policyDenial.MatchString(message):
		return rejected // whatever code the webhook or the policy chose
	case strings.Contains(message, conversionWebhook) && webhookGone.MatchString(message):
		return unready
	case strings.Contains(message, conversionWebhook) && strings.Contains(message, notAsked):
		return lost
	case code == http.StatusTooManyRequests, code == http.StatusServiceUnavailable:
		return throttled
	case code == http.StatusRequestTimeout, code == http.StatusGatewayTimeout:
		return lost
	case code == http.StatusConflict:
		return conflict
	case code == http.StatusNotFound:
		return missing
	case code == http.StatusGone:
		return expired
	case code == http.StatusUnauthorized:
		return refused
	case code >= http.StatusBadRequest && code < http.StatusInternalServerError:
		return rejected
	}
	return faulty // 500, 502 and others; some of what an API server answers with 500 was told apart above
}

// What an API server says about a conversion webhook that it could not reach. If the webhook answered with an error,
// the error is about the object. Such webhooks are unavailable for a minute or two while their operator is rolled out.
const (
	conversionWebhook = "conversion webhook"
	notAsked          = "failed: Post "
)

// webhookGone is what an API server says about a conversion webhook that does not come back by itself: its Service was
// deleted, its host has no address, or its certificate is not valid.
var webhookGone = regexp.MustCompile(notAsked + `"[^"]*": (service "[^"]*" not found|.*: no such host|.*x509: )`)

// permanent is what an API server says about an object that it cannot decrypt or decode, or that is too large for etcd.
// No repetition helps: an encryption key is missing, the CRD does not have the version in which the object is stored, or
// the bytes in etcd are not those of an object. It says the same, in front of the reason, if a conversion webhook fails.
var permanent = regexp.MustCompile(`not transformable|corrupt object|[Uu]nable to transform|no matching prefix found|` +
	`(object|data from the storage is) not decodable|from an invalid group/version|etcdserver: request is too large`)

// retryAfter returns how long the server asked us to wait, or our own wait if it refused without saying. Other errors
// contain what a webhook wrote into its answer, which asks for nothing.
func retryAfter(err error, c class) time.Duration {
	if c != throttled && c != lost && c != faulty {
		return 0
	}
	if seconds, ok := apierrors.SuggestsClientDelay(err); ok && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	if c == throttled {
		return time.Second
	}
	return 0
}

// Reason says in one word why an object could not be rewritten.
type Reason string

const (
	// Rejected means that validation, an admission webhook or an admission policy refused the object in its present
	// form.
	Rejected Reason = "Rejected"
	// Forbidden means that the user is not allowed to patch the object.
	Forbidden Reason = "Forbidden"
	// WouldChange means that a guard refused the rewrite (GuardRefusal), because a mutating webhook or policy, or the
	// API server itself, would change the object. Nothing was changed.
	WouldChange Reason = "WouldChange"
	// WouldLoseFields means that the API server would drop fields of the object: the schema under which it would be
	// stored does not have them. No request was sent. The message names the fields.
	WouldLoseFields Reason = "WouldLoseFields"
	// Orphaned means that the object's namespace is deleted, so the API server answers every write with 404, but the
	// object is still stored.
	Orphaned Reason = "Orphaned"
	// Conflicting means that other clients wrote the object during each attempt.
	Conflicting Reason = "Conflicting"
	// ServerError means that the API server, or a webhook that it called, failed in each attempt.
	ServerError Reason = "ServerError"
	// Unreadable means that no API server can decode or store the object as it is in etcd: an encryption key is missing,
	// its bytes are corrupt, it is too large for etcd, or its name is too long for a request.
	Unreadable Reason = "Unreadable"
	// Unreachable means that the API server did not answer, or refused because of load, in each attempt.
	Unreachable Reason = "Unreachable"
)

func reasonOf(err error, c class) Reason {
	switch c {
	case throttled, lost, unready, cancelled, fine:
		return Unreachable
	case conflict:
		return Conflicting
	case missing:
		return Orphaned
	case rejected, refused, expired:
		if isPermanent(err) || errors.Is(err, errUnnamable) {
			return Unreadable
		}
		if isGuarded(err) {
			return WouldChange
		}
		if errors.As(err, new(*pruning.LossError)) {
			return WouldLoseFields
		}
		if apierrors.IsForbidden(err) && !isAdmission(err) {
			return Forbidden
		}
		return Rejected
	case faulty, untrusted:
		return ServerError
	}
	return ServerError
}

// GuardRefusal is part of the message of admission policies that allow only updates which change nothing, such as those
// of an installation's guard. The sweep reports such a refusal with the reason WouldChange.
const GuardRefusal = "the request would change the object"

// isGuarded reports whether an admission policy refused a rewrite because it would change the object.
func isGuarded(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	message := status.Status().Message
	return policyDenial.MatchString(message) && strings.Contains(message, GuardRefusal)
}

// isPermanent reports whether no API server can read or store an object.
func isPermanent(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && permanent.MatchString(status.Status().Message) &&
		!strings.Contains(status.Status().Message, conversionWebhook)
}

// isAdmission reports whether a 403 came from admission rather than from authorization, whose answers have the
// form "… is forbidden: User … cannot patch resource …".
func isAdmission(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && !authorizationText.MatchString(status.Status().Message)
}

// causeOf replaces the error of a cancelled request with the reason for the cancellation.
func causeOf(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
		return cause
	}
	return err
}

// describe returns the text of an error. It shortens connection errors, in which net/http repeats the URL.
func describe(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return fmt.Sprintf("the API server does not answer: %v", op)
	}
	return err.Error()
}
