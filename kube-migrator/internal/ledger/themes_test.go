// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"

	"pgregory.net/rapid"
)

// theme is what a history is about, next to what else happens in it: some things matter only in an order that chance
// seldom finds.
type theme struct {
	kinds  []kind
	silent bool
	// moves are names of moves, with an argument (any, where there is none).
	moves []string
}

// themes are variations of what can go wrong. The first is none.
func themes() []theme {
	separate, alone, own := []kind{ownEtcd}, []kind{builtIn}, fmt.Sprint("restore ", ownBack)
	return []theme{
		{},
		{separate, false, []string{"all goes well", "backup", "upgrade all", "all goes well", own, "all goes well"}},
		{separate, false, []string{"all goes well", "backup", "upgrade all", "all goes well",
			fmt.Sprint("restore ", ownBumped), "all goes well"}},
		{separate, false, []string{"all goes well", "backup", "upgrade all", "all goes well",
			fmt.Sprint("restore ", ownHasCaughtUp), "all goes well"}},
		{separate, false, []string{"upgrade all 2", "trigger goes on", "engine goes on", "backup", "engine goes on",
			"engine goes on 2", "finish", own, "all goes well"}},
		{separate, false, []string{"upgrade all 2", "trigger goes on", "trigger", "engine goes on", "backup",
			"engine goes on", "engine goes on 2", "finish", "finish", own, "all goes well"}},
		{separate, false, []string{
			"all goes well", "backup", "upgrade all 2", "write by the newest", "trigger goes on", "upgrade all 1",
			"trigger goes on", fmt.Sprint("restore ", mainBumped), "all goes well",
		}},
		{[]kind{aggregated}, false, []string{"all goes well", "backup", "upgrade all", "all goes well",
			own, "all goes well"}},
		{alone, false, []string{"upgrade", "backup", "trigger goes on", "restore", "trigger goes on", "all goes well"}},
		{alone, false, []string{"all goes well", "backup", "upgrade all", "all goes well",
			fmt.Sprint("restore ", mainBumped), "all goes well"}},
		{[]kind{custom}, false, []string{"suspend", "trigger goes on", "flip", "all goes well", "all goes well",
			"resume, and show what is not written yet", "all goes well"}},
		{[]kind{custom}, false, []string{"trigger dies", "flip there and back", "prune storedVersions",
			"trigger starts", "all goes well"}},
		{[]kind{builtIn, ownEtcd}, true, []string{"trigger dies", "upgrade", "write by the newest", "stop the newest",
			"trigger starts", "all goes well"}},
		{[]kind{aggregated}, false, []string{"upgrade", "write by the newest", "stop the newest",
			"trigger goes on", "all goes well"}},
		{[]kind{builtIn, ownEtcd, custom}, false,
			[]string{"surge", "write by one that ends or was suspended", "all goes well", "surge",
				"write by one that ends or was suspended", "all goes well"}},
		{nil, false, []string{"user asks", "upgrade", "engine goes on", "engine goes on", "trigger goes on",
			"write by the newest", "stop the newest", "all goes well"}},
	}
}

// named are the moves that the themes name.
func named(all []move) map[string][]move {
	found := map[string][]move{}
	for _, about := range themes() {
		for _, name := range about.moves {
			if found[name] != nil {
				continue
			}
			for _, m := range all {
				if m.name == name || m.String() == name {
					found[name] = append(found[name], m)
				}
			}
			if found[name] == nil {
				panic("no move " + name)
			}
		}
	}
	return found
}

// vary plays a theme's moves, each with any argument where the theme names none, and others in between.
func vary(t *rapid.T, about theme, all []move, named map[string][]move) (list []move) {
	for _, name := range about.moves {
		for range rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2}).Draw(t, "others") {
			list = append(list, rapid.SampledFrom(all).Draw(t, "other"))
		}
		list = append(list, rapid.SampledFrom(named[name]).Draw(t, name))
	}
	return list
}
