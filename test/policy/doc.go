// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package policy holds the rules of this repository that a compiler does not know, as tests: which package may import
// which, what each file begins with, which words stay out.
//
// It has tests only and is imported by nothing. A rule that names a package which is gone fails like a broken one, so
// that the tables always describe the repository as it is.
package policy
