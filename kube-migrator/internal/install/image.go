// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package install

import "strings"

// ImageWarning returns why the name of an image does not determine what will run, or "" if the image has a digest.
func ImageWarning(image string) string {
	name, _, hasDigest := strings.Cut(image, "@")
	if hasDigest {
		return ""
	}
	if !isQualified(name) {
		return "the image " + image + " names no registry and has no digest: each node decides which registry it " +
			"comes from, " +
			"and anyone who can push it there decides what runs with the permissions of this installation. " +
			"Use REGISTRY/" + name + "@sha256:DIGEST"
	}
	return "the image " + image + " has no digest: anyone who can push it decides what runs with the permissions of " +
		"this installation. " +
		"Use " + name + "@sha256:DIGEST"
}

// isQualified reports whether a name begins with a registry: as container runtimes see it, with a host that has a dot
// or a port, or with localhost.
func isQualified(name string) bool {
	host, _, found := strings.Cut(name, "/")
	return found && (host == "localhost" || strings.ContainsAny(host, ".:"))
}
