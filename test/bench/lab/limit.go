// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// limitPeriod is the period in which a limited process gets its share of a processor: the kernel's default.
const limitPeriod = 100 * time.Millisecond

// LimitCPU gives each API server a share of a processor, such as 0.3, by a CPU quota: in a cgroup of its own, within
// one that is below the cgroup of this process and is removed with the lab. It needs root and a cpu controller, of
// cgroup v1 or v2.
func (l *Lab) LimitCPU(share float64) error {
	parent, v2, err := ownCgroup()
	if err != nil {
		return fmt.Errorf("limit the CPU of API servers: %w", err)
	}
	limits := &limits{parent: parent, dir: filepath.Join(parent, fmt.Sprintf("kube-migrator-bench-%d", os.Getpid()))}
	l.limits = limits
	if err := limits.make(limits.dir); err != nil {
		return fmt.Errorf("limit the CPU of API servers (root can): %w", err)
	}
	quota := strconv.Itoa(int(share * float64(limitPeriod.Microseconds())))
	period := strconv.Itoa(int(limitPeriod.Microseconds()))
	if v2 {
		if err := limits.set(limits.dir, "cgroup.subtree_control", "+cpu"); err != nil {
			return err
		}
	}
	for i, server := range l.Cluster.Servers {
		dir := filepath.Join(limits.dir, fmt.Sprintf("api-%d", i))
		err := limits.make(dir)
		if err == nil && v2 {
			err = limits.set(dir, "cpu.max", quota+" "+period)
		} else if err == nil {
			err = errors.Join(limits.set(dir, "cpu.cfs_period_us", period), limits.set(dir, "cpu.cfs_quota_us", quota))
		}
		if err == nil {
			err = limits.set(dir, "cgroup.procs", strconv.Itoa(server.PID()))
		}
		if err != nil {
			return fmt.Errorf("limit the CPU of API server %d: %w", i, err)
		}
	}
	return nil
}

// limits are the cgroups of a lab.
type limits struct {
	parent, dir string
	made        []string
}

func (l *limits) make(dir string) error {
	err := os.Mkdir(dir, 0o755)
	if err == nil {
		l.made = append(l.made, dir)
	}
	return err
}

func (l *limits) set(dir, file, value string) error {
	return os.WriteFile(filepath.Join(dir, file), []byte(value), 0)
}

// remove removes the cgroups. Their processes have ended, or go back to where this process is.
func (l *limits) remove() {
	if l == nil {
		return
	}
	for _, dir := range slices.Backward(l.made) {
		for range 50 { // a process that has ended may be there for a moment
			pids, _ := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
			for pid := range strings.FieldsSeq(string(pids)) {
				_ = l.set(l.parent, "cgroup.procs", pid)
			}
			if err := os.Remove(dir); err == nil || errors.Is(err, os.ErrNotExist) {
				break
			}
			_ = Pause(context.Background(), 20*time.Millisecond) // also after the context of the benchmark has ended
		}
	}
	l.made = nil
}

// ownCgroup returns the folder of the cgroup of this process whose children can have a CPU quota.
func ownCgroup() (dir string, v2 bool, err error) {
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", false, err
	}
	paths := map[string]string{} // by controller; "" is v2
	for line := range strings.Lines(string(own)) {
		if fields := strings.SplitN(strings.TrimSpace(line), ":", 3); len(fields) == 3 {
			for controller := range strings.SplitSeq(fields[1], ",") {
				paths[controller] = fields[2]
			}
		}
	}
	mounts, err := os.Open("/proc/self/mounts")
	if err != nil {
		return "", false, err
	}
	defer mounts.Close()
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 {
			continue
		}
		path, isV1 := paths["cpu"]
		switch {
		case fields[2] == "cgroup" && isV1 && slices.Contains(strings.Split(fields[3], ","), "cpu"):
			return filepath.Join(fields[1], path), false, nil
		case fields[2] == "cgroup2" && !isV1:
			dir = filepath.Join(fields[1], paths[""])
			delegated, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
			if err != nil || !slices.Contains(strings.Fields(string(delegated)), "cpu") {
				return "", false, fmt.Errorf("the children of the cgroup %s have no cpu controller", dir)
			}
			return dir, true, nil
		}
	}
	return "", false, errors.New("no cgroup with a cpu controller is mounted")
}
