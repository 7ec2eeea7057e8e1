// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package page tests the page of the dashboard, and reports, in a real Chromium: that it follows changes, is complete
// without JavaScript, can be used with the keyboard, shows text of others as text, and passes axe-core's rules for
// people who use screen readers or see colors differently. `make test-page` runs it (build tag "page"); it needs
// Debian's packages chromium and npm, and keeps screenshots in bin/page.
package page
