// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import (
	"time"
)

// backoff returns how long to wait after the given number of failures: first, doubled each time, at most 6 hours.
func backoff(first time.Duration, failures int64) time.Duration {
	const most = 6 * time.Hour
	d := first
	for range failures - 1 {
		if d >= most/2 {
			return most
		}
		d *= 2
	}
	return d
}
