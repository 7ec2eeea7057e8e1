// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/compare"
)

var (
	earlier = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	later   = earlier.Add(time.Hour)
)

const (
	equalThen  = `{"type":"AllEncodingVersionsEqual","status":"True","lastTransitionTime":"2026-01-02T03:04:05Z","reason":"CommonEncodingVersionSet","message":"Common encoding version set"}`
	equalNow   = `{"type":"AllEncodingVersionsEqual","status":"True","lastTransitionTime":"2026-01-02T04:04:05Z","reason":"CommonEncodingVersionSet","message":"Common encoding version set"}`
	unequalNow = `{"type":"AllEncodingVersionsEqual","status":"False","lastTransitionTime":"2026-01-02T04:04:05Z","reason":"CommonEncodingVersionUnset","message":"Common encoding version unset"}`
)

// The expectations are those of Kubernetes' own updater, k8s.io/apiserver/pkg/storageversion.
func TestWhatIsWritten(t *testing.T) {
	own := &entryFields{APIServerID: "me", EncodingVersion: "v1", DecodableVersions: []string{"v1"}}
	const (
		mine   = `{"apiServerID":"me","encodingVersion":"v1","decodableVersions":["v1"]}`
		mineV2 = `{"apiServerID":"me","encodingVersion":"v2","decodableVersions":["v2"]}`
		theirs = `{"apiServerID":"other","encodingVersion":"v1","decodableVersions":["v1"],"field of the future":1}`
		newer  = `{"apiServerID":"other","encodingVersion":"v2","decodableVersions":["v1","v2"]}`
	)
	for name, test := range map[string]struct {
		read string
		edit edit
		want string // empty: unchanged
	}{
		"the first entry": {
			`{}`, edit{own: own},
			`{"storageVersions":[` + mine + `],"commonEncodingVersion":"v1","conditions":[` + equalNow + `]}`,
		},
		"nothing to change": {
			`{"storageVersions":[` + mine + `],"commonEncodingVersion":"v1","conditions":[` + equalThen +
				`]}`, edit{own: own}, "",
		},
		"a second server that agrees does not move the transition time, and unknown fields stay": {
			`{"storageVersions":[` + theirs + `],"commonEncodingVersion":"v1","conditions":[` +
				equalThen + `]}`, edit{own: own},
			`{"storageVersions":[` + theirs + `,` + mine +
				`],"commonEncodingVersion":"v1","conditions":[` + equalThen + `]}`,
		},
		"a second server that disagrees": {
			`{"storageVersions":[` + newer + `],"commonEncodingVersion":"v2","conditions":[` +
				equalThen + `]}`, edit{own: own},
			`{"storageVersions":[` + newer + `,` + mine + `],"conditions":[` + unequalNow + `]}`,
		},
		"one common version follows another": {
			`{"storageVersions":[` + mineV2 + `],"commonEncodingVersion":"v2","conditions":[` +
				equalThen + `]}`, edit{own: own},
			`{"storageVersions":[` + mine + `],"commonEncodingVersion":"v1","conditions":[` + equalNow + `]}`,
		},
		"an entry of a server that is gone": {
			`{"storageVersions":[` + newer + `,` + mine + `],"conditions":[` + unequalNow + `]}`,
			edit{own: own, gone: []string{"other"}},
			`{"storageVersions":[` + mine + `],"commonEncodingVersion":"v1","conditions":[` + equalNow + `]}`,
		},
		"this server is never gone": {
			`{"storageVersions":[` + mine + `],"commonEncodingVersion":"v1","conditions":[` + equalThen + `]}`,
			edit{own: own, gone: []string{"me"}}, "",
		},
		"a common version that another program has made up": {
			`{"storageVersions":[` + mine + `],"commonEncodingVersion":"v3","conditions":[` +
				equalThen + `]}`, edit{own: own},
			`{"storageVersions":[` + mine + `],"commonEncodingVersion":"v1","conditions":[` + equalNow + `]}`,
		},
		"conditions of other programs stay": {
			`{"conditions":[{"type":"Other","status":"Perhaps"}]}`, edit{own: own},
			`{"storageVersions":[` + mine + `],"commonEncodingVersion":"v1","conditions":[{"type":"Other","status":"Perhaps"},` + equalNow + `]}`,
		},
		"withdrawn": {
			`{"storageVersions":[` + theirs + `,` + mine + `],"commonEncodingVersion":"v1","conditions":[` +
				equalThen + `]}`, edit{},
			`{"storageVersions":[` + theirs + `],"commonEncodingVersion":"v1","conditions":[` + equalThen + `]}`,
		},
		"the last one is withdrawn": {
			`{"storageVersions":[` + mine + `],"commonEncodingVersion":"v1","conditions":[` + equalThen + `]}`, edit{},
			`{"conditions":[` + unequalNow + `]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var read object
			if err := json.Unmarshal([]byte(test.read), &read.Status); err != nil {
				t.Fatal(err)
			}
			test.edit.id, test.edit.now = "me", later
			next, changed := test.edit.apply(read)
			got, err := json.Marshal(next)
			if err != nil {
				t.Fatal(err)
			}
			if test.want == "" {
				test.want = test.read
				if changed {
					t.Error("it would be written")
				}
			} else if !changed {
				t.Error("it would not be written")
			}
			if diff := compare.Diff(compact(t, test.want), compact(t, string(got))); diff != "" {
				t.Errorf("the status (-want +got):\n%s", diff)
			}
			// Written once, it stays.
			var again object
			if err := json.Unmarshal(got, &again.Status); err != nil {
				t.Fatal(err)
			}
			if _, changed := test.edit.apply(again); changed {
				t.Error("it would be written again and again")
			}
		})
	}
}

func TestATouchChangesTheUpdateTimeAlone(t *testing.T) {
	own := &entryFields{APIServerID: "me", EncodingVersion: "v1", DecodableVersions: []string{"v1"}}
	written, _ := edit{own: own, id: "me", updateTimes: true, now: earlier}.apply(object{})
	next, changed := edit{own: own, id: "me", updateTimes: true, touch: true, now: later}.apply(object{Status: written})
	if c := next.Conditions[0]; !changed || !c.LastUpdateTime.Time.Equal(later) || !c.LastTransitionTime.Time.Equal(earlier) {
		t.Errorf("the touched condition is %+v", next.Conditions[0].conditionFields)
	}
}

func compact(t *testing.T, raw string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(raw), &v); err != nil {
		t.Fatal(err)
	}
	return v
}
