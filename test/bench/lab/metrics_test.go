// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCountersAreThoseOfTheResource(t *testing.T) {
	const metrics = `# HELP apiserver_request_total Counter of requests
apiserver_request_total{code="200",group="demo.example.com",resource="widgets",subresource="",verb="PATCH"} 10
apiserver_request_total{code="200",group="demo.example.com",resource="widgets",subresource="",verb="LIST"} 2
apiserver_request_total{code="200",group="demo.example.com",resource="widgets",subresource="",verb="WATCH"} 3
apiserver_request_total{code="200",group="",resource="widgets",subresource="",verb="PATCH"} 5
apiserver_request_total{code="429",group="",resource="configmaps",subresource="",verb="PUT"} 7
apiserver_admission_step_admission_duration_seconds_count{operation="UPDATE",rejected="false",type="admit"} 20
apiserver_admission_step_admission_duration_seconds_count{operation="UPDATE",rejected="false",type="validate"} 1e+01
apiserver_admission_step_admission_duration_seconds_sum{operation="UPDATE",rejected="false",type="admit"} 99
`
	var got Counters
	got.add(metrics, Kind{Group: "demo.example.com", Plural: "widgets"})
	want := Counters{Requests: 12, Writes: 10, AdmissionSteps: 30, TooMany: 7}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("counters (-want +got):\n%s", diff)
	}
}

func TestRateIsThatOfEachStep(t *testing.T) {
	at := func(millis, revision int64) Sample { return Sample{At: time.UnixMilli(millis), Revision: revision} }
	samples := []Sample{at(0, 100), at(600, 130), at(1000, 150), at(1400, 150), at(2000, 150), at(2500, 400)}
	want := []Point{{Seconds: 1, PerSecond: 50}, {Seconds: 2, PerSecond: 0}}
	if diff := cmp.Diff(want, RateOver(samples, time.Second)); diff != "" {
		t.Errorf("rates (-want +got):\n%s", diff)
	}
}
