// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package agreement

import "time"

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// at is a moment relative to noon.
func at(d time.Duration) time.Time { return noon.Add(d) }
