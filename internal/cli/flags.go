// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// A flag refuses a value when it is parsed, and says what it takes. Whatever the command, one mistake has one phrasing:
//
//	unknown value "x" for --output: use table, wide, json, yaml or name
//	invalid value "-1" for --max-rate: use 0 or more objects per second
//	--export and --dry-run exclude each other
//	--schema-from needs --rescue
//	RESOURCE or --all is missing
//	unexpected argument "x"

// valueError is why a flag does not take a value.
type valueError struct {
	problem string // unknown, where the values are a few words; else invalid
	use     string // what it takes
}

func (e *valueError) Error() string { return e.problem + " value: use " + e.use }

// of is the error for a flag or an argument.
func (e *valueError) of(name, value string) error {
	return fmt.Errorf("%s value %q for %s: use %s", e.problem, value, name, e.use)
}

func unknown(words []string) *valueError { return &valueError{"unknown", either(words)} }

// invalidValue is the error for a value that only the command can judge.
func invalidValue(command *cobra.Command, flag, value, use string) error {
	return usageError(command, (&valueError{"invalid", use}).of("--"+flag, value))
}

// flagError gives an error of parsing flags the phrasing of this command line.
func flagError(err error) error {
	refused, why := (*pflag.InvalidValueError)(nil), (*valueError)(nil)
	switch {
	case !errors.As(err, &refused):
		return err
	case errors.As(err, &why):
	case refused.GetFlag().Value.Type() == "bool":
		why = &valueError{"invalid", "true or false"}
	default:
		return fmt.Errorf("invalid value %q for --%s: %w", refused.GetValue(), refused.GetFlag().Name,
			errors.Unwrap(refused))
	}
	return why.of("--"+refused.GetFlag().Name, refused.GetValue())
}

// exclusive refuses the first two of several flags that were given. The name RESOURCE stands for the arguments.
func exclusive(command *cobra.Command, names ...string) error {
	given := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !isGiven(command, name) })
	if len(given) < 2 {
		return nil
	}
	return usageError(command, fmt.Errorf("%s and %s exclude each other", display(given[0]), display(given[1])))
}

// needs refuses a flag that was given without any of the others.
func needs(command *cobra.Command, name string, others ...string) error {
	if !isGiven(command, name) || slices.ContainsFunc(others, func(other string) bool {
		return isGiven(command,
			other)
	}) {
		return nil
	}
	return usageError(command, fmt.Errorf("%s needs %s", display(name), either(displayed(others))))
}

// missing is the error where none of several flags and arguments was given.
func missing(command *cobra.Command, names ...string) error {
	return usageError(command, fmt.Errorf("%s is missing", either(displayed(names))))
}

// unexpected is the error for an argument too many.
func unexpected(command *cobra.Command, argument string) error {
	return usageError(command, fmt.Errorf("unexpected argument %q", argument))
}

// noArguments refuses arguments.
func noArguments(command *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unexpected(command, args[0])
	}
	return nil
}

// oneArgument asks for exactly one.
func oneArgument(name string) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return missing(command, name)
		case 1:
			return nil
		}
		return unexpected(command, args[1])
	}
}

// resource is the argument that names resources, as help shows it. Flags have lower-case names.
const resource = "RESOURCE"

func isGiven(command *cobra.Command, name string) bool {
	if name == resource {
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

// outputVar adds -o with the formats that the command offers, of which the first is the default.
func outputVar(flags *pflag.FlagSet, into *render.Format, offered ...render.Format) {
	words := make([]string, len(offered))
	for i, format := range offered {
		words[i] = string(format)
	}
	wordVarP(flags, into, "output", "o", offered[0], "Output format: "+either(words), offered...)
}

// wordVar adds a flag that takes one of a few words.
func wordVar[T ~string](flags *pflag.FlagSet, into *T, name string, value T, usage string, words ...T) {
	wordVarP(flags, into, name, "", value, usage, words...)
}

func wordVarP[T ~string](flags *pflag.FlagSet, into *T, name, shorthand string, value T, usage string, words ...T) {
	*into = value
	v := &wordValue[T]{into: into}
	for _, word := range words {
		v.words = append(v.words, string(word))
	}
	flags.VarP(v, name, shorthand, usage)
}

type wordValue[T ~string] struct {
	into  *T
	words []string
}

func (v *wordValue[T]) Type() string { return "word" }

func (v *wordValue[T]) String() string {
	if v.into == nil {
		return ""
	}
	return string(*v.into)
}

func (v *wordValue[T]) Set(text string) error {
	if !slices.Contains(v.words, text) {
		return unknown(v.words)
	}
	*v.into = T(text)
	return nil
}

// evidenceVar adds --min-evidence.
func evidenceVar(flags *pflag.FlagSet, into *migrate.Evidence) {
	*into = migrate.Observed
	flags.Var(evidenceValue{into}, "min-evidence",
		"Weakest evidence that proves anything: declared, observed or sampled")
}

type evidenceValue struct{ into *migrate.Evidence }

func (v evidenceValue) Type() string { return "word" }

func (v evidenceValue) String() string {
	if v.into == nil || *v.into == 0 {
		return ""
	}
	return strings.ToLower(v.into.String())
}

func (v evidenceValue) Set(text string) error {
	var words []string
	for _, e := range []migrate.Evidence{migrate.Declared, migrate.Observed, migrate.Sampled} {
		if strings.EqualFold(text, e.String()) {
			*v.into = e
			return nil
		}
		words = append(words, strings.ToLower(e.String()))
	}
	return unknown(words)
}

// numeric are the types of flags that count something.
type numeric interface {
	~int | ~int32 | ~int64 | ~float64
}

// within are the bounds of a number, and its unit in the plural.
type within[T numeric] struct {
	least, most T // most 0: any
	unit        string
}

// numberVar adds a flag that takes a number within bounds: a whole one unless T is a float64.
func numberVar[T numeric](flags *pflag.FlagSet, into *T, name string, value T, bounds within[T], usage string) {
	*into = value
	flags.Var(&numberValue[T]{into, bounds}, name, usage)
}

type numberValue[T numeric] struct {
	into   *T
	bounds within[T]
}

func (v *numberValue[T]) isWhole() bool { return T(1)/T(2) == 0 }

func (v *numberValue[T]) Type() string {
	if v.isWhole() {
		return "int"
	}
	return "float"
}

func (v *numberValue[T]) String() string {
	if v.into == nil {
		return ""
	}
	return fmt.Sprint(*v.into)
}

func (v *numberValue[T]) Set(text string) error {
	var number T
	var err error
	if v.isWhole() {
		var n int64
		n, err = strconv.ParseInt(text, 10, 64)
		if number = T(n); int64(number) != n {
			err = strconv.ErrRange
		}
	} else {
		var f float64
		f, err = strconv.ParseFloat(text, 64)
		if number = T(f); math.IsNaN(f) || math.IsInf(f, 0) {
			err = strconv.ErrRange
		}
	}
	if b := v.bounds; err != nil || number < b.least || b.most != 0 && number > b.most {
		return &valueError{"invalid", b.String()}
	}
	*v.into = number
	return nil
}

// String says which numbers are within the bounds.
func (b within[T]) String() string {
	if b.most != 0 {
		return fmt.Sprintf("%v to %v %s", b.least, b.most, b.unit)
	}
	return fmt.Sprintf("%v or more %s", b.least, b.unit)
}

// bandwidthVar adds --max-bandwidth, which takes a quantity of bytes.
func bandwidthVar(flags *pflag.FlagSet, into *int64, usage string) {
	flags.Var(bytesValue{into}, "max-bandwidth", usage)
}

type bytesValue struct{ into *int64 }

func (v bytesValue) Type() string { return "quantity" }

func (v bytesValue) String() string {
	if v.into == nil {
		return "0"
	}
	return strconv.FormatInt(*v.into, 10)
}

func (v bytesValue) Set(text string) error {
	quantity, err := apiresource.ParseQuantity(text)
	if err != nil || quantity.Sign() < 0 || quantity.CmpInt64(v1alpha1.MostBytesPerSecond) > 0 {
		return &valueError{"invalid", fmt.Sprintf("0 to %d bytes per second, such as 500k or 10Mi",
			int64(v1alpha1.MostBytesPerSecond))}
	}
	*v.into = quantity.Value()
	return nil
}

// durationVar adds a flag that takes a duration. A least of one nanosecond stands for more than 0.
func durationVar(flags *pflag.FlagSet, into *time.Duration, name string, value, least time.Duration, usage string) {
	*into = value
	flags.Var(durationValue{into, least}, name, usage)
}

type durationValue struct {
	into  *time.Duration
	least time.Duration
}

func (v durationValue) Type() string { return "duration" }

func (v durationValue) String() string {
	if v.into == nil {
		return "0s"
	}
	return v.into.String()
}

func (v durationValue) Set(text string) error {
	d, err := parseDuration(text, v.least)
	if err == nil {
		*v.into = d
	}
	return err
}

// parseDuration returns the error that a flag for durations answers with.
func parseDuration(text string, least time.Duration) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil && d >= least {
		return d, nil
	}
	bound := least.String() + " or more"
	if least == time.Nanosecond {
		bound = "more than 0s"
	}
	return 0, &valueError{"invalid", "a duration of " + bound + ", such as 30s or 5m"}
}
