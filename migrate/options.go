// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"log/slog"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/internal/pace"
)

// Options of a sweep. The zero value is a complete set of defaults.
type Options struct {
	// MaxObjectsPerSecond bounds the rate. 0: only the server's own signals bound it.
	MaxObjectsPerSecond float64
	// MaxInFlight bounds the requests in flight. 0: 64.
	MaxInFlight int
	// MaxBytesPerSecond bounds the bytes per second in both directions together: the bodies of the sweep's requests
	// (lists, patches, reads) and of their answers, as transferred. HTTP headers, TLS, and the requests of Agreement
	// and Checkpoints are not counted. Up to a second's worth may come at once, and a larger answer delays the next
	// request accordingly. 0: no bound.
	MaxBytesPerSecond int64
	// Bounds are bounds that this sweep keeps together with others that run at the same time. nil: the bounds are those
	// of MaxObjectsPerSecond, MaxInFlight and MaxBytesPerSecond, which otherwise mean nothing.
	Bounds *Bounds
	// PageSize is how many objects a page of the list has. 0: as many as fit in half a MiB, at most 500.
	PageSize int64
	// SettleTime is how long after the start of an epoch a request that started earlier may still write. The sweep
	// concludes nothing before it has passed. 0: 2 minutes, which is twice the API server's default request timeout.
	// Shorten it only if you know that the request timeout of the API servers is shorter.
	SettleTime time.Duration
	// SettlePatience bounds the wait for an epoch to settle: if more time is left, the run ends with an
	// *UnsettledError, so that another resource can be migrated in the meantime. 0: the wait is not bounded.
	SettlePatience time.Duration
	// MinEvidence is the weakest evidence that proves anything. 0: Verified, which takes a second pass where not every API
	// server can be asked.
	MinEvidence Evidence
	// AgreementTimeout bounds each wait for the API servers to agree and answer. An epoch that begins within it has one
	// more SettleTime in which to settle. 0: 10 minutes.
	AgreementTimeout time.Duration
	// RetryThroughStatus rewrites objects that validation or admission refuses (Rejected, WouldChange) with an empty
	// patch of their status, for which most webhooks and policies are not called. The API server stores the whole
	// object again and changes nothing. It takes permission to patch the status subresource; for a resource
	// without one the option has no effect. Counts.ThroughStatus counts these objects.
	RetryThroughStatus bool
	// AcceptFieldLoss names fields of custom resources that may be lost, with all fields below them: "spec.size", or
	// "*" for every field. An object that would lose another field is left alone, and counted as failed with the reason
	// WouldLoseFields.
	AcceptFieldLoss []string
	// SingleAddress sends every request to the address in the config. If it is false, patches are spread over the API
	// servers of Epoch.Addresses, as many requests to each as it answers; all other requests go to the address in the
	// config.
	SingleAddress bool
	// Verify adds a second pass, in which every object has to be at rest, also where each API server can be asked.
	Verify bool
	// DryRun sends every patch with dryRun=All, to find out what validation and admission would refuse. Nothing is
	// written, and nothing is proven.
	DryRun bool
	// Resume continues from the stored checkpoint, if there is one. If it is false, the run starts over. After the
	// rotation of an encryption key a run has to start over, because the hash of the storage version does not change
	// with the key.
	Resume bool
	// Proven is what is known to be proven. Objects that it covers are not rewritten, and count as current. The zero
	// value: every object is rewritten.
	Proven Proven
	// Checkpoints stores the checkpoints of the sweep. nil: they are not stored.
	Checkpoints Checkpoints
	// Logger receives non-fatal events. nil: they are discarded.
	Logger *slog.Logger

	// outageTimeout bounds how long one request is repeated while the API server does not answer or refuses because
	// of load. 0: 5 minutes.
	outageTimeout time.Duration
	// stallTimeout bounds the time in which no object is accounted for, for example because one page of the list after
	// the other contains none: the run then ends with ErrStalled. Waits that have a bound of their own do not count:
	// waits for agreement or for unresponsive API servers, and pauses that a server requests. 0: 10 minutes.
	stallTimeout time.Duration
	// lookInterval is the time between looks at the epoch. 0: 1 second.
	lookInterval time.Duration
}

func (o Options) withDefaults() Options {
	o.MinEvidence = orDefault(o.MinEvidence, Verified)
	o.SettleTime = orDefault(o.SettleTime, DefaultSettleTime)
	o.AgreementTimeout = orDefault(o.AgreementTimeout, DefaultAgreementTimeout)
	o.outageTimeout = orDefault(o.outageTimeout, defaultOutageTimeout)
	o.stallTimeout = orDefault(o.stallTimeout, defaultStallTimeout)
	o.lookInterval = orDefault(o.lookInterval, defaultLookInterval)
	if o.Bounds == nil {
		o.Bounds = NewBounds(o)
	}
	if o.Checkpoints == nil {
		o.Checkpoints = noCheckpoints{}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Bounds bound the load of several sweeps together. None of the sweeps has a share of its own.
type Bounds struct {
	shared         *pace.Bounds
	inFlight       int
	bytesPerSecond int64
	sweeps         atomic.Int64 // that run now
}

// NewBounds returns the bounds that MaxObjectsPerSecond, MaxInFlight and MaxBytesPerSecond of o describe.
func NewBounds(o Options) *Bounds {
	most := orDefault(o.MaxInFlight, pace.DefaultInFlight)
	limits := pace.Limits{ObjectsPerSecond: o.MaxObjectsPerSecond, InFlight: most, BytesPerSecond: o.MaxBytesPerSecond}
	return &Bounds{shared: pace.NewBounds(limits), inFlight: most, bytesPerSecond: o.MaxBytesPerSecond}
}

func orDefault[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

// WithSharedBackoff returns a copy of config whose clients share one backoff: after an API server has answered one of
// them with 429 or 503 and Retry-After, none of them sends a request to that address until that time is over, at most a
// minute. Configure everything that belongs to one sweep with the returned config: New, agreement.Of and the like.
//
// These clients read no answer beyond the limit of its kind: see ErrAnswerTooLarge.
func WithSharedBackoff(config *rest.Config) *rest.Config {
	c := bounded.Config(config)
	c.Wrap(new(pace.Gates).Wrap)
	return c
}
