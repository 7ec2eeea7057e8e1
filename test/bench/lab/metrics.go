// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// Counters are what API servers count of themselves, summed over all of a cluster.
type Counters struct {
	// Requests are those for the resource in question, watches aside; Writes are those that are not reads.
	Requests, Writes float64
	// AdmissionSteps are the runs of mutating and of validating admission, for all resources: the servers do not count
	// them by resource. Those of an idle cluster are a few in ten seconds.
	AdmissionSteps float64
	// TooMany are the answers with code 429, for all resources.
	TooMany float64
}

func (c Counters) minus(earlier Counters) Counters {
	return Counters{
		Requests: c.Requests - earlier.Requests, Writes: c.Writes - earlier.Writes,
		AdmissionSteps: c.AdmissionSteps - earlier.AdmissionSteps, TooMany: c.TooMany - earlier.TooMany,
	}
}

// Count reads the metrics of all API servers.
func (l *Lab) Count(ctx context.Context, k Kind) (c Counters, err error) {
	for _, server := range l.Cluster.Servers {
		if err := c.addServer(ctx, server, k); err != nil {
			return c, err
		}
	}
	return c, nil
}

// WritesOfEach reads how many writes each API server has answered.
func (l *Lab) WritesOfEach(ctx context.Context, k Kind) (writes []float64, err error) {
	for _, server := range l.Cluster.Servers {
		var c Counters
		if err := c.addServer(ctx, server, k); err != nil {
			return nil, err
		}
		writes = append(writes, c.Writes)
	}
	return writes, nil
}

// addServer adds the counters of one server.
func (c *Counters) addServer(ctx context.Context, server *testbed.Server, k Kind) error {
	status, metrics, err := server.Do(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return fmt.Errorf("read metrics: %w", err)
	}
	if status != http.StatusOK {
		return fmt.Errorf("read metrics: status %d", status)
	}
	c.add(string(metrics), k)
	return nil
}

// add adds the counters of one server's metrics.
func (c *Counters) add(metrics string, k Kind) {
	for line := range strings.Lines(metrics) {
		if rest, ok := strings.CutPrefix(line, "apiserver_request_total{"); ok {
			labels, n := counted(rest)
			if labels["code"] == "429" {
				c.TooMany += n
			}
			if labels["resource"] != k.Plural || labels["group"] != k.Group || labels["verb"] == "WATCH" {
				continue
			}
			c.Requests += n
			if verb := labels["verb"]; verb != "GET" && verb != "LIST" {
				c.Writes += n
			}
		}
		if rest, ok := strings.CutPrefix(line, "apiserver_admission_step_admission_duration_seconds_count{"); ok {
			_, n := counted(rest)
			c.AdmissionSteps += n
		}
	}
}

// counted takes a sample apart, from its first label on: `code="200",verb="GET"} 7`. The labels that matter here have
// no quotes or commas in their values.
func counted(sample string) (labels map[string]string, n float64) {
	pairs, value, _ := strings.Cut(sample, "} ")
	labels = map[string]string{}
	for pair := range strings.SplitSeq(pairs, ",") {
		name, quoted, _ := strings.Cut(pair, "=")
		labels[name] = strings.Trim(quoted, `"`)
	}
	n, _ = strconv.ParseFloat(strings.TrimSpace(value), 64) // what is no number counts as 0
	return labels, n
}
