// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build long

package aggregated

import (
	"strconv"
	"syscall"
	"testing"
	"time"
)

// canaryLife is how long a canary lives.
const canaryLife = 2 * time.Minute

// What happens to the replicas of an aggregated API server in a long life, under constant writes.
func TestTheLifeOfAnAggregatedAPIServer(t *testing.T) {
	for _, s := range servers {
		t.Run(s.command, func(t *testing.T) { live(t, s) })
	}
}

func live(t *testing.T, s server) {
	whole := newFleet(t, s)
	whole.controller("--max-rate=20")
	w, stop := whole.watch(true)
	replicas := []*replica{whole.start("--encoding=v2"), whole.start("--encoding=v2")}
	written := whole.writeConstantly()
	whole.proven(v2, "Declared")
	whole.run("a replica is killed while it writes", func(f *fleet) {
		replicas[0].in(f).crash()
		replicas[0] = f.start("--encoding=v2")
		f.eventually("the entries are those of the live replicas", func() bool { return w.publishers() == 2 })
		f.proven(v2, "Declared")
	})
	whole.run("a replica of the old version returns while a run is under way", func(f *fleet) {
		canary := f.start("--encoding=v1")
		f.eventually("it has written", func() bool { return w.held(v1) > 10 })
		canary.end()
		running := f.underWay()
		returned := time.Now()
		old := f.start("--encoding=v1")
		f.eventually("it has written", func() bool { return w.held(v1) > 10 })
		if s := f.state(); s.Status.Evidence == "" && len(s.Status.PersistedStorageVersionHashes) < 2 {
			f.Errorf("while v1 is written the record is %+v", s.Status)
		}
		old.end()
		s := f.proven(v2, "Declared")
		if n := w.held(v1); n > 0 {
			f.Errorf("v2 is proven, and %d objects are stored as v1", n)
		}
		if since := s.Status.Epoch.Since.Time; since.Before(returned.Truncate(time.Second)) {
			f.Errorf("the proof is of an epoch since %s; the run was %+v, and the old version returned at %s", since,
				running.Status.Run, returned)
		}
	})
	whole.run("a canary comes and goes", func(f *fleet) {
		r := f.start("--encoding=v1")
		time.Sleep(canaryLife)
		if !w.doubted(v2) {
			f.Error("the record does not tell of the canary")
		}
		r.end()
		f.proven(v2, "Declared")
	})
	whole.run("a replica that returns within its Lease's duration keeps its entry", func(f *fleet) {
		replicas[1].Signal(syscall.SIGSTOP)
		for end := time.Now().Add(leaseDuration / 2); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if w.entry(replicas[1].id) == "" {
				f.Fatal("the entry was removed before the Lease had expired")
			}
		}
		replicas[1].Signal(syscall.SIGCONT)
	})
	whole.run("a replica ends while it writes", w.endWhileWriting)
	whole.run("a replica is killed between publishing and serving", w.killSilent)
	stop()
	whole.run("without publishing, each replica is asked", func(f *fleet) {
		w, stop := f.watch(false)
		was := replicas
		replicas = nil
		for _, version := range []string{"v2", "v1"} { // with what they publish withdrawn, and then upgraded
			var next []*replica
			for _, r := range was {
				w.shows("gears-"+strconv.Itoa(f.launched+1), group+"/"+version)
				next = append(next, f.start("--publish=false", "--encoding="+version))
				r.in(f).end()
				w.shows(r.id, "")
			}
			f.proven(group+"/"+version, "Observed")
			was = next
		}
		replicas = was
		stop()
	})
	for _, test := range [][2]string{{"opaque", "v2"}, {"none", "v1"}} {
		hash, version := test[0], test[1]
		if s.command != "plain" {
			break // the library shows the hash
		}
		whole.run("discovery shows a hash that is "+hash, func(f *fleet) {
			for i, r := range replicas {
				replicas[i] = f.start("--hash="+hash, "--encoding="+version,
					"--publish="+strconv.FormatBool(hash == "none"))
				r.in(f).end()
			}
			if hash == "opaque" {
				f.provenAs("stored-as-"+version, "Observed")
			} else {
				f.proven(group+"/"+version, "Declared")
			}
			held, err := f.cluster.StoredVersions(f.Context(), gears.Prefix)
			if err != nil || len(held) != 1 || held[group+"/"+version] == 0 {
				f.Errorf("etcd holds %v: %v", held, err)
			}
		})
	}
	if n := written(); n < 500 {
		t.Errorf("%d writes: the test shows nothing", n)
	}
}
