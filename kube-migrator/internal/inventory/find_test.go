// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// demo is an inventory with the names that are hard to tell apart.
func demo() *Inventory {
	f := factsOf(
		listing{"v1", "events", "Event", "v1", allVerbs},
		listing{"v1", "secrets", "Secret", "v1", allVerbs},
		listing{"events.k8s.io/v1", "events", "Event", "v1", allVerbs},
		listing{"apps/v1", "deployments", "Deployment", "apps/v1", allVerbs},
		listing{"demo.example.com/v2", "widgets", "Widget", "demo.example.com/v2", allVerbs},
		listing{"demo.example.com/v1", "widgets", "Widget", "demo.example.com/v2", allVerbs},
		listing{"other.example.com/v1", "widgets", "Widget", "other.example.com/v1", allVerbs},
		listing{"other.example.com/v1", "deploys", "Gizmo", "other.example.com/v1", allVerbs},
		listing{"v3.example.com/v1", "gizmos", "Odd", "v3.example.com/v1", allVerbs},
	)
	for gv, resources := range f.resources {
		for i := range resources {
			switch resources[i].Name {
			case "deployments":
				f.resources[gv][i].ShortNames = []string{"deploy"}
			case "deploys":
				f.resources[gv][i].ShortNames = []string{"secrets"}
			}
		}
	}
	f.failures = []Failure{{What: "down.example.com/v1", Group: "down.example.com", Reason: "down"}}
	return assemble(f)
}

func TestAResourceIsFoundByWhatKubectlTakes(t *testing.T) {
	inv := demo()
	for arg, want := range map[string]string{
		"widgets":                      "demo.example.com/v2/widgets", // the group that discovery prefers
		"widget":                       "demo.example.com/v2/widgets",
		"Widget":                       "demo.example.com/v2/widgets",
		"WIDGETS":                      "demo.example.com/v2/widgets",
		"widgets.demo.example.com":     "demo.example.com/v2/widgets",
		"widgets.v1.demo.example.com":  "demo.example.com/v1/widgets",
		"widget.v1.demo.example.com":   "demo.example.com/v1/widgets",
		"widgets.other.example.com":    "other.example.com/v1/widgets",
		"widgets.other":                "other.example.com/v1/widgets", // a group that begins like it
		"widgets.v1.other.example.com": "other.example.com/v1/widgets",
		"deploy":                       "apps/v1/deployments",
		"deploy.apps":                  "apps/v1/deployments",
		"deployments.v1.apps":          "apps/v1/deployments",
		"secrets":                      "/v1/secrets", // a plural wins over a short name
		"secrets.v1.":                  "/v1/secrets",
		"events":                       "/v1/events",
		"events.events.k8s.io":         "/v1/events", // one storage
		"events.v1.events.k8s.io":      "/v1/events",
		"gizmos":                       "v3.example.com/v1/gizmos",
		"gizmo":                        "other.example.com/v1/deploys",
		"gizmos.v3.example.com":        "v3.example.com/v1/gizmos", // a group that looks like a version
		"widgets.v2.demo.example.com":  "demo.example.com/v2/widgets",
		"Widget.V2.demo.example.com":   "demo.example.com/v2/widgets",
		"events.v1.":                   "/v1/events",
	} {
		r, err := inv.Find(arg)
		if err != nil {
			t.Errorf("Find(%q): %v", arg, err)
			continue
		}
		if got := r.Group + "/" + r.Endpoint + "/" + r.Resource; got != want {
			t.Errorf("Find(%q) = %s, want %s", arg, got, want)
		}
	}
}

func TestANameThatIsUnknownProposesNearOnes(t *testing.T) {
	inv := demo()
	for arg, want := range map[string][]string{
		"widgts":                      {"widgets.demo.example.com", "widgets.other.example.com"},
		"widegts":                     {"widgets.demo.example.com", "widgets.other.example.com"},
		"widgets.v9.demo.example.com": {"widgets.demo.example.com", "widgets.other.example.com"},
		"widgets.othr.example.com":    {"widgets.other.example.com", "widgets.demo.example.com"},
		"secret.apps":                 {"secrets", "deploys.other.example.com"},
		"xyz":                         nil,
		"":                            nil,
	} {
		_, err := inv.Find(arg)
		missing := (*NotFoundError)(nil)
		if !errors.As(err, &missing) || missing.Name != arg {
			t.Fatalf("Find(%q): %v, want a NotFoundError", arg, err)
		}
		if diff := cmp.Diff(want, missing.Near); diff != "" {
			t.Errorf("near %q (-want +got):\n%s", arg, diff)
		}
	}
}

func TestANameThatMayBeInAPartThatFailedSaysSo(t *testing.T) {
	for arg, want := range map[string]string{
		"things.down.example.com":    `the server has no resource "things.down.example.com"; down.example.com/v1 could not be read: down`,
		"things.v1.down.example.com": `the server has no resource "things.v1.down.example.com"; down.example.com/v1 could not be read: down`,
		"things":                     `the server has no resource "things"; down.example.com/v1 could not be read: down`,
		"things.demo.example.com":    `the server has no resource "things.demo.example.com"`,
	} {
		if _, err := demo().Find(arg); err == nil || err.Error() != want {
			t.Errorf("Find(%q): %v, want %s", arg, err, want)
		}
	}
}

func TestAResourceThatIsNamedTwiceIsFoundOnce(t *testing.T) {
	all, err := demo().FindAll([]string{"events", "secrets", "events.events.k8s.io", "secret"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"events", "secrets"}, names(all)); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
}

func TestPatternsSelectResources(t *testing.T) {
	inv := demo()
	for name, test := range map[string]struct {
		all              bool
		include, exclude []string
		want             []string
	}{
		"nothing asked for is nothing": {},
		"all but the excluded": {all: true, exclude: []string{"*.example.com"},
			want: []string{"events", "secrets", "deployments.apps"}},
		"included only": {include: []string{"widgets.*"},
			want: []string{"widgets.demo.example.com", "widgets.other.example.com"}},
		"exclusion wins": {include: []string{"widgets.*"},
			exclude: []string{"*.demo.example.com"}, want: []string{"widgets.other.example.com"}},
		"a full name has no other group": {include: []string{"secrets"}, want: []string{"secrets"}},
		"shared storage goes by any of its names": {all: true,
			exclude: []string{"*.example.com", "events.events.k8s.io"}, want: []string{"secrets", "deployments.apps"}},
		"an exclusion that matches nothing is not a mistake": {include: []string{"secrets"},
			exclude: []string{"nothing"},
			want:    []string{"secrets"}},
		"case does not matter": {include: []string{"Secrets"}, want: []string{"secrets"}},
	} {
		t.Run(name, func(t *testing.T) {
			selected, err := inv.Select(test.all, test.include, test.exclude)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, names(selected)); diff != "" {
				t.Errorf("selected (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAPatternThatCannotBeMeantIsAnError(t *testing.T) {
	missing := (*NotFoundError)(nil)
	if _, err := demo().Select(false, []string{"secrts"}, nil); !errors.As(err, &missing) ||
		!cmp.Equal(missing.Near, []string{"secrets", "deploys.other.example.com"}) {
		t.Errorf("an include pattern that matches nothing: %v", err)
	}
	for _, patterns := range [][2][]string{{{"["}, nil}, {nil, {"["}}} {
		if _, err := demo().Select(true, patterns[0], patterns[1]); err == nil {
			t.Errorf("no error for the patterns %v", patterns)
		}
	}
}

func TestEditDistanceCountsSlipsOfTheHand(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "ab", 2}, {"widgets", "widgts", 1}, {"widegts", "widgets", 1}, {"kitten", "sitting", 3}} {
		if got := editDistance(test.a, test.b); got != test.want {
			t.Errorf("editDistance(%q, %q) = %d, want %d", test.a, test.b, got, test.want)
		}
	}
}

func names(resources []Resource) (names []string) {
	for _, r := range resources {
		names = append(names, r.String())
	}
	return names
}
