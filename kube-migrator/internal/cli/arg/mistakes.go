// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package arg defines which flags, values and arguments the command line accepts, and has one phrasing for each mistake
// in them:
//
//	unknown value "x" for --output: use table, wide, json, yaml or name
//	invalid value "-1" for --max-rate: use 0 or more objects per second
//	--export and --dry-run cannot be used together
//	--schema-from needs --rescue
//	RESOURCE or --all is missing
//	unexpected argument "x"
package arg

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
)

// ValueError says which values a flag accepts.
type ValueError struct {
	problem string // unknown if the values are a few words, otherwise invalid
	use     string // the values that are accepted
}

func (e *ValueError) Error() string { return e.problem + " value: use " + e.use }

// Of returns the error for a flag or an argument.
func (e *ValueError) Of(name, value string) error {
	return fmt.Errorf("%s value %q for %s: use %s", e.problem, value, name, e.use)
}

// Unknown returns the error for a value that is not one of a few words.
func Unknown(words []string) *ValueError { return &ValueError{"unknown", either(words)} }

// UnknownValue returns the error for a value that is not among those that use describes.
func UnknownValue(command *cobra.Command, flag, value, use string) error {
	return exit.Usage(command, (&ValueError{"unknown", use}).Of("--"+flag, value))
}

// Invalid returns the error for a value that only the command can judge.
func Invalid(command *cobra.Command, flag, value, use string) error {
	return exit.Usage(command, (&ValueError{"invalid", use}).Of("--"+flag, value))
}

// ParseError rephrases an error of pflag.
func ParseError(err error) error {
	refused, why := (*pflag.InvalidValueError)(nil), (*ValueError)(nil)
	switch {
	case !errors.As(err, &refused):
		return err
	case errors.As(err, &why):
	case refused.GetFlag().Value.Type() == "bool":
		why = &ValueError{"invalid", "true or false"}
	default:
		return fmt.Errorf("invalid value %q for --%s: %w", refused.GetValue(), refused.GetFlag().Name,
			errors.Unwrap(refused))
	}
	return why.Of("--"+refused.GetFlag().Name, refused.GetValue())
}

// Exclusive returns an error if more than one of several flags was given. The name RESOURCE stands for the arguments.
func Exclusive(command *cobra.Command, names ...string) error {
	given := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !isGiven(command, name) })
	if len(given) < 2 {
		return nil
	}
	return exit.Usage(command, fmt.Errorf("%s and %s cannot be used together", display(given[0]), display(given[1])))
}

// Needs returns an error if a flag was given without any of the others.
func Needs(command *cobra.Command, name string, others ...string) error {
	if !isGiven(command, name) || slices.ContainsFunc(others, func(other string) bool {
		return isGiven(command, other)
	}) {
		return nil
	}
	return exit.Usage(command, fmt.Errorf("%s needs %s", display(name), either(displayed(others))))
}

// Missing returns the error for a command line without any of several flags and arguments.
func Missing(command *cobra.Command, names ...string) error {
	return exit.Usage(command, fmt.Errorf("%s is missing", either(displayed(names))))
}

// Unexpected returns the error for an argument that the command does not take.
func Unexpected(command *cobra.Command, argument string) error {
	return exit.Usage(command, fmt.Errorf("unexpected argument %q", argument))
}

// None returns an error if there is an argument.
func None(command *cobra.Command, args []string) error {
	if len(args) > 0 {
		return Unexpected(command, args[0])
	}
	return nil
}

// One returns an error unless there is exactly one argument.
func One(name string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return Missing(command, name)
		case 1:
			return nil
		}
		return Unexpected(command, args[1])
	}
}

// Resource is the argument that names resources, as --help shows it. Flags have lower-case names.
const Resource = "RESOURCE"

func isGiven(command *cobra.Command, name string) bool {
	if name == Resource {
		return command.Flags().NArg() > 0
	}
	return command.Flags().Changed(name)
}

func display(name string) string {
	if name == strings.ToUpper(name) {
		return name
	}
	return "--" + name
}

func displayed(names []string) []string {
	all := slices.Clone(names)
	for i, name := range all {
		all[i] = display(name)
	}
	return all
}

// either lists words: "a, b or c".
func either(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// Patterns returns an error for the first pattern that is not valid.
func Patterns(patterns []string) error {
	for _, pattern := range patterns {
		if _, err := path.Match(pattern, ""); err != nil {
			return fmt.Errorf("read pattern %q: %w", pattern, err)
		}
	}
	return nil
}
