// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/pruning"
)

// Plan is what `plan -o json` prints.
type Plan struct {
	// ObjectsPerSecond is the rate that the durations assume.
	ObjectsPerSecond float64 `json:"objectsPerSecond"`
	// Resources are in the order in which they are worth migrating: first those that need it, then those that may.
	Resources []PlannedResource `json:"resources"`
	// Failures are the parts of the cluster that could not be looked at.
	Failures []PlanFailure `json:"failures,omitempty"`
}

// PlannedResource is one resource of a Plan.
type PlannedResource struct {
	// Name is resource.group, of the group in which it is stored: "widgets.demo.example.com", "secrets".
	Name     string `json:"name"`
	Group    string `json:"group"`
	Resource string `json:"resource"`
	// AlsoServedAs are the names under which other groups serve the same stored objects.
	AlsoServedAs []string `json:"alsoServedAs,omitempty"`
	Kind         string   `json:"kind"`
	// Origin is BuiltIn, Custom or Aggregated; empty where that could not be told.
	Origin string `json:"origin"`
	// Service is the namespace/name of the Service behind an aggregated resource.
	Service    string `json:"service,omitempty"`
	Namespaced bool   `json:"namespaced"`
	// ServedVersions are those of Group, preferred first.
	ServedVersions []string `json:"servedVersions"`
	// EndpointVersion is the one that would be listed and patched; empty where none can be.
	EndpointVersion string `json:"endpointVersion,omitempty"`
	// StorageVersion is what the API server writes: a version, or group/version of another group. Empty where it
	// cannot be told from the hash.
	StorageVersion     string `json:"storageVersion,omitempty"`
	StorageVersionHash string `json:"storageVersionHash,omitempty"`
	// StoredVersions are those that a CRD's status claims to be stored; absent for other resources, whose
	// stored versions nothing records.
	StoredVersions []string `json:"storedVersions,omitempty"`
	// Objects is their number; absent where it could not be learnt, and then CountError says why.
	Objects *int64 `json:"objects,omitempty"`
	// ObjectsEstimated: the API server does not promise that Objects is exact.
	ObjectsEstimated bool   `json:"objectsEstimated,omitempty"`
	CountError       string `json:"countError,omitempty"`
	// CountForbidden: CountError is a lack of permission.
	CountForbidden bool `json:"countForbidden,omitempty"`
	// Migration is "yes", "no" or "unknown"; Why is its reason, for users.
	Migration string `json:"migration"`
	Why       string `json:"why"`
	// Losses are the objects that a migration would leave alone, because they would lose fields; absent where there are
	// none among those that were looked at, and the schemas show that there cannot be others.
	Losses *pruning.Outlook `json:"losses,omitempty"`
	// Next is the command that helps; absent where nothing has to be done, or it cannot be.
	Next string `json:"next,omitempty"`
	// Problem is the reason why the resource cannot be migrated, one word; absent where it can.
	Problem string `json:"problem,omitempty"`
	// NotStored: the API server computes the resource, or only answers to it. Tables leave it out.
	NotStored bool `json:"notStored,omitempty"`
	// DurationSeconds is how long rewriting all objects takes at ObjectsPerSecond; absent where nothing needs to be
	// rewritten, or it cannot be, or the number of objects is not known.
	DurationSeconds *float64 `json:"durationSeconds,omitempty"`
}

// PlanFailure is a part of the cluster that could not be looked at.
type PlanFailure struct {
	// What is a group and version, "CustomResourceDefinitions" or "APIServices".
	What string `json:"what"`
	// APIService and Service (namespace/name) name the aggregated API server, where it is one.
	APIService string `json:"apiService,omitempty"`
	Service    string `json:"service,omitempty"`
	Reason     string `json:"reason"`
}

// Write writes the plan. The table leaves out what is not stored, and is followed by the reasons, each once. The names
// are those that a migration can be requested for and may be needed for.
func (p Plan) Write(w io.Writer, format Format) error {
	switch format {
	case Table:
		if err := Tabulate(w, planHeader, p.rows(PlannedResource.row, false)); err != nil {
			return err
		}
		return p.reasons(w)
	case Wide:
		return Tabulate(w, planWideHeader, p.rows(PlannedResource.wideRow, true))
	case Name:
		for _, r := range p.Resources {
			if r.Migration == "no" || r.Problem != "" {
				continue
			}
			if _, err := fmt.Fprintln(w, r.Name); err != nil {
				return fmt.Errorf("write names: %w", err)
			}
		}
		return nil
	default:
		return Data(w, format, p)
	}
}

// reasons says why resources need to be migrated, or may.
func (p Plan) reasons(w io.Writer) error {
	var all []reason
	for _, r := range p.Resources {
		if r.Migration != "no" {
			all = append(all, reason{r.Name, r.Migration, r.Why, r.Next})
		}
	}
	if len(all) == 0 {
		return nil
	}
	var b strings.Builder
	b.WriteString("\n")
	writeReasons(&b, all, few)
	_, err := io.WriteString(w, b.String())
	return err
}

// NotStored is how many resources the table leaves out.
func (p Plan) NotStored() (n int) {
	for _, r := range p.Resources {
		if r.NotStored {
			n++
		}
	}
	return n
}

func (p Plan) rows(row func(PlannedResource) []string, all bool) (rows [][]string) {
	for _, r := range p.Resources {
		if all || !r.NotStored {
			rows = append(rows, row(r))
		}
	}
	return rows
}

var (
	planHeader     = []string{"RESOURCE", "STORAGE", "STORED", "OBJECTS", "MIGRATE", "DURATION"}
	planWideHeader = []string{"RESOURCE", "KIND", "API-KIND", "SCOPE", "SERVED", "ENDPOINT", "STORAGE", "HASH",
		"STORED", "OBJECTS", "MIGRATE", "DURATION", "ALSO-SERVED-AS", "WHY"}
)

func (r PlannedResource) row() []string {
	stored := r.stored()
	if len(r.StoredVersions) > 0 {
		stored = firstOf(r.StoredVersions)
	}
	return []string{r.Name, r.storage(), stored, r.objects(), r.migrate(), r.duration()}
}

// migrate is Migration, unless some objects would be left alone.
func (r PlannedResource) migrate() string {
	if r.Losses != nil && r.Losses.Objects > 0 {
		return r.Migration + ", in part"
	}
	return r.Migration
}

func (r PlannedResource) wideRow() []string {
	scope := "cluster"
	if r.Namespaced {
		scope = "namespace"
	}
	return []string{
		r.Name, r.origin(), r.Kind, scope, strings.Join(r.ServedVersions, ","), r.EndpointVersion,
		r.storage(), r.StorageVersionHash,
		r.stored(), r.objects(), r.migrate(), r.duration(), strings.Join(r.AlsoServedAs, ","), r.Why,
	}
}

func (r PlannedResource) origin() string {
	switch r.Origin {
	case "BuiltIn":
		return "built-in"
	case "":
		return "unknown"
	}
	return strings.ToLower(r.Origin)
}

func (r PlannedResource) storage() string {
	if r.StorageVersion == "" && !r.NotStored {
		return "unknown"
	}
	return r.StorageVersion
}

func (r PlannedResource) stored() string {
	if len(r.StoredVersions) == 0 && !r.NotStored {
		return "unknown"
	}
	return strings.Join(r.StoredVersions, ",")
}

func (r PlannedResource) objects() string {
	switch {
	case r.CountForbidden:
		return "forbidden"
	case r.CountError != "":
		return "error"
	case r.Objects == nil:
		return ""
	case r.ObjectsEstimated:
		return "~" + Count(*r.Objects)
	}
	return Count(*r.Objects)
}

func (r PlannedResource) duration() string {
	if r.DurationSeconds == nil {
		return ""
	}
	return Duration(time.Duration(*r.DurationSeconds * float64(time.Second)))
}
