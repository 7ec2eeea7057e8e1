// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// wholeUpgrade are the steps of a CRD that drops a stored version which managedFields name.
const wholeUpgrade = "intermediate migrate prune managedFields apply"

// All upgrades share one cluster, with a resource for each.
func TestCRDUpgrades(t *testing.T) {
	t.Parallel()
	cluster := testbed.New(t, testbed.Options{})
	for _, test := range []struct {
		plural, name string
		run          func(*testing.T, *gadgets)
	}{
		{"upgadas", "wherever it is killed the same command continues", upgradeContinuesWhereverItIsKilled},
		{"upgadbs", "fields of another field manager are not taken without a word", upgradeTakesNoFieldsOfOthers},
		{"upgadcs", "fields are not lost without a word", upgradeLosesNoFieldWithoutAWord},
		{"upgades", "a CRD that is changed under it is planned again", upgradeIsPlannedAgain},
		{"upgadfs", "a migration that the controller is to carry out comes first", upgradeWaitsForTheController},
		{"upgadgs", "a conversion webhook that the file takes away converts the objects before",
			upgradeConvertsBeforeTheWebhookGoes},
		{"upgadds", "a list is read from a pipe with objects of other kinds", upgradeReadsWhatKubectlPrints},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, gadgetsOf(t, cluster, test.plural))
		})
	}
}
