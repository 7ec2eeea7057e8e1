// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"errors"
	"testing"
)

func TestAListWithTwoObjectsOfOneNameIsAnError(t *testing.T) {
	list := new(course)
	objects := []object{{namespace: "default", name: "a"}, {namespace: "default", name: "a", uid: "x"}}
	if err := list.follow(page{objects: objects}, true); !errors.Is(err, errMisplaced) {
		t.Errorf("%v, want errMisplaced", err)
	}
}
