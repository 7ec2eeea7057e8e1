// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// RunTests builds kube-migrator from this tree into a folder that does not outlive the tests, stores the path of the
// binary, and runs the tests. With movable, a Clock can move its clock. It returns the exit code of the test process.
func RunTests(m *testing.M, binary *string, movable bool) (code int) {
	dir, err := os.MkdirTemp("", "kube-migrator-tests-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir) //nolint:errcheck // nothing depends on it
	*binary = filepath.Join(dir, "kube-migrator")
	ctx := context.Background() //nolint:forbidigo // a TestMain has none
	if err := buildProgram(ctx, dir, *binary, movable); err != nil {
		fmt.Fprintf(os.Stderr, "build kube-migrator: %v\n", err)
		return 1
	}
	return m.Run()
}

func buildProgram(ctx context.Context, dir, output string, movable bool) error {
	root, err := repositoryRoot()
	if err != nil {
		return err
	}
	args := []string{"build", "-tags=grpcnotrace", "-o", output}
	if movable {
		overlay, err := ClockOverlay(ctx, dir)
		if err != nil {
			return err
		}
		args = append(args, "-overlay", overlay)
	}
	command := exec.CommandContext(ctx, "go", append(args, "./cmd/kube-migrator")...)
	command.Dir = root
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}
