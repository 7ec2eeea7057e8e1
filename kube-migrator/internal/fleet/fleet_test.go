// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/fleet"
)

func TestPatternsSelectNamesInOrderAndEachOnce(t *testing.T) {
	t.Parallel()
	names := []string{"prod-2", "arn:aws:eks:eu:1:cluster/prod-9", "canary-b", "prod-1", "canary-a", "prod-10"}
	for _, c := range []struct {
		patterns []string
		want     [][]string
	}{
		{[]string{"prod-*"}, [][]string{{"prod-1", "prod-10", "prod-2"}}},
		{[]string{"canary-*", "*"}, [][]string{{"canary-a", "canary-b"},
			{"arn:aws:eks:eu:1:cluster/prod-9", "prod-1", "prod-10", "prod-2"}}},
		{[]string{"prod-2", "prod-?"}, [][]string{{"prod-2"}, {"prod-1"}}},
		{[]string{"*prod-9"}, [][]string{{"arn:aws:eks:eu:1:cluster/prod-9"}}},
		{[]string{"prod-1", "prod-1"}, [][]string{{"prod-1"}, nil}},
	} {
		got, err := fleet.Select(names, c.patterns)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", c.patterns, err, diff)
		}
	}
}

func TestAPatternThatMatchesNothingIsAnError(t *testing.T) {
	t.Parallel()
	_, err := fleet.Select([]string{"prod-1", "dev"}, []string{"prod-*", "stage-*"})
	if none := (*fleet.NoMatchError)(nil); !errors.As(err, &none) || none.Pattern != "stage-*" || none.Of != 2 {
		t.Errorf("%v, want that stage-* matches none of 2 names", err)
	}
	if _, err := fleet.Select([]string{"prod-1"}, []string{"["}); !errors.Is(err, path.ErrBadPattern) {
		t.Errorf("%v, want a bad pattern", err)
	}
}

func TestAWaveHasNoClustersOfTwoPatterns(t *testing.T) {
	t.Parallel()
	got := fleet.Waves([][]string{{"canary-a", "canary-b", "canary-c"}, nil, {"prod-1", "prod-2"}}, 2)
	want := [][]string{{"canary-a", "canary-b"}, {"canary-c"}, {"prod-1", "prod-2"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

const clusters, parallel, timeout = 500, 10, time.Minute

var errRefused = errors.New("refused")

// simulated is a fleet in virtual time: of seven clusters, one is slow, one fails, one does not answer until its context
// ends, one does not even notice that, and one panics.
type simulated struct{ release chan struct{} }

func (s *simulated) ask(ctx context.Context, i int) (string, error) {
	switch i % 7 {
	case 1:
		time.Sleep(30 * time.Second)
	case 2:
		return "", errRefused
	case 3:
		<-ctx.Done()
		return "", fmt.Errorf("read: %w", ctx.Err())
	case 4:
		<-s.release
	case 5:
		panic("a defect")
	default:
		time.Sleep(time.Second)
	}
	return fmt.Sprintf("answer of %d", i), nil
}

// kind says in one word what a result is.
func kind(r fleet.Result[string]) string {
	late, panicked := (*fleet.TimeoutError)(nil), (*fleet.PanicError)(nil)
	switch {
	case errors.As(r.Err, &late):
		return "late"
	case errors.As(r.Err, &panicked):
		return "panic"
	case errors.Is(r.Err, fleet.ErrNotStarted):
		return "not started"
	case errors.Is(r.Err, context.Canceled):
		return "interrupted"
	case errors.Is(r.Err, errRefused):
		return "refused"
	case r.Err != nil:
		return r.Err.Error()
	}
	return r.Value
}

func TestEachOf500ClustersCostsItselfAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &simulated{release: make(chan struct{})}
		results := fleet.Run(t.Context(), clusters, fleet.Options{Parallel: parallel, Timeout: timeout}, s.ask)
		close(s.release)
		synctest.Wait()
		if len(results) != clusters {
			t.Fatalf("%d results", len(results))
		}
		for i, r := range results {
			answer := fmt.Sprintf("answer of %d", i)
			want := []string{answer, answer, "refused", "late", "late", "panic", answer}[i%7]
			if got := kind(r); got != want {
				t.Errorf("cluster %d: %s, want %s", i, got, want)
			}
		}
		if panicked := (*fleet.PanicError)(nil); !errors.As(results[5].Err, &panicked) ||
			!strings.Contains(string(panicked.Stack), "ask") {
			t.Errorf("%v, want the stack of the panic", results[5].Err)
		}
	})
}

func TestNoMoreClustersThanTheBoundAreAskedAtTheSameTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var working, most atomic.Int64
		fleet.Run(t.Context(), clusters, fleet.Options{Parallel: parallel},
			func(context.Context, int) (string, error) {
				most.Store(max(most.Load(), working.Add(1)))
				time.Sleep(time.Second)
				working.Add(-1)
				return "", nil
			})
		if most.Load() != parallel {
			t.Errorf("%d clusters were asked at the same time, want %d", most.Load(), parallel)
		}
	})
}

func TestAnInterruptKeepsWhatIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		started := 0
		results := fleet.Run(ctx, clusters, fleet.Options{Parallel: 1, Timeout: timeout},
			func(ctx context.Context, i int) (string, error) {
				started++
				if i == 3 {
					cancel()
					return "", ctx.Err()
				}
				return "answered", nil
			})
		for i, r := range results {
			want := "not started"
			if i < 3 {
				want = "answered"
			} else if i == 3 {
				want = "interrupted"
			}
			if got := kind(r); got != want {
				t.Errorf("cluster %d: %s, want %s", i, got, want)
			}
		}
		if started != 4 {
			t.Errorf("%d clusters were asked, want 4", started)
		}
	})
}

func TestWorkThatIgnoresAnInterruptIsAbandoned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		release, hangs := make(chan struct{}), make(chan struct{})
		results := fleet.Run(ctx, 2, fleet.Options{Parallel: 2}, func(_ context.Context, i int) (string, error) {
			if i == 0 {
				<-hangs
				cancel()
				return "answered", nil
			}
			close(hangs)
			<-release
			return "too late", nil
		})
		close(release)
		synctest.Wait()
		if got := kind(results[0]) + ", " + kind(results[1]); got != "answered, interrupted" {
			t.Error(got)
		}
	})
}
