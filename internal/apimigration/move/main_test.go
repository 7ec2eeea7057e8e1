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
)

// garbage makes type-checking collect its garbage less often than by default: less CPU for somewhat more memory.
const garbage = 400

// TestMain gives way: these tests compile for minutes on all cores, while other packages' tests of API servers wait for
// answers.
func TestMain(m *testing.M) {
	const nice = "KUBE_MIGRATOR_TEST_IS_NICE"
	if path, err := exec.LookPath("nice"); err == nil && os.Getenv(nice) == "" {
		// It does not return where it succeeds; where it fails, the tests are merely less polite.
		syscall.Exec(path, slices.Concat([]string{"nice", "-n", "10"}, os.Args), //nolint:errcheck // see above
			append(os.Environ(), nice+"=true"))
	}
	// Without the name of its temporary folder a tree compiles to what an equal one has compiled to, in this run or
	// an earlier one, and the build cache has it.
	if os.Getenv("GOFLAGS") == "" {
		os.Setenv("GOFLAGS", "-trimpath -ldflags=-w") //nolint:errcheck // the name is valid
	}
	debug.SetGCPercent(garbage)
	os.Setenv("GOGC", strconv.Itoa(garbage)) //nolint:errcheck // the name is valid
	os.Exit(withState(m))
}

// withState runs the tests with a folder of their own for what applies note.
func withState(m *testing.M) int {
	state, err := os.MkdirTemp("", "api-migrator-state-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(state)          //nolint:errcheck // it is temporary
	os.Setenv("XDG_STATE_HOME", state) //nolint:errcheck // the name is valid
	return m.Run()
}
