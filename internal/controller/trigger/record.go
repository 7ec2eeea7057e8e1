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
	"github.com/kube-migrator/kube-migrator/internal/ledger"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func uid(text string) types.UID { return types.UID(text) }

// recorded is what a StorageState says, as the ledger has it.
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
		state.Definition = &ledger.Definition{UID: uid(d.UID), Generation: d.Generation, Hash: d.StorageVersionHash}
	}
	return state
}

// number is a resourceVersion as a number; 0 where it is none, or empty.
func number(resourceVersion string) uint64 {
	n, err := strconv.ParseUint(resourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// decimal is the reverse of number.
func decimal(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// Bounds of what a StorageState lists.
const (
	mostServers = 64
	mostTraces  = 128
)

// status is what a StorageState says after a decision: the ledger's State word for word, and the same for people. Pure.
func status(before *v1alpha1.StorageStateStatus, s ledger.State, v *agreement.View, doubt string,
	now time.Time) v1alpha1.StorageStateStatus {
	readable := readables(before, v)
	next := v1alpha1.StorageStateStatus{
		PersistedStorageVersionHashes: s.Persisted, CurrentStorageVersionHash: s.Current,
		LastHeartbeatTime: metav1.NewTime(s.Heartbeat.Truncate(time.Second)),
		CurrentVersion:    readable[s.Current], RequiredStartResourceVersion: decimal(s.After),
		OnlyDecodable:          s.OnlyDecodable,
		HeartbeatPeriodSeconds: before.HeartbeatPeriodSeconds, Excluded: before.Excluded,
		Requested: before.Requested, Conditions: before.Conditions,
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
	if len(s.Traces) <= mostTraces { // none are none that can be compared
		next.Traces = s.Traces
	}
	if d := s.Definition; d != nil {
		next.Definition = &v1alpha1.RecordedDefinition{UID: string(d.UID), Generation: d.Generation,
			StorageVersionHash: d.Hash}
	}
	if e := s.Epoch; e != nil {
		next.AgreedEncodingVersion = readable[e.Hash]
		next.Epoch = &v1alpha1.Epoch{Servers: e.Processes, CRDUID: string(e.UID), CRDGeneration: e.Generation}
		if v != nil && v.Epoch != nil {
			next.Evidence = v.Evidence.String()
			next.Epoch.Evidence, next.Epoch.Since = next.Evidence, sinceOf(before.Epoch, v)
		} else if before.Epoch != nil {
			next.Evidence, next.Epoch.Evidence, next.Epoch.Since = before.Evidence,
				before.Epoch.Evidence, before.Epoch.Since
		}
	}
	at := metav1.NewTime(now.Truncate(time.Second))
	next.Conditions = conditions(before.Conditions, s, v, doubt, at)
	return next
}

// sinceOf does not move while the epoch lasts: looks tell it a little differently each time, and the earliest is good.
func sinceOf(before *v1alpha1.Epoch, v *agreement.View) metav1.Time {
	since := metav1.NewTime(v.Epoch.Since.Truncate(time.Second))
	if before != nil && slices.Equal(before.Servers, v.Epoch.Servers) && before.CRDUID == string(v.Epoch.CRDUID) &&
		before.CRDGeneration == v.Epoch.CRDGeneration && !before.Since.IsZero() && before.Since.Before(&since) {
		return before.Since
	}
	return since
}

// readables are the versions that hashes stand for, as far as anyone knows: "v2", with the group where that is
// another's.
func readables(before *v1alpha1.StorageStateStatus, v *agreement.View) map[string]string {
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
	if v.Definition != nil {
		for version, hash := range v.Definition.Hashes {
			known[hash] = version
		}
	}
	if v.Epoch != nil && v.Version != "" {
		known[v.Epoch.Hash] = short(v.Version)
	}
	delete(known, "")
	return known
}

// conditions are AllEncodingVersionsEqual and Migrated; others are kept as they are.
func conditions(before []v1alpha1.Condition, s ledger.State, v *agreement.View, doubt string,
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
	case doubt != "":
		migrated.Reason, migrated.Message = "Doubt", "The stored versions are unknown: "+doubt
	case slices.Contains(s.Persisted, ledger.Unknown):
		for _, c := range before {
			if c.Type == v1alpha1.ConditionMigrated && c.Reason == "Doubt" {
				// why it was doubted stays readable until it is proven
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

// isWeak reports whether the API servers agree, as far as can be seen, and the ledger was not told so because that is
// not evidence enough: it takes every other agreement in which no server shows another version.
func isWeak(s ledger.State, v *agreement.View) bool {
	return s.Epoch == nil && v.Epoch != nil &&
		!slices.ContainsFunc(s.Servers, func(server ledger.Server) bool {
			return server.Hash != "" &&
				server.Hash != v.Epoch.Hash
		})
}

// weakness says why an agreement proves nothing.
func weakness(v *agreement.View) string {
	text := fmt.Sprintf("All API servers seem to encode the resource in one version, but the evidence is only %v, "+
		"and the installation requires more", v.Evidence)
	if v.Why != "" {
		text += ": " + v.Why
	}
	return text
}

// sameButHeartbeat reports whether nothing moved but what tells when the look was. A position that is recorded for the
// first time counts.
func sameButHeartbeat(a, b v1alpha1.StorageStateStatus) bool {
	if a.ResourceVersion != "" {
		a.ResourceVersion, a.Witness = b.ResourceVersion, b.Witness
	}
	a.LastHeartbeatTime = b.LastHeartbeatTime
	return equality.Semantic.DeepEqual(a, b)
}
