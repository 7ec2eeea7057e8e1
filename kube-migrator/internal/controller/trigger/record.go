// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/ledger"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func uid(text string) types.UID { return types.UID(text) }

// recorded converts the status of a StorageState to the ledger's State.
func recorded(s *v1alpha1.StorageStateStatus) ledger.State {
	state := ledger.State{
		Persisted: s.PersistedStorageVersionHashes, Current: s.CurrentStorageVersionHash,
		Heartbeat: s.LastHeartbeatTime.Time,
		Traces:    s.Traces, After: number(s.RequiredStartResourceVersion), OnlyDecodable: s.OnlyDecodable,
		Collection: ledger.Collection{ResourceVersion: number(s.ResourceVersion)},
	}
	if w := s.Witness; w != nil && number(w.ResourceVersion) != 0 {
		state.Collection.Witness = ledger.Witness{UID: uid(w.UID), ResourceVersion: number(w.ResourceVersion)}
	}
	if p := s.Proven; p != nil {
		state.Proven = ledger.Proven{Hash: p.StorageVersionHash, UpTo: number(p.ResourceVersion)}
	}
	if s.Epoch != nil {
		epoch := epochOf(s.Epoch, s.CurrentStorageVersionHash)
		state.Epoch = &epoch
	}
	for _, server := range s.ServerStorageVersions {
		state.Servers = append(state.Servers, ledger.Server{
			ID: server.APIServerID, Process: server.HolderIdentity, Hash: server.EncodingVersionHash,
			Answered: server.Answered,
		})
	}
	if d := s.Definition; d != nil {
		state.CRD = &ledger.CRD{UID: uid(d.UID), Generation: d.Generation, Hash: d.StorageVersionHash}
	}
	return state
}

// number parses a resourceVersion. It returns 0 for the empty string and for anything that is not a number.
func number(resourceVersion string) uint64 {
	n, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// decimal is the inverse of number.
func decimal(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// The bounds of the lists in a StorageState.
const (
	mostServers = 64
	mostTraces  = 128
)

// status returns the status of a StorageState after a decision: the fields of the ledger's State unchanged, and the
// same in readable form. It is pure.
func status(before *v1alpha1.StorageStateStatus, s ledger.State, v *agreement.Verdict, doubt string,
	now time.Time) v1alpha1.StorageStateStatus {
	readable := readables(before, v)
	next := v1alpha1.StorageStateStatus{
		PersistedStorageVersionHashes: s.Persisted, CurrentStorageVersionHash: s.Current,
		LastHeartbeatTime: metav1.NewTime(s.Heartbeat.Truncate(time.Second)),
		CurrentVersion:    readable[s.Current], RequiredStartResourceVersion: decimal(s.After),
		OnlyDecodable:          s.OnlyDecodable,
		HeartbeatPeriodSeconds: before.HeartbeatPeriodSeconds, Excluded: before.Excluded,
		Requested: before.Requested, NewestRelease: before.NewestRelease, Conditions: before.Conditions,
	}
	for _, hash := range s.Persisted {
		next.PersistedVersions = append(next.PersistedVersions, cmp.Or(readable[hash], hash))
	}
	for _, server := range s.Servers[:min(len(s.Servers), mostServers)] {
		next.ServerStorageVersions = append(next.ServerStorageVersions, v1alpha1.ServerEncodingVersion{
			APIServerID: server.ID, HolderIdentity: server.Process, Answered: server.Answered,
			EncodingVersionHash: server.Hash, EncodingVersion: readable[server.Hash],
		})
	}
	if c := s.Collection; c.ResourceVersion > 0 {
		next.ResourceVersion = decimal(c.ResourceVersion)
		if c.Witness.UID != "" {
			next.Witness = &v1alpha1.RecordedWitness{UID: string(c.Witness.UID),
				ResourceVersion: decimal(c.Witness.ResourceVersion)}
		}
	}
	if p := s.Proven; p.UpTo > 0 {
		next.Proven = &v1alpha1.RecordedProof{StorageVersionHash: p.Hash, ResourceVersion: decimal(p.UpTo)}
	}
	if len(s.Traces) <= mostTraces { // a record without traces is never compared
		next.Traces = s.Traces
	}
	if d := s.CRD; d != nil {
		next.Definition = &v1alpha1.RecordedCRD{UID: string(d.UID), Generation: d.Generation,
			StorageVersionHash: d.Hash}
	}
	if e := s.Epoch; e != nil {
		next.AgreedEncodingVersion = readable[e.Hash]
		next.Epoch = &v1alpha1.Epoch{Servers: e.Processes, CRDUID: string(e.UID), CRDGeneration: e.Generation}
		if v != nil && v.Epoch != nil {
			next.Evidence = v.Evidence.String()
			next.Epoch.Evidence, next.Epoch.Since = next.Evidence, sinceOf(before, v)
		} else if before.Epoch != nil {
			next.Evidence, next.Epoch.Evidence, next.Epoch.Since = before.Evidence,
				before.Epoch.Evidence, before.Epoch.Since
		}
	}
	at := metav1.NewTime(now.Truncate(time.Second))
	next.Conditions = conditions(before.Conditions, s, v, doubt, at)
	return next
}

// sinceOf returns the start of the epoch. It does not change while the epoch lasts: each look determines it slightly
// differently, and the earliest value is kept. If the traces of aggregated API servers have changed, the same epoch may
// have been interrupted.
func sinceOf(status *v1alpha1.StorageStateStatus, v *agreement.Verdict) metav1.Time {
	before, since := status.Epoch, metav1.NewTime(v.Epoch.Since.Truncate(time.Second))
	if v.Origin == migrate.Aggregated && !slices.Equal(status.Traces, v.Traces) {
		return since
	}
	if before != nil && slices.Equal(before.Servers, v.Epoch.Servers) && before.CRDUID == string(v.Epoch.CRDUID) &&
		before.CRDGeneration == v.Epoch.CRDGeneration && !before.Since.IsZero() && before.Since.Before(&since) {
		return before.Since
	}
	return since
}

// readables maps hashes to the versions that they stand for, as far as they are known: "v2", or "group/v2" if it is the
// version of another group.
func readables(before *v1alpha1.StorageStateStatus, v *agreement.Verdict) map[string]string {
	known := map[string]string{}
	for i, hash := range before.PersistedStorageVersionHashes {
		if i < len(before.PersistedVersions) && before.PersistedVersions[i] != hash {
			known[hash] = before.PersistedVersions[i]
		}
	}
	for _, server := range before.ServerStorageVersions {
		known[server.EncodingVersionHash] = server.EncodingVersion
	}
	if v == nil {
		return known
	}
	short := func(version string) string {
		if rest, ok := strings.CutPrefix(version, v.Resource.Group+"/"); ok {
			return rest
		}
		return version
	}
	for _, server := range v.Servers {
		if server.Version != "" {
			known[server.Hash] = short(server.Version)
		}
	}
	if v.CRD != nil {
		for version, hash := range v.CRD.Hashes {
			known[hash] = version
		}
	}
	if v.Epoch != nil && v.Version != "" {
		known[v.Epoch.Hash] = short(v.Version)
	}
	delete(known, "")
	return known
}

// conditions returns AllEncodingVersionsEqual and Migrated, followed by all others unchanged.
func conditions(before []v1alpha1.Condition, s ledger.State, v *agreement.Verdict, doubt string,
	now metav1.Time) []v1alpha1.Condition {
	equal := v1alpha1.Condition{Type: v1alpha1.ConditionAllEncodingVersionsEqual, Status: metav1.ConditionUnknown,
		Reason: v1alpha1.ReasonNotKnown, Message: "Not every API server could be asked"}
	if haveDisagreed(before) {
		equal.Reason = v1alpha1.ReasonUnresolved
	}
	switch {
	case v == nil:
		for _, c := range before {
			if c.Type == v1alpha1.ConditionAllEncodingVersionsEqual {
				equal = c
			}
		}
	case s.Epoch != nil:
		equal.Status, equal.Reason, equal.Message = metav1.ConditionTrue, v1alpha1.ReasonAgreement,
			"All API servers encode the resource in one version ("+v.Evidence.String()+")"
	case isWeak(s, v):
		equal.Reason, equal.Message = v1alpha1.ReasonOnlySampled, weakness(v)
		if v.Evidence == migrate.Observed {
			equal.Reason = v1alpha1.ReasonOnlyObserved
		}
	case v.Disagree:
		equal.Status, equal.Reason, equal.Message = metav1.ConditionFalse, v1alpha1.ReasonDisagreement, v.Why
	case v.Why != "":
		equal.Message = v.Why
	}
	migrated := v1alpha1.Condition{Type: v1alpha1.ConditionMigrated, Status: metav1.ConditionFalse, Reason: "NotProven",
		Message: "Objects may be stored in other versions than the current one"}
	switch {
	case s.Migrated() && s.OnlyDecodable:
		migrated.Status, migrated.Reason = metav1.ConditionTrue, "OnlyDecodable"
		migrated.Message = "Nothing can be rewritten: every API server declares that it can decode no version but " +
			"the current one. No migration has proven that nothing else is stored"
	case s.Migrated():
		migrated.Status, migrated.Reason, migrated.Message = metav1.ConditionTrue, "Proven",
			"Every stored object is in the current version"
		if v != nil && v.Evidence == migrate.Sampled {
			migrated.Message += "; " + migrate.RiskOfVerified
		}
	case doubt != "":
		migrated.Reason, migrated.Message = "Doubt", "The stored versions are unknown: "+doubt
	case slices.Contains(s.Persisted, ledger.Unknown):
		for _, c := range before {
			if c.Type == v1alpha1.ConditionMigrated && c.Reason == "Doubt" {
				// the reason for the doubt stays readable until a migration is proven
				migrated.Reason, migrated.Message = c.Reason, c.Message
			}
		}
	}
	next := []v1alpha1.Condition{equal.Dated(before, now), migrated.Dated(before, now)}
	for _, c := range before {
		if c.Type != v1alpha1.ConditionAllEncodingVersionsEqual && c.Type != v1alpha1.ConditionMigrated {
			next = append(next, c)
		}
	}
	return next
}

// isWeak reports whether the API servers seem to agree, but the ledger was not told because the evidence is too weak.
// The ledger accepts every other agreement in which no server shows another version, so no other reason remains.
func isWeak(s ledger.State, v *agreement.Verdict) bool {
	return s.Epoch == nil && v.Epoch != nil &&
		!slices.ContainsFunc(s.Servers, func(server ledger.Server) bool {
			return server.Hash != "" &&
				server.Hash != v.Epoch.Hash
		})
}

// weakness says, for users, why an agreement proves nothing.
func weakness(v *agreement.Verdict) string {
	text := fmt.Sprintf("All API servers seem to encode the resource in one version, but the evidence is only %v, "+
		"and the installation requires more", v.Evidence)
	if v.Why != "" {
		text += ": " + v.Why
	}
	return text
}

// sameButHeartbeat reports whether a and b differ only in the time of the look and in the positions of the collection,
// which follow it. Recording a position for the first time counts as a difference.
func sameButHeartbeat(a, b v1alpha1.StorageStateStatus) bool {
	if a.ResourceVersion != "" {
		a.ResourceVersion, a.Witness = b.ResourceVersion, b.Witness
	}
	if a.Proven != nil && b.Proven != nil && a.Proven.StorageVersionHash == b.Proven.StorageVersionHash {
		a.Proven = b.Proven
	}
	a.LastHeartbeatTime = b.LastHeartbeatTime
	return equality.Semantic.DeepEqual(a, b)
}
