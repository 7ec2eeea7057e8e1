// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package phrase

import "testing"

func TestNumbersAndNamesInSentences(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		Objects(0):                             "0 objects",
		Objects(1):                             "1 object",
		Count(2, "entry", "entries"):           "2 entries",
		Few(nil):                               "",
		Few([]string{"a", "b", "c", "d", "e"}): "a, b, c, d, e",
		Few([]string{"a", "b", "c", "d", "e", "f", "g"}): "a, b, c, d, e and 2 more",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
