// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package report

import "slices"

// Rule says what to compare in each case and round.
type Rule struct {
	// Name says what the ratio is.
	Name string
	// Case restricts the rule to one case; "" is all.
	Case   string
	Figure Figure
	// Of is compared with the best of Others: the highest, or with Lowest the lowest. OthersFigure is theirs; empty means
	// Figure.
	Of           string
	Others       []string
	OthersFigure Figure
	Lowest       bool
	// ToCase compares with the others in another case; "" compares within the case.
	ToCase string
	// Target of the median: at least, or with AtMost at most. 0 means that there is none.
	Target float64
	AtMost bool
	// Digits after the point in tables. 0 means two.
	Digits int
}

// Ratio is what came of a rule in one case.
type Ratio struct {
	Name    string    `json:"name"`
	Case    string    `json:"case"`
	Rounds  []float64 `json:"rounds"`
	Median  float64   `json:"median"`
	Lowest  float64   `json:"lowest"`
	Highest float64   `json:"highest"`
	// Target of the median; 0 is none. AtMost: it is to be at most the target, otherwise at least.
	Target  float64 `json:"target,omitempty"`
	AtMost  bool    `json:"atMost,omitempty"`
	Reached bool    `json:"reached,omitempty"`
	// Digits after the point in tables. 0 means two.
	Digits int `json:"digits,omitempty"`
}

// Compare computes the ratios of rules, each from the measurements of one round, in which the cluster was the same.
func (r *Report) Compare(rules ...Rule) {
	for _, rule := range rules {
		for _, name := range r.cases() {
			if rule.Case != "" && rule.Case != name {
				continue
			}
			if ratio, ok := r.compare(rule, name); ok {
				r.Ratios = append(r.Ratios, ratio)
			}
		}
	}
}

func (r *Report) compare(rule Rule, name string) (Ratio, bool) {
	ratio := Ratio{Name: rule.Name, Case: name, Target: rule.Target, AtMost: rule.AtMost, Digits: rule.Digits}
	if rule.OthersFigure == "" {
		rule.OthersFigure = rule.Figure
	}
	if rule.ToCase == "" {
		rule.ToCase = name
	}
	for _, m := range r.of(name, rule.Of) {
		mine, measured := m.Figures[rule.Figure]
		if !measured || m.Round == 0 {
			continue
		}
		var others []float64
		for _, other := range r.Measurements {
			value, measured := other.Figures[rule.OthersFigure]
			if measured && other.Case == rule.ToCase && other.Round == m.Round &&
				slices.Contains(rule.Others, other.Contestant) {
				others = append(others, value)
			}
		}
		if len(others) == 0 {
			continue
		}
		best := slices.Max(others)
		if rule.Lowest {
			best = slices.Min(others)
		}
		if best > 0 {
			ratio.Rounds = append(ratio.Rounds, mine/best)
		}
	}
	if len(ratio.Rounds) == 0 {
		return ratio, false
	}
	ratio.Median, ratio.Lowest = median(ratio.Rounds), slices.Min(ratio.Rounds)
	ratio.Highest = slices.Max(ratio.Rounds)
	if rule.Target > 0 {
		ratio.Reached = ratio.Median >= rule.Target
		if rule.AtMost {
			ratio.Reached = ratio.Median <= rule.Target
		}
	}
	return ratio, true
}
