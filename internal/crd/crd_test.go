// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package crd

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/compare"
)

func TestAPageOfCRDsIsDecodedWhereverItsFieldsStand(t *testing.T) {
	const item = `{"metadata":{"name":"widgets.demo.example.com"},"spec":{"versions":[{"name":"v1","schema":{"a":[{}]}},{"name":"v2","storage":true}]}}`
	for name, page := range map[string]string{
		"metadata first": `{"kind":"List","metadata":{"continue":"more"},"items":[` + item + `,` + item + `]}`,
		"metadata last": `{"items":[` + item + `,` + item +
			`],"metadata":{"continue":"more"},"extra":{"items":[1]}}`,
		"white space around": ` { "items" : [ ` + item + ` , ` + item + ` ] , "metadata" : {"continue":"more"} } `,
	} {
		t.Run(name, func(t *testing.T) {
			var versions []string
			token, err := decodeList(strings.NewReader(page),
				func(d *CRD) { versions = append(versions, d.StorageVersion()) })
			if err != nil {
				t.Fatal(err)
			}
			if diff := compare.Diff([]string{"v2", "v2"}, versions); diff != "" {
				t.Errorf("storage versions (-want +got):\n%s", diff)
			}
			if token != "more" {
				t.Errorf("token = %q, want %q", token, "more")
			}
		})
	}
}

func TestAnEmptyListHasNoCRDs(t *testing.T) {
	for _, page := range []string{`{"items":null,"metadata":{}}`, `{"items":[]}`, `{}`} {
		token, err := decodeList(strings.NewReader(page), func(*CRD) { t.Errorf("%s: a CRD", page) })
		if token != "" || err != nil {
			t.Errorf("%s: token %q, error %v", page, token, err)
		}
	}
}

func TestAPageThatWasCutOffIsAnError(t *testing.T) {
	const page = `{"metadata":{},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b"}}]}`
	for cut := range len(page) {
		if _, err := decodeList(strings.NewReader(page[:cut]), func(*CRD) {}); err == nil {
			t.Errorf("no error for %s", page[:cut])
		}
	}
}

func TestACRDIsEstablishedWhenItsConditionSaysSo(t *testing.T) {
	for name, test := range map[string]struct {
		conditions []Condition
		want       bool
		why        string
	}{
		"established": {[]Condition{{Type: "NamesAccepted", Status: "True"},
			{Type: "Established", Status: "True"}}, true, ""},
		"no conditions yet": {nil, false, "its condition Established is missing"},
		"names not accepted": {[]Condition{{Type: "Established", Status: "False",
			Message: "not all names are accepted"}}, false, "not all names are accepted"},
		"established and leaving": {[]Condition{{Type: "Established", Status: "True"},
			{Type: "Terminating", Status: "True", Message: "deleting"}}, false, "deleting"},
	} {
		t.Run(name, func(t *testing.T) {
			d := new(CRD)
			d.Status.Conditions = test.conditions
			if got, why := d.Established(); got != test.want || why != test.why {
				t.Errorf("Established() = %v, %q, want %v, %q", got, why, test.want, test.why)
			}
		})
	}
}

func TestTheTimeOfTheSpecIsTheNewestOfItsManagers(t *testing.T) {
	noon := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		managedFields string
		want          time.Time
		known         bool
	}{
		"no one is recorded": {`[]`, time.Time{}, false},
		"one manager of the versions": {
			`[{"time":"2026-05-01T12:00:00Z","fieldsV1":{"f:spec":{"f:versions":{}}}}]`, noon, true,
		},
		"another manager wrote later, perhaps the versions before": {
			`[{"time":"2026-05-01T12:00:00Z","fieldsV1":{"f:spec":{"f:scope":{}}}},{"time":"2026-05-01T11:00:00Z","fieldsV1":{"f:spec":{"f:versions":{}}}}]`, noon, true,
		},
		"status writes do not count": {
			`[{"time":"2026-05-01T12:00:00Z","fieldsV1":{"f:spec":{"f:versions":{}}}},{"time":"2026-05-01T13:00:00Z","subresource":"status","fieldsV1":{"f:status":{}}}]`, noon, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := new(CRD)
			if err := json.Unmarshal([]byte(test.managedFields), &d.Metadata.ManagedFields); err != nil {
				t.Fatal(err)
			}
			got, known := d.SpecWritten()
			if known != test.known || !got.Equal(test.want) {
				t.Errorf("SpecWritten() = %v, %v, want %v, %v", got, known, test.want, test.known)
			}
		})
	}
}
