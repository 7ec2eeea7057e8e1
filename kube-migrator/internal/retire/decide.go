// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package retire

import (
	"fmt"
	"slices"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/refusal"
)

// Decide returns the plan, or a *refusal.Error that says why nothing may be done. It is pure.
func (want Intent) Decide(f Facts) (Plan, error) {
	d := f.CRD
	for _, rule := range []func(Facts) *refusal.Error{
		want.established, want.known, want.notStorage, want.rescuable, want.notLast, want.nothingElseStored,
		want.readable, want.lossless, want.unserved, want.alone, want.ownersRead, want.independent,
		want.losslessDependents,
	} {
		if refused := rule(f); refused != nil {
			return Plan{}, refused
		}
	}
	if want.isRetired(f) {
		if want.FixOwners && f.Dependents.Objects > 0 {
			return Plan{Steps: []Step{want.pointingStep(f)}}, nil
		}
		return Plan{Steps: []Step{{Remove, Done,
			fmt.Sprintf("%s is not in spec.versions (%s), and nothing names it", want.Version, names(d))}}}, nil
	}
	return Plan{Steps: want.steps(f)}, nil
}

// isRetired reports whether the CRD does not have the version, and nothing names it but ownerReferences.
func (want Intent) isRetired(f Facts) bool {
	return !has(f.CRD, want.Version) && f.Unreadable == "" && !want.named(f)
}

func (want Intent) established(f Facts) *refusal.Error {
	d := f.CRD
	if ok, why := d.Established(); !ok {
		return refusal.New(NotEstablished, "kubectl describe customresourcedefinition "+d.Metadata.Name,
			"%s is not established: %s", d.Metadata.Name, why)
	}
	return nil
}

// known refuses a version that the CRD does not have, unless the user wants it removed and it existed once. Nothing in
// the cluster distinguishes a version that was removed from a misspelt one.
func (want Intent) known(f Facts) *refusal.Error {
	d := f.CRD
	traces := want.named(f) || strandedBy(d.Metadata.Name, d.VersionNames(), f.Unreadable) == want.Version
	switch {
	case has(d, want.Version), want.Rescue && (traces || f.Unreadable != ""):
		return nil
	case traces:
		return refusal.New(Unreadable, want.command(d, want.Version, "--rescue"),
			"%s no longer has %s, but there are traces of it: %s",
			d.Metadata.Name, want.Version, want.traces(f))
	case f.Dependents.Objects > 0 && want.FixOwners:
		return nil
	case f.Dependents.Objects > 0 && !want.LeaveOwners:
		return want.hasDependents(f)
	case want.removes() && f.Unreadable == "" && slices.Contains(f.Attempted, want.Version):
		return nil
	}
	try := want.Program + " plan " + d.Metadata.Name
	if near := others(d); len(near) == 1 {
		try = want.command(d, near[0])
	}
	trace := ""
	if want.removes() && f.Unreadable == "" {
		trace = ", and no trace of one"
	}
	return refusal.New(UnknownVersion, try, "%s has no version %s%s; it has %s", d.Metadata.Name,
		want.Version, trace, names(d))
}

// named reports whether status.storedVersions or managedFields name the version.
func (want Intent) named(f Facts) bool {
	return f.Owners.Objects > 0 || slices.Contains(f.CRD.Status.StoredVersions, want.Version)
}

// traces says what names a version that the CRD does not have.
func (want Intent) traces(f Facts) string {
	var traces []string
	if slices.Contains(f.CRD.Status.StoredVersions, want.Version) {
		traces = append(traces, "status.storedVersions names it")
	}
	if f.Unreadable != "" {
		traces = append(traces, "objects cannot be read: "+f.Unreadable)
	}
	if f.Owners.Objects > 0 {
		traces = append(traces, fmt.Sprintf("managedFields of %s name it", phrase.Objects(f.Owners.Objects)))
	}
	return strings.Join(traces, "; ")
}

func (want Intent) notStorage(f Facts) *refusal.Error {
	d := f.CRD
	if d.StorageVersion() != want.Version || len(d.Spec.Versions) == 1 {
		return nil
	}
	return refusal.New(StorageVersion, moveStorage(d, want.Version),
		"%s is the storage version of %s: every object is written in it", want.Version, d.Metadata.Name)
}

// moveStorage returns the command that makes another version the storage version: the first other one that is served.
func moveStorage(d *crd.CRD, version string) string {
	to := slices.IndexFunc(d.Spec.Versions, func(v crd.Version) bool { return v.Name != version && v.Served })
	if to < 0 {
		to = slices.IndexFunc(d.Spec.Versions, func(v crd.Version) bool { return v.Name != version })
	}
	from := index(d, version)
	return fmt.Sprintf(`kubectl patch customresourcedefinition %s --type=json -p '[{"op":"test","path":"/spec/versions/%d/name","value":%q},`+
		`{"op":"test","path":"/spec/versions/%d/name","value":%q},{"op":"replace","path":"/spec/versions/%d/storage","value":false},`+
		`{"op":"replace","path":"/spec/versions/%d/storage","value":true}]'`,
		d.Metadata.Name, from, version, to, d.Spec.Versions[to].Name, from, to)
}

// rescuable refuses to rescue a version that was not removed, because a rescue removes it at the end. A version that an
// interrupted rescue has added again is recognized in three ways: status.storedVersions names it, objects cannot be
// read yet, or its retirement was started on this machine.
func (want Intent) rescuable(f Facts) *refusal.Error {
	d := f.CRD
	broughtBack := f.Unreadable != "" || slices.Contains(d.Status.StoredVersions, want.Version) ||
		slices.Contains(f.Attempted, want.Version)
	switch {
	case want.Rescue && d.Served(want.Version):
		return refusal.New(NotStranded, want.command(d, want.Version),
			"%s serves %s: it was not removed, and there is nothing to rescue", d.Metadata.Name, want.Version)
	case want.Rescue && has(d, want.Version) && !broughtBack:
		return refusal.New(NotStranded, want.command(d, want.Version, "--remove"),
			"%s of %s was not removed: it is there, unserved", want.Version, d.Metadata.Name)
	}
	return nil
}

func (want Intent) notLast(f Facts) *refusal.Error {
	d := f.CRD
	if len(d.Spec.Versions) == 1 && has(d, want.Version) {
		return refusal.New(OnlyVersion, "kubectl edit customresourcedefinition "+d.Metadata.Name,
			"%s is the only version of %s: add the one that takes its place, and make it the storage version",
			want.Version, d.Metadata.Name)
	}
	return nil
}

// nothingElseStored refuses if objects may be stored in another version that the CRD does not have: a migration could
// not list them, and pruning would remove the only hint at them from storedVersions.
func (want Intent) nothingElseStored(f Facts) *refusal.Error {
	d := f.CRD
	for _, stored := range d.Status.StoredVersions {
		if stored != want.Version && !has(d, stored) {
			return refusal.New(StoredUnknown, want.command(d, stored, "--rescue"),
				"status.storedVersions of %s names %s, which is not in spec.versions: objects that are stored in it "+
					"cannot be read", d.Metadata.Name, stored)
		}
	}
	return nil
}

// readable refuses if objects cannot be listed, unless the rescue of this version makes them readable.
func (want Intent) readable(f Facts) *refusal.Error {
	d := f.CRD
	stranded := strandedBy(d.Metadata.Name, d.VersionNames(), f.Unreadable)
	if f.Unreadable == "" || want.Rescue && (stranded == want.Version || stranded == "" &&
		slices.Contains(d.Status.StoredVersions, want.Version)) {
		return nil
	}
	return refusal.New(Unreadable, Remedy(want.Program, d.Metadata.Name, d.VersionNames(), f.Unreadable), "objects of %s cannot be read: %s", d.Metadata.Name, f.Unreadable)
}

// Remedy returns the command that helps if the API server cannot list the objects of a CRD with a name and versions, for
// the reason that its message gives: the one that rescues a version which is gone, or one that shows the cause.
func Remedy(program, name string, versions []string, message string) string {
	stranded := strandedBy(name, versions, message)
	switch {
	case stranded != "":
		return program + " retire " + name + " --version=" + stranded + " --rescue"
	case strings.Contains(message, "conversion webhook"):
		return "kubectl get customresourcedefinition " + name + " -o jsonpath='{.spec.conversion}'"
	case strings.Contains(message, "forbidden"):
		return "kubectl auth can-i list " + name + " --all-namespaces"
	case strings.Contains(message, "/registry/"):
		return "kubectl get " + name + " --all-namespaces --chunk-size=1"
	}
	return "kubectl describe customresourcedefinition " + name
}

// strandedBy returns the version of a CRD's group that a message of the API server names and that the CRD does not have,
// or "".
func strandedBy(name string, versions []string, message string) string {
	_, group, _ := strings.Cut(name, ".")
	for word := range strings.FieldsFuncSeq(message, func(r rune) bool {
		return strings.ContainsRune(" \t\n\",;()[]{}",
			r)
	}) {
		version, ok := strings.CutPrefix(strings.TrimRight(word, ".:'"), group+"/")
		version, _, _ = strings.Cut(version, "/")
		if version = strings.TrimRight(version, ",:"); ok && version != "" && !slices.Contains(versions, version) {
			return version
		}
	}
	return ""
}

// unserved refuses to remove a version that clients may still use, and to leave the resource without a served version.
func (want Intent) unserved(f Facts) *refusal.Error {
	d := f.CRD
	another := slices.ContainsFunc(d.Spec.Versions,
		func(v crd.Version) bool { return v.Served && v.Name != want.Version })
	switch {
	case want.Remove && !want.Unserve && d.Served(want.Version):
		return refusal.New(StillServed, want.command(d, want.Version, "--unserve", "--remove"),
			"%s still serves %s: its clients would get 404 at the moment of the removal, and their writes could name "+
				"it until then", d.Metadata.Name, want.Version)
	case !another && (want.Unserve || want.removes()):
		return refusal.New(NothingServed, "kubectl edit customresourcedefinition "+d.Metadata.Name,
			"%s serves no version but %s: its objects could no longer be read", d.Metadata.Name, want.Version)
	}
	return nil
}

func (want Intent) alone(f Facts) *refusal.Error {
	if len(f.Running) == 0 {
		return nil
	}
	d := f.CRD
	try := want.Program + " wait " + d.Metadata.Name
	if f.Running[0] == ThisMachine {
		try = want.command(d, want.Version, want.flags()...)
	}
	return refusal.New(MigrationRuns, try, "%s is being migrated by %s: only one migration per resource "+
		"may run at a time",
		d.Metadata.Name, strings.Join(f.Running, ", "))
}

// ThisMachine stands in Facts.Running for a migration by another process on this machine.
const ThisMachine = "another kube-migrator of this machine"

// steps returns the steps of a plan that no rule refuses.
func (want Intent) steps(f Facts) []Step {
	d := f.CRD
	storage := d.StorageVersion()
	var steps []Step
	if want.Rescue {
		restore := Step{Restore, Todo, fmt.Sprintf("add %s to spec.versions, unserved, and to status.storedVersions",
			want.Version)}
		if has(d, want.Version) && slices.Contains(d.Status.StoredVersions, want.Version) {
			restore.State, restore.What = Done, want.Version+" is in spec.versions, unserved"
		}
		steps = append(steps, restore)
	}
	objects := phrase.Objects(f.Objects)
	if f.Unreadable != "" {
		objects = "all objects"
	}
	rewrite := fmt.Sprintf("rewrite %s as %s, and prove that nothing else is stored", objects, storage)
	if l := f.Losses.Accepted; l.Objects > 0 {
		rewrite += fmt.Sprintf("; fields are lost of %s: %s", phrase.Objects(l.Objects), l)
	}
	steps = append(steps, Step{Migrate, Todo, rewrite})
	prune := Step{Prune, Todo, fmt.Sprintf("reduce status.storedVersions [%s] to [%s]",
		strings.Join(d.Status.StoredVersions, " "), storage)}
	switch {
	case want.Rescue:
		prune.What = "reduce status.storedVersions to [" + storage + "]"
	case slices.Equal(d.Status.StoredVersions, []string{storage}):
		prune.State, prune.What = Done, "status.storedVersions is ["+storage+"]"
	}
	return append(steps, prune, want.ownedStep(f), want.pointingStep(f), want.unserveStep(d), want.removeStep())
}

func (want Intent) ownedStep(f Facts) Step {
	switch {
	case f.Unreadable != "":
		return Step{Owned, Todo, "move the managedFields entries that name " + want.Version + " to " +
			moveTo(f.CRD, want.Version)}
	case f.Owners.Objects == 0:
		return Step{Owned, Done, "no managedFields entry names " + want.Version}
	}
	return Step{Owned, Todo, fmt.Sprintf("move the managedFields entries of %s from %s to %s: %s",
		phrase.Objects(f.Owners.Objects), want.Version, moveTo(f.CRD, want.Version), f.Owners)}
}

func (want Intent) unserveStep(d *crd.CRD) Step {
	switch {
	case !d.Served(want.Version):
		return Step{Unserve, Done, want.Version + " is not served"}
	case !want.Unserve:
		return Step{Unserve, NotAsked, "--unserve sets served: false"}
	}
	return Step{Unserve, Todo, "set served: false, and look for writes that came before it"}
}

func (want Intent) removeStep() Step {
	if !want.removes() {
		return Step{Remove, NotAsked, "--remove takes " + want.Version + " out of spec.versions"}
	}
	return Step{Remove, Todo, "take " + want.Version + " out of spec.versions"}
}

// String names the first few managers, for users.
func (o Owners) String() string {
	const shown = 5
	var words []string
	for _, m := range o.Managers[:min(shown, len(o.Managers))] {
		words = append(words, fmt.Sprintf("%s (%s, %d)", m.Name, m.Operation, m.Objects))
	}
	if more := len(o.Managers) - shown; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, ", ")
}

// flags returns the flags that the user gave.
func (want Intent) flags() (given []string) {
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"--unserve", want.Unserve}, {"--remove", want.Remove}, {"--rescue", want.Rescue},
		{"--fix-owners", want.FixOwners}, {"--leave-owners", want.LeaveOwners},
	} {
		if f.given {
			given = append(given, f.name)
		}
	}
	return given
}

// command returns the same command for a version, with the given flags.
func (want Intent) command(d *crd.CRD, version string, flags ...string) string {
	return strings.Join(append([]string{want.Program, "retire", d.Metadata.Name, "--version=" +
		version}, flags...), " ")
}

func has(d *crd.CRD, version string) bool {
	return index(d, version) >= 0
}

// index returns the position of a version in spec.versions; it is negative if the CRD does not have the version.
func index(d *crd.CRD, version string) int {
	return slices.IndexFunc(d.Spec.Versions, func(v crd.Version) bool { return v.Name == version })
}

// others returns the versions other than the storage version.
func others(d *crd.CRD) []string {
	var all []string
	for _, v := range d.Spec.Versions {
		if !v.Storage {
			all = append(all, v.Name)
		}
	}
	return all
}

func names(d *crd.CRD) string {
	var all []string
	for _, v := range d.Spec.Versions {
		all = append(all, v.Name)
	}
	return strings.Join(all, ", ")
}

// Endpoint returns the version at which objects are read and written while a version is retired: the storage version if
// it is served, otherwise another served version, otherwise the retired version.
func Endpoint(d *crd.CRD, retired string) string {
	endpoint := retired
	for _, v := range d.Spec.Versions {
		if v.Served && v.Name != retired && (endpoint == retired || v.Storage) {
			endpoint = v.Name
		}
	}
	return endpoint
}

// moveTo returns the version that managedFields entries get.
func moveTo(d *crd.CRD, retired string) string {
	if e := Endpoint(d, retired); e != retired {
		return e
	}
	return d.StorageVersion()
}
