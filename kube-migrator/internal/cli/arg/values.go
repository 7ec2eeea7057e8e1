// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package arg

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	apiresource "k8s.io/apimachinery/pkg/api/resource"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/render"
	"github.com/kube-migrator/kube-migrator/migrate"
)

// Output adds -o with the formats that the command offers, of which the first is the default.
func Output(flags *pflag.FlagSet, into *render.Format, offered ...render.Format) {
	words := make([]string, len(offered))
	for i, format := range offered {
		words[i] = string(format)
	}
	wordVarP(flags, into, "output", "o", offered[0], "Output format: "+either(words), offered...)
}

// Word adds a flag that takes one of a few words.
func Word[T ~string](flags *pflag.FlagSet, into *T, name string, value T, usage string, words ...T) {
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
		return Unknown(v.words)
	}
	*v.into = T(text)
	return nil
}

// Evidence adds --min-evidence.
func Evidence(flags *pflag.FlagSet, into *migrate.Evidence) {
	*into = migrate.Verified
	flags.Var(evidenceValue{into}, "min-evidence",
		"Weakest evidence that proves anything: declared, observed, verified or sampled")
}

// FieldLoss adds the flag that names fields which may be lost. Without a value it stands for every field.
func FieldLoss(flags *pflag.FlagSet, into *[]string) {
	const name = "accept-field-loss"
	flags.StringSliceVar(into, name, nil,
		"Rewrite objects even if they lose these fields, such as spec.size, with all fields below them (without a "+
			"value: whatever they lose)")
	flags.Lookup(name).NoOptDefVal = "*"
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
	for _, e := range []migrate.Evidence{migrate.Declared, migrate.Observed, migrate.Verified, migrate.Sampled} {
		if strings.EqualFold(text, e.String()) {
			*v.into = e
			return nil
		}
		words = append(words, strings.ToLower(e.String()))
	}
	return Unknown(words)
}

// numeric are the types of flags that count something.
type numeric interface {
	~int | ~int32 | ~int64 | ~float64
}

// Within contains the bounds of a number, and its unit in the plural.
type Within[T numeric] struct {
	Least, Most T // 0 as Most means no upper bound
	Unit        string
}

// Number adds a flag that takes a number within bounds. It takes whole numbers only, unless T is float64.
func Number[T numeric](flags *pflag.FlagSet, into *T, name string, value T, bounds Within[T], usage string) {
	*into = value
	flags.Var(&numberValue[T]{into, bounds}, name, usage)
}

type numberValue[T numeric] struct {
	into   *T
	bounds Within[T]
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
	if b := v.bounds; err != nil || number < b.Least || b.Most != 0 && number > b.Most {
		return &ValueError{"invalid", b.String()}
	}
	*v.into = number
	return nil
}

// String says which numbers are within the bounds.
func (b Within[T]) String() string {
	if b.Most != 0 {
		return fmt.Sprintf("%v to %v %s", b.Least, b.Most, b.Unit)
	}
	return fmt.Sprintf("%v or more %s", b.Least, b.Unit)
}

// Bandwidth adds --max-bandwidth, which takes a quantity of bytes.
func Bandwidth(flags *pflag.FlagSet, into *int64, usage string) {
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
		return &ValueError{"invalid", fmt.Sprintf("0 to %d bytes per second, such as 500k or 10Mi",
			int64(v1alpha1.MostBytesPerSecond))}
	}
	*v.into = quantity.Value()
	return nil
}

// Duration adds a flag that takes a duration. A least of one nanosecond stands for more than 0.
func Duration(flags *pflag.FlagSet, into *time.Duration, name string, value, least time.Duration, usage string) {
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
	return 0, &ValueError{"invalid", "a duration of " + bound + ", such as 30s or 5m"}
}
