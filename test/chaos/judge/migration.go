// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package judge

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// success judges a migration that has succeeded (I4).
func (j *Judge) success(m migration) (violations []string) {
	done := m.Status.CompletedGeneration
	if done <= j.completed[m.Metadata.UID] {
		return nil
	}
	j.completed[m.Metadata.UID] = done
	for _, r := range j.resources {
		if r.kind.Group != m.Spec.Resource.Group || r.kind.Plural != m.Spec.Resource.Resource {
			continue
		}
		j.Successes++
		baseline, err := strconv.ParseInt(m.Status.ResourceVersion, 10, 64)
		if err != nil {
			violations = append(violations, fmt.Sprintf("I4 cannot be judged: %s succeeded with the baseline %q",
				m.Metadata.Name, m.Status.ResourceVersion))
			continue
		}
		if m.Status.Progress.Failed > 0 {
			violations = append(violations, fmt.Sprintf("I4 violated: %s succeeded with %d failures", m.Metadata.Name,
				m.Status.Progress.Failed))
		}
		stale, example := 0, ""
		newest, err := 0, error(nil)
		if name, rotated := strings.CutPrefix(m.Spec.Reason, rotation); rotated {
			newest, err = strconv.Atoi(strings.TrimPrefix(name, "key"))
		}
		if err != nil {
			violations = append(violations, fmt.Sprintf("I4 cannot be judged: %s was asked for because of %q",
				m.Metadata.Name, m.Spec.Reason))
		}
		for key, o := range r.objects {
			other := !o.Opaque && r.kind.Hash(o.Version) != m.Status.StorageVersionHash
			if o.revision <= baseline && (other || keyOf(o.Version) < newest) {
				if stale++; example == "" || key < example {
					example = key
				}
			}
		}
		if stale > 0 {
			o := r.objects[example]
			violations = append(violations, fmt.Sprintf("I4 violated: %s succeeded with %s (%s) and the baseline %d, "+
				"and etcd holds %d older objects in other versions, such as %s in %s of revision %d",
				m.Metadata.Name, m.Status.StorageVersion, m.Status.StorageVersionHash, baseline, stale, example,
				o.Version, o.revision))
		}
	}
	return violations
}

// failure judges a run that has failed because of objects (I4): every object that is older than its baseline and in
// another version is counted, and named if the list has room for all. A failed run is started over, with a baseline of
// its own.
func (j *Judge) failure(m migration) (violations []string) {
	status := m.Status
	baseline, err := strconv.ParseInt(status.ResourceVersion, 10, 64)
	if err != nil || !m.hasFailed() || j.failed[m.Metadata.UID] == status.ResourceVersion {
		return nil
	}
	j.failed[m.Metadata.UID] = status.ResourceVersion
	named := map[string]bool{}
	for _, f := range status.Failures {
		named[path.Join(f.Namespace, f.Name)] = true
	}
	for _, r := range j.resources {
		if r.kind.Group != m.Spec.Resource.Group || r.kind.Plural != m.Spec.Resource.Resource {
			continue
		}
		j.Failures++
		for _, f := range status.Failures {
			if f.Reason == wouldLoseFields {
				j.Spared++
			}
		}
		stale, unnamed := int64(0), ""
		for key, o := range r.objects {
			if o.Opaque || o.revision > baseline || r.kind.Hash(o.Version) == status.StorageVersionHash {
				continue
			}
			stale++
			if !named[strings.TrimPrefix(key, r.kind.Prefix)] && (unnamed == "" || key < unnamed) {
				unnamed = key
			}
		}
		room := status.Progress.Failed == int64(len(status.Failures))
		if stale > status.Progress.Failed || room && unnamed != "" {
			violations = append(violations, fmt.Sprintf("I4 violated: %s failed with %s and the baseline %d, counts %d "+
				"failures and names %d, and etcd holds %d older objects in other versions; not named is %q",
				m.Metadata.Name, status.StorageVersion, baseline, status.Progress.Failed, len(status.Failures), stale,
				unnamed))
		}
	}
	return violations
}

// wouldLoseFields is the reason of a failure that means that an object was left alone.
const wouldLoseFields = "WouldLoseFields"

// hasFailed reports whether the last run has tried every object, and some could not be rewritten.
func (m *migration) hasFailed() bool {
	for _, c := range m.Status.Conditions {
		if c.Type == "Failed" && c.Status == "True" {
			return c.Reason == "ObjectsFailed" || c.Reason == wouldLoseFields
		}
	}
	return false
}

// Pending returns the keys of migrations that are requested and have not succeeded, sorted.
func (j *Judge) Pending() []string { return slices.Sorted(maps.Keys(j.pending)) }

// migration is the part of a StorageVersionMigration that is judged.
type migration struct {
	Metadata struct {
		Name string    `json:"name"`
		UID  types.UID `json:"uid"`
	} `json:"metadata"`
	Spec struct {
		Resource struct {
			Group    string `json:"group"`
			Resource string `json:"resource"`
		} `json:"resource"`
		Reason     string `json:"reason"`
		Generation int64  `json:"generation"`
	} `json:"spec"`
	Status struct {
		CompletedGeneration int64  `json:"completedGeneration"`
		StorageVersion      string `json:"storageVersion"`
		StorageVersionHash  string `json:"storageVersionHash"`
		ResourceVersion     string `json:"resourceVersion"`
		Progress            struct {
			Failed int64 `json:"failed"`
		} `json:"progress"`
		Failures []struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
			Reason    string `json:"reason"`
		} `json:"failures"`
		Conditions []struct {
			Type   string `json:"type"`
			Status string `json:"status"`
			Reason string `json:"reason"`
		} `json:"conditions"`
	} `json:"status"`
}

// readMigration reads a migration, and whether it is requested and not done.
func (j *Judge) readMigration(c Change) (m migration, ok bool) {
	if !strings.HasPrefix(c.Key, MigrationsPrefix) {
		return m, false
	}
	delete(j.pending, c.Key)
	if c.Value == nil || json.Unmarshal(c.Value, &m) != nil {
		return m, false
	}
	if m.Status.CompletedGeneration < m.Spec.Generation {
		j.pending[c.Key] = true
	}
	return m, true
}
