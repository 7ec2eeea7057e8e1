// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"testing"
	"time"
)

func TestSpanBeginsBeforeTheFirstWriteAndEndsAfterTheLast(t *testing.T) {
	s := time.Second
	samples := []Sample{
		{At: time.Unix(0, 0), Revision: 10, APIServer: 1 * s, Etcd: 1 * s, Client: 0, Sent: 100, Received: 1000},
		{At: time.Unix(1, 0), Revision: 12, APIServer: 2 * s, Etcd: 3 * s, Client: 1 * s, Sent: 200, Received: 1500},
		{At: time.Unix(2, 0), Revision: 15, APIServer: 5 * s, Etcd: 5 * s, Client: 2 * s, Sent: 500, Received: 2500},
		{At: time.Unix(3, 0), Revision: 20, APIServer: 9 * s, Etcd: 6 * s, Client: 4 * s, Sent: 900, Received: 4500},
		{At: time.Unix(4, 0), Revision: 21, APIServer: 20 * s, Etcd: 20 * s, Client: 9 * s, Sent: 9000, Received: 9000},
	}
	got, err := spanOf(samples, 13, 20)
	if err != nil {
		t.Fatal(err)
	}
	want := Span{Begin: time.Unix(1, 0), End: time.Unix(3, 0), APIServer: 7 * s, Etcd: 3 * s, Client: 3 * s,
		Sent: 700, Received: 3000}
	if got != want {
		t.Errorf("span: got %+v, want %+v", got, want)
	}
}

func TestSpanIsAnErrorWhereNoSamplePrecedesOrFollows(t *testing.T) {
	samples := []Sample{{Revision: 10}, {Revision: 20}}
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
