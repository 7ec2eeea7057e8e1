// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package source

import "strings"

// MarkerArgument is one of key=a;b in a marker.
type MarkerArgument struct {
	Key    string
	Values []string
	// From and To are where it stands in the text of the arguments.
	From, To int
}

// MarkerArguments splits a marker into its arguments; commas in quotes and braces do not separate.
func MarkerArguments(text string) []MarkerArgument {
	var list []MarkerArgument
	for from := 0; from < len(text); {
		end, depth, quoted := len(text), 0, false
		for i, r := range text[from:] {
			switch {
			case r == '"':
				quoted = !quoted
			case r == '{' && !quoted:
				depth++
			case r == '}' && !quoted:
				depth--
			case r == ',' && !quoted && depth == 0:
				end = min(end, from+i)
			}
		}
		key, value, _ := strings.Cut(text[from:end], "=")
		separator := ";"
		if strings.HasPrefix(value, "{") {
			separator = ","
		}
		var values []string
		for one := range strings.SplitSeq(strings.Trim(value, "{}"), separator) {
			values = append(values, strings.Trim(strings.TrimSpace(one), `"`))
		}
		list = append(list, MarkerArgument{Key: strings.TrimSpace(key), Values: values, From: from, To: end})
		from = end + 1
	}
	return list
}

// ValuesOf are the values of an argument; none without it.
func ValuesOf(arguments []MarkerArgument, key string) []string {
	for _, argument := range arguments {
		if argument.Key == key {
			return argument.Values
		}
	}
	return nil
}
