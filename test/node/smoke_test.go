// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build node

package node

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

func TestImageRunsInRestrictedPods(t *testing.T) {
	h := newNode(t, testbed.Options{})
	h.apply(restrictedNamespace)

	t.Run("a Job completes, and its log is read through the API server", func(t *testing.T) {
		h := h.in(t)
		h.apply(job("version", "default", "version"))
		if out := h.complete("restricted", "version"); !strings.HasPrefix(out, "kube-migrator ") {
			t.Errorf("the log of `version` is %q", out)
		}
	})

	t.Run("a pod reaches the API server through its Service with its ServiceAccount's rights", func(t *testing.T) {
		h := h.in(t)
		h.apply(readerOf("reader"))
		h.apply(job("plan", "reader", "plan", "customresourcedefinitions.apiextensions.k8s.io"))
		if out := h.complete("restricted", "plan"); !strings.Contains(out, "customresourcedefinitions") {
			t.Errorf("the log of `plan` is %q", out)
		}
	})

	t.Run("a pod that asks for more than restricted is refused", func(t *testing.T) {
		h := h.in(t)
		manifest := strings.Replace(job("root", "default", "version"), "runAsNonRoot: true", "runAsNonRoot: false", 1)
		h.apply(manifest)
		h.run("wait", "-n", "restricted", "--for=create", "--timeout=60s", "job/root")
		h.eventually("a pod that may run as root is refused", func() bool {
			return strings.Contains(h.run("get", "events", "-n", "restricted", "-o", "jsonpath={.items[*].message}"),
				"runAsNonRoot != true")
		})
	})
}

const restrictedNamespace = `
apiVersion: v1
kind: Namespace
metadata:
  name: restricted
  labels:
    pod-security.kubernetes.io/enforce: restricted
`

// job is a Job that runs the image under restricted Pod Security, with a root file system that it cannot write.
func job(name, serviceAccount string, args ...string) string {
	return fmt.Sprintf(`
apiVersion: batch/v1
kind: Job
metadata:
  namespace: restricted
  name: %s
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      serviceAccountName: %s
      securityContext:
        runAsNonRoot: true
        seccompProfile: {type: RuntimeDefault}
      containers:
      - name: kube-migrator
        image: %s
        imagePullPolicy: Never
        args: [%s]
        securityContext:
          allowPrivilegeEscalation: false
          readOnlyRootFilesystem: true
          capabilities: {drop: [ALL]}
`, name, serviceAccount, image, strings.Join(args, ", "))
}

// readerOf is a ServiceAccount that may read everything.
func readerOf(name string) string {
	return fmt.Sprintf(`
apiVersion: v1
kind: ServiceAccount
metadata: {namespace: restricted, name: %[1]s}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: %[1]s}
rules:
- {apiGroups: ["*"], resources: ["*"], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: %[1]s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: %[1]s}
subjects:
- {kind: ServiceAccount, namespace: restricted, name: %[1]s}
`, name)
}
