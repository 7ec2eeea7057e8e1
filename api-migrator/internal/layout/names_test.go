// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package layout

import "testing"

func TestNamesThatAreMadeOfTheKindsFollowIt(t *testing.T) {
	t.Parallel()
	r := &Renaming{From: "Config", To: "Setup", longer: []string{"ConfigMap"}}
	for name, want := range map[string]string{
		"Config": "Setup", "ConfigSpec": "SetupSpec", "NewConfig": "NewSetup", "configName": "setupName",
		"Configs": "Setups", "ParseConfigs": "ParseSetups",
		"ConfigsByName": "SetupsByName", "Configuration": "Configuration", "reconfig": "reconfig",
		"ConfigMapSpec": "ConfigMapSpec", "ConfigMapOfConfig": "ConfigMapOfSetup",
		"configuration": "configuration", "maxConfig": "maxSetup",
	} {
		if got := r.Apply(name); got != want {
			t.Errorf("%s becomes %s, want %s", name, got, want)
		}
	}
	catalog := &Renaming{From: "CatalogSource", To: "Index"}
	for name, want := range map[string]string{
		"catalogsource_types.go": "index_types.go", "catalog_source.go": "index.go",
		"catalogsources.go": "catalogsources.go", "types.go": "types.go",
		"catalogsource_webhook_test.go": "index_webhook_test.go",
	} {
		if got := catalog.File(name); got != want {
			t.Errorf("%s becomes %s, want %s", name, got, want)
		}
	}
}
