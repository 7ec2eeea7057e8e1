/*
Copyright 2024 The Test Organisation.
*/

package controller

import (
	"testing"

	cachev1 "github.com/test-org/cache-operator/api/v1"
)

func TestOnTape(t *testing.T) {
	memcached := &cachev1.Memcached{Spec: cachev1.MemcachedSpec{Place: cachev1.Place{Medium: cachev1.Tape}}}
	if !onTape(memcached) {
		t.Error("want true")
	}
}
