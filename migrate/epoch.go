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

// Evidence says how the agreement of the API servers is known. The zero value is no evidence.
// A greater value is stronger.
type Evidence int

const (
	// Sampled: only a load-balanced address can be reached; repeated fresh connections agreed.
	Sampled Evidence = iota + 1
	// Observed: each API server was asked for its own discovery document.
	Observed
	// Declared: the StorageVersion API names every live API server.
	Declared
)

var evidenceNames = []string{"None", "Sampled", "Observed", "Declared"}

// String returns the word that statuses, tables and flags use.
func (e Evidence) String() string {
	if e < 0 || int(e) >= len(evidenceNames) {
		return fmt.Sprintf("Evidence(%d)", int(e))
	}
	return evidenceNames[e]
}

// MarshalText writes the word of String.
func (e Evidence) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads a word of String, exactly as it is written there.
func (e *Evidence) UnmarshalText(text []byte) error {
	i := slices.Index(evidenceNames, string(text))
	if i < 0 {
		return fmt.Errorf("unknown evidence %q, want one of %v", text, evidenceNames[1:])
	}
	*e = Evidence(i)
	return nil
}

// Epoch is one uninterrupted period in which all API servers that can write a resource encode it in the same
// version. Two looks saw the same epoch exactly when Same says so: any change starts a new one, also a change
// that ends in the same hash, because in between anything may have been written.
type Epoch struct {
	// Hash is the storageVersionHash that every server shows. Opaque; compared, never parsed.
	Hash string `json:"hash"`
	// Servers identifies the processes that can write, sorted: the holderIdentity of each API server's Lease, which
	// changes with every start of a process. One that was told to end is among them until it is silent. Empty where
	// Leases cannot be read.
	Servers []string `json:"servers,omitempty"`
	// CRDUID and CRDGeneration are those of the CustomResourceDefinition; zero for other resources.
	CRDUID        types.UID `json:"crdUID,omitempty"`
	CRDGeneration int64     `json:"crdGeneration,omitempty"`
	// ConversionWebhook is whether the API servers convert the resource's objects by a webhook, which can fail within a
	// request. It is part of what CRDGeneration counts.
	ConversionWebhook bool `json:"conversionWebhook,omitempty"`
	// Declared identifies, where the evidence is Declared, the StorageVersion object as it was: it changes with every
	// change of an entry. Empty otherwise.
	Declared string `json:"declared,omitempty"`
	// Since is the latest moment, by this machine's clock, at which the epoch can have begun. Not part of its identity.
	Since time.Time `json:"since"`
	// Evidence is how the agreement is known. Not part of the epoch's identity.
	Evidence Evidence `json:"evidence"`
}

// Same reports whether a and b are one epoch. What is declared is compared only where both looks rest on it: one that
// may not read StorageVersions sees the same epoch, with weaker evidence.
func (e Epoch) Same(other Epoch) bool {
	return e.Hash == other.Hash && e.CRDUID == other.CRDUID && e.CRDGeneration == other.CRDGeneration &&
		slices.Equal(e.Servers, other.Servers) &&
		(e.Declared == other.Declared || e.Declared == "" || other.Declared == "")
}

// lasts reports whether a later look by the same looker sees e still. An epoch that rests on what is declared ends with
// it.
func (e Epoch) lasts(now Epoch) bool {
	return e.Same(now) && (e.Declared == "" || e.Declared == now.Declared)
}

// lostServers reports whether nothing has happened since e but that servers went, if that.
func (e Epoch) lostServers(now Epoch) bool {
	for _, server := range now.Servers {
		if !slices.Contains(e.Servers, server) {
			return false
		}
	}
	return e.Hash == now.Hash && e.CRDUID == now.CRDUID && e.CRDGeneration == now.CRDGeneration
}

// Agreement tells in which epoch the API servers are. Implementations are safe for concurrent use.
type Agreement interface {
	// Epoch looks now. An error for which errors.Is(err, ErrDisagreement) holds says that the servers were asked and do
	// not agree: the epoch is over. With one for which errors.Is(err, ErrSilent) holds comes what could be seen all the
	// same. Any other error says that nothing could be learnt by this look.
	Epoch(ctx context.Context) (Epoch, error)
}

// ErrSilent: an API server that has answered before does not, and its identity Lease says that it lives.
var ErrSilent = errors.New("an API server does not answer")

// ErrDisagreement: the API servers do not encode the resource in one version. The wrapping error names them.
var ErrDisagreement = errors.New("API servers disagree")
