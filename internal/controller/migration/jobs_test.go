// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migration

import "testing"

// The ServiceAccount gives no pod a token by itself.
func TestAWorkersPodAsksForItsTokenAndForNoServices(t *testing.T) {
	pod := (&jobs{image: "kube-migrator:v1", serviceAccount: "worker"}).job("run-1").Spec.Template.Spec
	if pod.AutomountServiceAccountToken == nil || !*pod.AutomountServiceAccountToken {
		t.Error("the worker has no token")
	}
	if pod.EnableServiceLinks == nil || *pod.EnableServiceLinks {
		t.Error("Services of the namespace become variables of the worker")
	}
}
