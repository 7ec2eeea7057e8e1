// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import (
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/agreement/look"
	"github.com/kube-migrator/kube-migrator/internal/compare"
)

func TestAnEpochHasTheAddressesOfServersThatHaveShownItsHash(t *testing.T) {
	current := hashOf(deviceClasses, "v1")
	s, config := newSurge(t, current, current)
	both := []string{s.address(0), s.address(1)}
	if both[0] > both[1] {
		both[0], both[1] = both[1], both[0]
	}
	addresses := func(change func()) []string {
		t.Helper()
		change()
		o, err := NewObserver(config, look.Options{})
		if err != nil {
			t.Fatal(err)
		}
		e, err := o.For(deviceClasses).Epoch(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return e.Addresses
	}
	if diff := compare.Diff(both, addresses(func() {})); diff != "" {
		t.Errorf("both servers show the hash (-want +got):\n%s", diff)
	}
	if diff := compare.Diff([]string{s.address(1)}, addresses(func() { config.CAData = s.cas[1] })); diff != "" {
		t.Errorf("one has a certificate of another authority (-want +got):\n%s", diff)
	}
	if got := addresses(func() { s.told.Store(true); s.servers[0].Close() }); got != nil {
		t.Errorf("addresses = %q where one server is asked at the only address, want none", got)
	}
	s.told.Store(false)
	if got := addresses(func() { config.CAData, config.Insecure = nil, true }); got != nil {
		t.Errorf("addresses = %v where no certificate is verified, want none", got)
	}
}
