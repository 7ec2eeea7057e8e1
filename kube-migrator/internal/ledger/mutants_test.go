// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"testing"
	"time"
)

// without leaves out a doubt.
func without(r rules, name string) rules {
	n := len(r.doubts)
	r.doubts = slices.DeleteFunc(slices.Clone(r.doubts), func(d doubt) bool { return d.name == name })
	if len(r.doubts) == n {
		panic("no doubt " + name)
	}
	return r
}

// mutants are rules that are wrong in one way each.
var mutants = map[string]func(r *rules){
	"no one watched, and it does not matter": func(r *rules) { *r = without(*r, "no one watched") },
	"a Lease that is renewed is taken for a process that lives": func(r *rules) {
		replace(r, "no one watched", func(s State, l Look) string {
			same := len(s.Servers) == len(l.Servers)
			for i := range l.Servers {
				same = same && s.Servers[i].ID == l.Servers[i].ID
			}
			if same {
				return ""
			}
			return unwatched(s, l)
		})
	},
	"the same processes are trusted without a look at traces": func(r *rules) {
		replace(r, "no one watched", func(s State, l Look) string { l.Traces = s.Traces; return unwatched(s, l) })
	},
	"a young heartbeat is an excuse": func(r *rules) {
		replace(r, "no one watched", func(s State, l Look) string {
			if l.Started.Sub(s.Heartbeat) <= 12*time.Minute {
				return ""
			}
			return unwatched(s, l)
		})
	},
	"an old epoch of the same hash is an excuse": func(r *rules) {
		replace(r, "no one watched", func(s State, l Look) string {
			if s.Epoch != nil && l.Epoch != nil && s.Epoch.Hash == l.Epoch.Hash {
				return ""
			}
			return unwatched(s, l)
		})
	},
	"a new server that does not answer is no matter": func(r *rules) { *r = without(*r, "came without an answer") },
	"a server that came and went is no matter":       func(r *rules) { *r = without(*r, "passed without an answer") },
	"generations that no one saw are no matter":      func(r *rules) { *r = without(*r, "generations missed") },
	"that etcd was seen to be restored is no matter": func(r *rules) { *r = without(*r, "restored") },
	"a collection that is older is no matter":        func(r *rules) { *r = without(*r, "collection restored") },
	"an object that is older is no matter":           func(r *rules) { *r = without(*r, "witness restored") },
	"a revision that leapt is no matter":             func(r *rules) { *r = without(*r, "revision bumped") },
	"a suspended process may come back unnoticed":    func(r *rules) { *r = without(*r, "came back") },
	"a proof trims without a fresh position": func(r *rules) {
		r.uncompared = func(State, Proof, Collection) string { return "" }
	},
	"traces are trusted where processes leave none": func(r *rules) {
		replace(r, "no one watched", func(s State, l Look) string {
			traced := func(trace string) bool { return trace == Untraced }
			s.Traces, l.Traces = slices.DeleteFunc(slices.Clone(s.Traces), traced),
				slices.DeleteFunc(slices.Clone(l.Traces), traced)
			return unwatched(s, l)
		})
	},
	"aggregated resources are taken for watched": func(r *rules) {
		replace(r, "no one watched", func(s State, l Look) string {
			l.Continuous = l.Continuous || !l.Revisions
			return unwatched(s, l)
		})
	},
	"a silent server is taken for what the others are": func(r *rules) {
		r.shown = func(s State, l Look) []Server {
			servers := shown(s, l)
			for i := range servers {
				servers[i].Answered = true
			}
			return servers
		}
	},
	"what CRDs said between two looks is not recorded": func(r *rules) {
		r.written = func(s State, l Look) []string { l.CRDs = nil; return written(s, l) }
	},
	"only what all agree on is recorded": func(r *rules) {
		r.written = func(s State, l Look) []string {
			if l.Epoch == nil {
				return nil
			}
			return []string{l.Epoch.Hash}
		}
	},
	"what is new replaces what was": func(r *rules) {
		r.join = func(_, hashes []string) []string { return join(nil, hashes) }
	},
	"agreement ends what is unknown": func(r *rules) {
		r.join = func(persisted, hashes []string) []string {
			if len(hashes) == 1 {
				persisted = slices.DeleteFunc(slices.Clone(persisted),
					func(hash string) bool { return hash == Unknown })
			}
			return join(persisted, hashes)
		}
	},
	"a run that has started will do": func(r *rules) {
		r.fence = func(s State, l Look) uint64 {
			if l.Own.Started {
				return max(1, min(l.Moment, l.Own.Start-1))
			}
			return l.Moment
		}
	},
	"what is required stays as it was": func(r *rules) {
		r.fence = func(s State, _ Look) uint64 { return max(1, s.After) }
	},
	"a proof counts whenever its run started": func(r *rules) {
		r.refusal = func(s State, p Proof) string { s.After, p.Start = 1, 2; return refusal(s, p) }
	},
	"a run by hand does not look whether more is required since": func(r *rules) {
		r.overtaken = func(State, State) string { return "" }
		r.refusal = func(s State, p Proof) string { p.Start = s.After + 1; return refusal(s, p) }
	},
	"a proof of any epoch counts": func(r *rules) {
		r.refusal = func(s State, p Proof) string {
			if s.Epoch != nil && p.Epoch.Hash == s.Epoch.Hash {
				p.Epoch = *s.Epoch
			}
			return refusal(s, p)
		}
	},
	"what is proven rises while another version may be stored": func(r *rules) {
		r.risen = func(s State, l Look) Proven {
			if s.Epoch != nil {
				s.Persisted, s.Current = []string{s.Epoch.Hash}, s.Epoch.Hash
			}
			return risen(s, l)
		}
	},
	"what is proven rises to what was read last": func(r *rules) {
		r.risen = func(s State, l Look) Proven { l.Reached = l.Collection.ResourceVersion; return risen(s, l) }
	},
	"what is proven of one version is taken for another": func(r *rules) {
		r.risen = func(s State, l Look) Proven {
			if s.Epoch != nil {
				s.Proven.Hash = s.Epoch.Hash
			}
			return risen(s, l)
		}
	},
	"a proof of any hash counts": func(r *rules) {
		r.refusal = func(s State, p Proof) string {
			if s.Epoch != nil {
				p.Epoch = *s.Epoch
			}
			return refusal(s, p)
		}
	},
}

func replace(r *rules, name string, why func(s State, l Look) string) {
	*r = without(*r, name)
	r.doubts = append(r.doubts, doubt{name, why})
}

// TestEveryBrokenRuleIsCaught plays as many histories with rules of which one is broken, each until that is noticed.
func TestEveryBrokenRuleIsCaught(t *testing.T) {
	generator, w := tales(), new(world)
	left := map[string]rules{}
	for name, mutate := range mutants {
		r := sound()
		mutate(&r)
		left[name] = r
	}
	for i := 0; i < histories && len(left) > 0; i++ {
		tale := generator.Example(historySeed + i)
		for name, r := range left {
			if step, broken := w.tell(r, tale); broken != "" {
				if step, broken := w.tell(sound(), tale); broken != "" {
					t.Fatalf("history %d breaks the sound rules at step %d: %s", i, step, broken)
				}
				t.Logf("%q is caught by history %d at step %d: %s", name, i, step, broken)
				delete(left, name)
			}
		}
	}
	for name := range left {
		t.Errorf("%d histories do not notice that %q", histories, name)
	}
}
