// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"slices"
	"testing"
)

func TestNamesThatAreMadeOfTheKindsFollowIt(t *testing.T) {
	t.Parallel()
	r := &renaming{from: "Config", to: "Setup", longer: []string{"ConfigMap"}}
	for name, want := range map[string]string{
		"Config": "Setup", "ConfigSpec": "SetupSpec", "NewConfig": "NewSetup", "configName": "setupName",
		"Configs": "Setups", "ParseConfigs": "ParseSetups",
		"ConfigsByName": "SetupsByName", "Configuration": "Configuration", "reconfig": "reconfig",
		"ConfigMapSpec": "ConfigMapSpec", "ConfigMapOfConfig": "ConfigMapOfSetup",
		"configuration": "configuration", "maxConfig": "maxSetup",
	} {
		if got := r.apply(name); got != want {
			t.Errorf("%s becomes %s, want %s", name, got, want)
		}
	}
	catalog := &renaming{from: "CatalogSource", to: "Index"}
	for name, want := range map[string]string{
		"catalogsource_types.go": "index_types.go", "catalog_source.go": "index.go",
		"catalogsources.go": "catalogsources.go", "types.go": "types.go",
		"catalogsource_webhook_test.go": "index_webhook_test.go",
	} {
		if got := catalog.file(name); got != want {
			t.Errorf("%s becomes %s, want %s", name, got, want)
		}
	}
}

func TestMarkersAreTakenApartAtTheirOwnCommas(t *testing.T) {
	t.Parallel()
	arguments := markerArguments(`groups="a.b";c,resources={x,y},verbs=get;list`)
	for key, want := range map[string][]string{"groups": {"a.b", "c"}, "resources": {"x,y"}, "verbs": {"get", "list"}} {
		if got := valuesOf(arguments, key); !slices.Equal(got, want) {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
}
