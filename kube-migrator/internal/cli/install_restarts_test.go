// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install"
	"github.com/kube-migrator/kube-migrator/migrate"
)

func TestInstallWarnsWhereEvidenceCannotBeStrongEnough(t *testing.T) {
	const warning = "Warning: API servers older than 1.35 do not show that they were restarted (v1.34.4), so " +
		"evidence about them is Sampled: " +
		"what is stored is recorded, and nothing is migrated. To migrate on that evidence: kube-migrator install " +
		"--min-evidence=sampled\n"
	for _, test := range []struct {
		release string
		least   migrate.Evidence
		want    string
	}{
		{"v1.34.4", migrate.Observed, warning}, {"v1.34.4", migrate.Declared, warning},
		{"v1.34.4", migrate.Sampled, ""}, {"v1.35.4", migrate.Observed, ""},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"gitVersion":%q}`, test.release)
		}))
		var said strings.Builder
		env := &environment{name: "kube-migrator", Streams: Streams{Err: &said}}
		q, err := env.connectTo(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		c := &installCommand{setup: setup{env, newInstallCommand(env)}}
		err = c.warnOfRestarts(t.Context(), q, install.Options{MinEvidence: test.least})
		server.Close()
		if err != nil || said.String() != test.want {
			t.Errorf("%s, %v is asked for: %v, says\n%q, want\n%q", test.release, test.least, err,
				said.String(), test.want)
		}
	}
}
