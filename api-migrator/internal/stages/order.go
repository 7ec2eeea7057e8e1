// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package stages

import (
	"fmt"
	"slices"
	"strings"
)

// stages writes the stages down. A command that fails opens no gate: each compares what it is told with what it wants
// to hear.
func (p *planner) stages() {
	all := []Stage{p.stageAdd(), p.stageStore(), p.stageRewrite(), p.stageClean(), p.stageUnserve(), p.stageRemove()}
	if p.SingleRelease {
		all = all[1:]
	}
	p.plan.Stages = all
}

func (p *planner) stageAdd() Stage {
	return p.ship(Stage{
		Letter: "A", Name: "add", What: p.To + " is served; objects are stored as before",
		Manifest: p.add.text,
		Gate: fmt.Sprintf("kubectl get --raw '/apis/%s/%s/%s?limit=1' >/dev/null", p.crd.Group(), p.To,
			p.crd.Plural()),
		Back: fmt.Sprintf("kube-migrator retire %s --version %s --unserve --remove; then ship the CRD of the "+
			"release before. Nothing is stored in %s, but managedFields may name it, and retire sees to that.",
			p.crd.Name, p.To, p.To),
	})
}

func (p *planner) stageStore() Stage {
	s := Stage{
		Letter: "B", Name: "store", What: "objects that are written are stored in " + p.To,
		Wait: fmt.Sprintf("Every cluster has stage A, and no one goes back to a release that does not know %s.",
			p.To),
		Manifest: p.store.text,
		Gate: fmt.Sprintf(
			`test "$(kubectl get customresourcedefinition %s -o jsonpath='{.spec.versions[?(@.storage==true)].name}')" = %s`, p.crd.Name, p.To,
		),
		Back: fmt.Sprintf(applies+"a-add.yaml. Objects that were written meanwhile are stored in %s and "+
			"stay readable; to go back further than stage A, run kube-migrator migrate %s first.",
			p.To, p.crd.Name),
	}
	if p.SingleRelease {
		s.What = p.To + " is served, and objects that are written are stored in it at once"
		s.Wait = ""
		s.Back = fmt.Sprintf("To no release before: the API server refuses a CRD without %s. The operator "+
			"alone can go back, if it bears objects of %s.", p.To, p.To)
	}
	return p.ship(s)
}

func (p *planner) stageRewrite() Stage {
	return Stage{
		Letter: "C", Name: "rewrite", What: fmt.Sprintf("every object is stored in %s, with proof, and "+
			"status.storedVersions says so", p.To),
		Wait:     "No one goes back to stage A.",
		Commands: []string{"kube-migrator migrate " + p.crd.Name},
		Gate:     fmt.Sprintf("kube-migrator plan %s >/dev/null", p.crd.Name),
		Back:     "Nothing is to be taken back: objects say what they said, and both versions read them.",
	}
}

func (p *planner) stageClean() Stage {
	return Stage{
		Letter: "D", Name: "clean", What: "no managedFields entry names " + p.From,
		Wait: fmt.Sprintf("Every client writes %s, the operator included: each write at %s makes a managedFields "+
			"entry that names it.", p.To, p.From),
		Commands: []string{p.retire("")},
		Gate:     p.owned(""),
		Back:     "Nothing is to be taken back: every manager owns the fields that it owned.",
	}
}

func (p *planner) stageUnserve() Stage {
	s := p.ship(Stage{
		Letter: "E", Name: "unserve", What: p.From + " is not served any more",
		Wait: fmt.Sprintf("No client uses %s: the API server's metric apiserver_request_total, by group and "+
			"version, and its audit log say who does.", p.From),
		Manifest: p.unserve.text,
		Gate:     p.owned(" --remove"),
		Back:     applies + "b-store.yaml: " + p.From + " is served again.",
	})
	s.Commands = append(s.Commands, p.retire(" --unserve")) // it moves what was written until then
	return s
}

func (p *planner) stageRemove() Stage {
	s := p.ship(Stage{
		Letter: "F", Name: "remove", What: p.From + " is gone",
		Wait:     "No one has missed " + p.From + ".",
		Manifest: p.remove.text,
		Gate: fmt.Sprintf(`test "$(kubectl get customresourcedefinition %s -o jsonpath='{.spec.versions[*].name} {.status.storedVersions}')" = '%s ["%s"]'`,
			p.crd.Name, strings.Join(p.remove.crd.Versions(), " "), p.To),
		Back: fmt.Sprintf(applies+"e-unserve.yaml; b-store.yaml serves %s too.", p.From),
	})
	// with the last proof; what is shipped then says the same
	s.Commands = slices.Insert(s.Commands, 0, p.retire(" --remove"))
	return s
}

// applies is the command before the name of a manifest. A CRD may be too large for the annotation of a client-side apply.
// A field manager that has written the versions, such as kube-migrator's retire, does not count: the manifest does.
const applies = "kubectl apply --server-side --force-conflicts -f "

// ship adds the command that applies the stage's manifest.
func (p *planner) ship(s Stage) Stage {
	s.Commands = append(s.Commands, applies+s.File())
	return s
}

func (p *planner) retire(flags string) string {
	return "kube-migrator retire " + p.crd.Name + " --version " + p.From + flags
}

// owned exits with 0 where retire refuses nothing, and finds no managedFields entry that names the old version.
func (p *planner) owned(flags string) string {
	return p.retire(flags) + " --dry-run -o yaml | grep -A1 'name: managedFields' | grep -q 'state: Done'"
}
