// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package makefile reads lines of Makefiles and of shell scripts with the values of the variables that they set.
//
// It runs nothing and reads no other files: what a variable holds that is set elsewhere, or that a program computes, is
// not known and stays as it is written.
package makefile

import (
	"regexp"
	"strings"
)

var (
	assignment = regexp.MustCompile(`(?m)^(?:export\s+)?(\w+)\s*[:?]?=[ \t]*(.*)$`)
	anyRule    = regexp.MustCompile(`^[^\s#=][^=]*:(?:[^=]|$)`)
	namedRule  = regexp.MustCompile(`^([\w./-]+)[^:=]*:(?:[^=]|$)`)
	variable   = regexp.MustCompile(`\$(?:\((@|\w+)\)|\{(@|\w+)\}|(@|\w+))`)
	// ownFolder is how a Makefile names its own folder, in which make runs commands.
	ownFolder = regexp.MustCompile(`\$[({](?:CURDIR|PWD)[)}]|\$\(shell pwd\)|\$\$\(pwd\)|\$\$(?:PWD\b|\{PWD\})|` +
		`\$\(shell dirname \$\(abspath \$\(lastword \$\(MAKEFILE_LIST\)\)\)\)`)
)

// EachCommand calls do for the lines of commands in a Makefile, each with its target. Variables that the Makefile sets,
// the target ($@), and the Makefile's folder stand as their values. Commands of pattern rules (%.yaml) are left out.
func EachCommand(text string, do func(target, line string)) {
	text = ownFolder.ReplaceAllString(JoinLines(text), ".")
	values := Assignments(text)
	target := ""
	for line := range strings.Lines(text) {
		if rule := Expand(line, values); anyRule.MatchString(rule) {
			target = ""
			if named := namedRule.FindStringSubmatch(rule); named != nil {
				target = named[1]
			}
			values["@"] = target
		}
		if strings.HasPrefix(line, "\t") && target != "" {
			do(target, Expand(line, values))
		}
	}
}

// Rule is what a target needs and runs.
type Rule struct {
	Needs    []string // targets
	Commands []string
}

// Rules are those of a Makefile, by their targets, with values in the place of variables.
func Rules(text string) map[string]Rule {
	rules := map[string]Rule{}
	joined := ownFolder.ReplaceAllString(JoinLines(text), ".")
	values := Assignments(joined)
	for line := range strings.Lines(joined) {
		line = Expand(line, values)
		if !anyRule.MatchString(line) {
			continue
		}
		targets, needs, _ := strings.Cut(line, ":")
		needs, _, _ = strings.Cut(strings.TrimPrefix(needs, ":"), "#")
		needs, _, _ = strings.Cut(needs, ";")
		for target := range strings.FieldsSeq(targets) {
			rule := rules[target]
			rule.Needs = append(rule.Needs, strings.Fields(strings.ReplaceAll(needs, "|", " "))...)
			rules[target] = rule
		}
	}
	EachCommand(text, func(target, line string) {
		rule := rules[target]
		rule.Commands = append(rule.Commands, line)
		rules[target] = rule
	})
	return rules
}

// JoinLines puts a command that goes on in the next line on one.
func JoinLines(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\\\n", " ")
}

// Statement is a command, an assignment or a rule, with the lines that it goes on in.
type Statement struct {
	Lines []string
	First int // the number of its first line, from 1
}

// Text is the whole of it on one line.
func (s Statement) Text() string { return strings.Join(s.Lines, " ") }

// Statements are those of a Makefile or of a shell script. Their lines stand without the backslashes that join them.
func Statements(text string) []Statement {
	var all []Statement
	goesOn := false
	for i, line := range strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		if !goesOn {
			all = append(all, Statement{First: i + 1})
		}
		line, goesOn = strings.CutSuffix(line, `\`)
		last := &all[len(all)-1]
		last.Lines = append(last.Lines, line)
	}
	return all
}

// Assignments are the values of variables. If one is set several times, the last value counts.
func Assignments(text string) map[string]string {
	values := map[string]string{}
	for _, one := range assignment.FindAllStringSubmatch(text, -1) {
		value, _, _ := strings.Cut(one[2], " #")
		values[one[1]] = strings.Trim(strings.TrimSpace(value), `"'`)
	}
	return values
}

// Expand puts the values of variables into a line. Values may have variables, too.
func Expand(line string, values map[string]string) string {
	const depth = 4
	for range depth {
		line = variable.ReplaceAllStringFunc(line, func(found string) string {
			if value, ok := values[strings.Trim(found, "${}()")]; ok {
				return value
			}
			return found
		})
	}
	return line
}
