// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/agreement"
	"github.com/kube-migrator/kube-migrator/internal/phrase"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// Servers is what the API servers of a cluster show, and what that is worth for a run.
type Servers struct {
	Servers  []Server
	Releases []string
	// Evidence is that of a look, the weakest about any resource; 0: there is none. Why says why it is not stronger.
	Evidence migrate.Evidence
	Why      string
	// Disagreements name the resources that the servers write in different versions, each with what they say.
	Disagreements []string
	// Unread is what could not be read.
	Unread []string
}

// Server is one API server.
type Server struct {
	Name, Address string
	// Started is when its process started, or its Lease was created; zero if that is unknown.
	Started time.Time
	// Answered means that the server itself was asked.
	Answered bool
	// Writes says what it writes.
	Writes string
}

// ServersOf joins verdicts about resources of kube-apiservers. byName shows versions instead of numbers. It is pure.
func ServersOf(verdicts []agreement.Verdict, byName bool) Servers {
	var report Servers
	writes := map[string][]string{}
	at := func(id string) *Server {
		for i := range report.Servers {
			if report.Servers[i].Name == id {
				return &report.Servers[i]
			}
		}
		report.Servers = append(report.Servers, Server{Name: id})
		return &report.Servers[len(report.Servers)-1]
	}
	weakest := migrate.Declared
	for _, v := range verdicts {
		for _, s := range v.Servers {
			one := at(s.ID)
			one.Answered = one.Answered || s.Answered
			if s.Hash != "" {
				writes[s.ID] = append(writes[s.ID], v.Resource.Resource+" as "+cmp.Or(s.Version, "hash "+s.Hash))
			}
		}
		switch {
		case v.Disagree:
			report.Disagreements = append(report.Disagreements, v.Why)
		case v.Epoch == nil:
			report.Unread = append(report.Unread, v.Resource.String()+": "+v.Why)
		case v.Evidence < weakest || report.Evidence == 0:
			weakest, report.Evidence, report.Why = v.Evidence, v.Evidence, v.Why
		}
	}
	for i := range report.Servers {
		one := &report.Servers[i]
		list := writes[one.Name]
		switch {
		case len(list) == 0:
			one.Writes = "unknown"
		case byName:
			one.Writes = phrase.Few(list)
		default:
			one.Writes = phrase.Count(len(list), "resource", "resources")
		}
	}
	slices.SortFunc(report.Servers, func(a, b Server) int { return cmp.Compare(a.Name, b.Name) })
	return report
}

// Text writes a row for each server, and below them what a run would prove and what would improve that.
// again is the command that shows it again.
func (s Servers) Text(w io.Writer, again string) error {
	rows := make([][]string, 0, len(s.Servers))
	for _, one := range s.Servers {
		row := []string{one.Name, one.Address, "", "no", one.Writes}
		if !one.Started.IsZero() {
			row[2] = one.Started.UTC().Format(time.RFC3339)
		}
		if one.Answered {
			row[3] = "yes"
		}
		rows = append(rows, row)
	}
	if err := Tabulate(w, []string{"API SERVER", "ADDRESS", "STARTED", "ASKED", "WRITES"}, rows); err != nil {
		return err
	}
	lines := []string{"", "releases    " + strings.Join(s.Releases, ", "), "evidence    " + s.worth()}
	for _, d := range s.Disagreements {
		lines = append(lines, "disagree    "+d)
	}
	for _, u := range s.Unread {
		lines = append(lines, "unread      "+u)
	}
	if next := s.next(again); next != "" {
		lines = append(lines, "next        "+next)
	}
	for _, line := range lines {
		if line != "" {
			line = clean(line)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return fmt.Errorf("write servers: %w", err)
		}
	}
	return nil
}

// worth says which evidence a run would have, and why not more.
func (s Servers) worth() string {
	why := ""
	if s.Why != "" {
		why = ": " + s.Why
	}
	switch {
	case s.Evidence == 0:
		return "none: no run can begin" + why
	case s.Evidence < migrate.Observed:
		return fmt.Sprintf("a run would be %v, by reading everything twice%s", s.Evidence.Reachable(), why)
	}
	return fmt.Sprintf("a run would be %v", s.Evidence)
}

// next returns what would improve the evidence.
func (s Servers) next(again string) string {
	switch {
	case len(s.Disagreements) > 0:
		return "wait until the upgrade of the control plane is over: " + again
	case strings.Contains(s.Why, "/metrics"):
		return "a role that allows get on the nonResourceURL /metrics"
	case s.Evidence < migrate.Observed && s.Evidence > 0:
		return "an installation: from a pod in the cluster each API server may have an address of its own"
	}
	return ""
}
