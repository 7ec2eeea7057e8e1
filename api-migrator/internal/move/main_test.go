// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/fixture"
)

// garbage makes type-checking collect its garbage less often than by default: less CPU for somewhat more memory.
const garbage = 400

// TestMain lowers the priority: these tests compile for minutes on all cores, while tests of other packages wait for
// answers of API servers.
func TestMain(m *testing.M) {
	const nice = "KUBE_MIGRATOR_TEST_IS_NICE"
	if path, err := exec.LookPath("nice"); err == nil && os.Getenv(nice) == "" {
		// Exec returns only if it fails. Then the tests run with the usual priority.
		syscall.Exec(path, slices.Concat([]string{"nice", "-n", "10"}, os.Args), //nolint:errcheck // see above
			append(os.Environ(), nice+"=true"))
	}
	// Compiled without the name of its temporary folder, a tree gives the same output as an equal one in this run or an
	// earlier one, which is in the build cache.
	if os.Getenv("GOFLAGS") == "" {
		os.Setenv("GOFLAGS", "-trimpath -ldflags=-w") //nolint:errcheck // the name is valid
	}
	debug.SetGCPercent(garbage)
	os.Setenv("GOGC", strconv.Itoa(garbage)) //nolint:errcheck // the name is valid
	os.Exit(fixture.RunTests(m))
}
