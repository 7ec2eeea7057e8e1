// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"
)

func TestSpanBeginsBeforeTheFirstWriteAndEndsAfterTheLast(t *testing.T) {
	samples := []sample{
		{at: time.Unix(0, 0), revision: 10, apiserver: 1 * time.Second, etcd: 1 * time.Second, client: 0,
			sent: 100, received: 1000},
		{at: time.Unix(1, 0), revision: 12, apiserver: 2 * time.Second, etcd: 3 * time.Second, client: 1 * time.Second,
			sent: 200, received: 1500},
		{at: time.Unix(2, 0), revision: 15, apiserver: 5 * time.Second, etcd: 5 * time.Second, client: 2 * time.Second,
			sent: 500, received: 2500},
		{at: time.Unix(3, 0), revision: 20, apiserver: 9 * time.Second, etcd: 6 * time.Second, client: 4 * time.Second,
			sent: 900, received: 4500},
		{at: time.Unix(4, 0), revision: 21, apiserver: 20 * time.Second, etcd: 20 * time.Second,
			client: 9 * time.Second, sent: 9000, received: 9000},
	}
	got, err := spanOf(samples, 13, 20)
	if err != nil {
		t.Fatal(err)
	}
	want := span{duration: 2 * time.Second, apiserver: 7 * time.Second, etcd: 3 * time.Second, client: 3 * time.Second,
		sent: 700, received: 3000}
	if got != want {
		t.Errorf("span: got %+v, want %+v", got, want)
	}
}

func TestSpanIsAnErrorWhereNoOneLookedBeforeOrAfter(t *testing.T) {
	samples := []sample{{revision: 10}, {revision: 20}}
	for name, revisions := range map[string][2]int64{
		"no sample before the first write": {10, 15},
		"no sample after the last write":   {11, 21},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := spanOf(samples, revisions[0], revisions[1]); err == nil {
				t.Errorf("got %+v, want an error", got)
			}
		})
	}
}
