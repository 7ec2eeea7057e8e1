// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package trigger

import "time"

const (
	// lookShare is how many times as long as a look takes no look begins that only CRDs ask for, in the long run.
	lookShare = 20
	// lookBurst is how long such looks may take together before that: looks after a quiet time begin at once.
	lookBurst = 30 * time.Second
	// longestPutOff is how long such a look is put off at most: on busy API servers one look may take many seconds.
	longestPutOff = time.Minute
)

// budget bounds the time that looks take (I7). A CRD that changes all the time, as when two controllers fight over it,
// would otherwise cause look after look, each of which asks every API server for everything. A look that is put off
// weakens nothing: what a changed CRD tells servers to write is recorded when it changes (I1), and that ends the
// recorded epoch, so that no proof from before counts (I2). Only the next migration begins later.
//
// The zero value has spent nothing. It is pure.
type budget struct {
	spent time.Duration // as of at
	at    time.Time
}

// spend adds a look that has just ended, and for which only CRDs have asked.
func (b *budget) spend(now time.Time, took time.Duration) {
	b.spent, b.at = b.left(now)+took, now
}

// left returns what is still to be earned back.
func (b *budget) left(now time.Time) time.Duration {
	return max(0, b.spent-now.Sub(b.at)/lookShare)
}

// from returns when the next look may begin.
func (b *budget) from() time.Time {
	return b.at.Add(min(longestPutOff, max(0, b.spent-lookBurst)*lookShare))
}
