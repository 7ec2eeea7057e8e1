/*
Copyright 2024 The Test Organisation.
*/

// Package controller reconciles Memcacheds.
package controller

import (
	cachev1 "github.com/test-org/cache-operator/api/v1"
)

// onTape reports whether the data of a Memcached would be slow.
func onTape(memcached *cachev1.Memcached) bool {
	shared := memcached.Spec.Place
	return shared.Medium == cachev1.Tape
}
