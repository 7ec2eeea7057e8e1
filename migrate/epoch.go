// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Evidence says how the agreement of the API servers is known. The zero value is no evidence. A greater value is
// stronger.
type Evidence int

const (
	// Sampled means that not every API server can be asked, and repeated fresh connections to an address that several
	// may share agreed.
	Sampled Evidence = iota + 1
	// Verified means Sampled, and that a second pass over all objects, a settle time after the last write of the first
	// one, found each of them stored in the current version. Only a run has this evidence; a look has that of AtOnce.
	Verified
	// Observed means that each API server was asked for its own discovery document.
	Observed
	// Declared means that the StorageVersion API names every live API server.
	Declared
)

var evidenceNames = []string{"None", "Sampled", "Verified", "Observed", "Declared"}

// RiskOfVerified says what a run may have missed whose evidence is Verified.
const RiskOfVerified = "an API server that could not be asked may still write an older version, for example while the " +
	"control plane is being upgraded"

// AtOnce returns the evidence that a single look needs for a run to have evidence e.
func (e Evidence) AtOnce() Evidence {
	if e == Verified {
		return Sampled
	}
	return e
}

// Reachable returns the evidence that a run reaches where its looks have evidence e: with a second pass, if that adds to
// it.
func (e Evidence) Reachable() Evidence {
	if e == Sampled {
		return Verified
	}
	return e
}

// String returns the word that statuses, tables and flags use.
func (e Evidence) String() string {
	if e < 0 || int(e) >= len(evidenceNames) {
		return fmt.Sprintf("Evidence(%d)", int(e))
	}
	return evidenceNames[e]
}

// MarshalText returns the word of String.
func (e Evidence) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText parses a word of String. Case matters.
func (e *Evidence) UnmarshalText(text []byte) error {
	i := slices.Index(evidenceNames, string(text))
	if i < 0 {
		return fmt.Errorf("unknown evidence %q, want one of %v", text, evidenceNames[1:])
	}
	*e = Evidence(i)
	return nil
}

// Epoch is one uninterrupted period in which all API servers that can write a resource encode it in the same version.
// Two looks saw the same epoch if and only if Same returns true. Any change starts a new epoch, even a change that ends
// in the same hash, because objects may have been written in another version in between.
//
// Its identity is Hash, Servers, CRDUID, CRDGeneration and Declared. The other fields say what a look found out besides.
type Epoch struct {
	// Hash is the storageVersionHash that every server shows. It is opaque: compare it, but do not parse it.
	Hash string `json:"hash"`
	// Servers identifies the processes that can write, sorted: the holderIdentity of each API server's Lease, which
	// changes with every start of a process. A process that was told to shut down is included until it is silent.
	// Servers is empty if Leases cannot be read.
	Servers []string `json:"servers,omitempty"`
	// CRDUID and CRDGeneration are those of the CustomResourceDefinition; zero for other resources.
	CRDUID        types.UID `json:"crdUID,omitempty"`
	CRDGeneration int64     `json:"crdGeneration,omitempty"`
	// ConversionWebhook is whether the API servers convert the resource's objects with a webhook, which can fail during
	// a request. A change of it changes CRDGeneration, too.
	ConversionWebhook bool `json:"conversionWebhook,omitempty"`
	// Declared identifies one state of the StorageVersion object if the evidence is Declared: it changes with every
	// change of an entry. Otherwise it is empty.
	Declared string `json:"declared,omitempty"`
	// Addresses are the own addresses, host:port, at which API servers have shown Hash. Each of them presented a
	// certificate that the authority of the cluster signed.
	Addresses []string `json:"-"`
	// Since is the latest moment, by this machine's clock, at which the epoch can have begun. If it is later than the
	// begin of a pass, the pass is over: something may have been written in another version in between.
	Since time.Time `json:"since"`
	// Leaving is until when an API server that is no longer listed, and cannot be asked, may still write, as far as is
	// known now: until then Since moves on with the time. Zero: there is none.
	Leaving time.Time `json:"-"`
	// Evidence is how the agreement is known.
	Evidence Evidence `json:"evidence"`
}

// Same reports whether e and other are one epoch. Declared is compared only if both looks used it: a look that may not
// read StorageVersions sees the same epoch with weaker evidence.
func (e Epoch) Same(other Epoch) bool {
	return e.Hash == other.Hash && e.CRDUID == other.CRDUID && e.CRDGeneration == other.CRDGeneration &&
		slices.Equal(e.Servers, other.Servers) &&
		(e.Declared == other.Declared || e.Declared == "" || other.Declared == "")
}

// lasts reports whether a later look by the same Agreement still sees e. An epoch that relies on a StorageVersion ends
// when that changes.
func (e Epoch) lasts(now Epoch) bool {
	return e.Same(now) && (e.Declared == "" || e.Declared == now.Declared)
}

// began returns the latest moment at which the epoch can have begun, as far as is known now.
func (e Epoch) began() time.Time {
	if e.Leaving.After(e.Since) {
		return e.Leaving
	}
	return e.Since
}

// lostServers reports whether nothing has changed since e, apart from servers that left.
func (e Epoch) lostServers(now Epoch) bool {
	for _, server := range now.Servers {
		if !slices.Contains(e.Servers, server) {
			return false
		}
	}
	return e.Hash == now.Hash && e.CRDUID == now.CRDUID && e.CRDGeneration == now.CRDGeneration
}

// Agreement determines in which epoch the API servers are. Implementations are safe for concurrent use.
type Agreement interface {
	// Epoch asks the API servers now. If errors.Is(err, ErrDisagreement), the servers were asked and do not agree: the
	// epoch is over. If errors.Is(err, ErrSilent), one server did not answer, and the Epoch shows what the others
	// answered. Any other error means that this look found out nothing.
	Epoch(ctx context.Context) (Epoch, error)
}

// ErrSilent reports that an API server which has answered before does not answer, although its identity Lease is fresh.
var ErrSilent = errors.New("an API server does not answer")

// ErrDisagreement reports that the API servers do not encode the resource in one version. The wrapping error names the
// servers.
var ErrDisagreement = errors.New("API servers disagree")
