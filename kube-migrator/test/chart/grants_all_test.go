// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package chart

import (
	"context"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install"
)

// checkGranted runs the controller with the arguments and the permissions of the release, and expects that it lets the
// worker migrate every resource, although the chart names none.
func (r *release) checkGranted() {
	r.t.Helper()
	token, problems, err := r.kubectl("create", "token", install.ControllerAccount, "-n", namespace)
	if err != nil {
		r.t.Fatalf("%v\n%s", err, problems)
	}
	config, err := clientcmd.LoadFromFile(r.kubeconfig)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, user := range config.AuthInfos {
		user.Token = strings.TrimSpace(token)
	}
	kubeconfig := filepath.Join(r.t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, kubeconfig); err != nil {
		r.t.Fatal(err)
	}
	deployment := r.get("deployment", namespace, install.Controller)
	containers, _, _ := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	arguments, _, _ := unstructured.NestedStringSlice(containers[0].(map[string]any), "args")
	line := slices.Concat([]string{"kube-migrator", "--kubeconfig", kubeconfig}, arguments,
		[]string{"--metrics-bind-address=0", "--health-probe-bind-address=0"})
	ctx, cancel := context.WithCancel(r.t.Context())
	var log strings.Builder
	var controller sync.WaitGroup
	controller.Go(func() {
		cli.Run(ctx, line, cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: &log})
	})
	worker := "--as=system:serviceaccount:" + namespace + ":" + install.WorkerAccount
	may := func(resource string) bool {
		can, _, _ := r.kubectl("auth", "can-i", "patch", resource, "-A", worker)
		return strings.HasPrefix(can, "yes")
	}
	missing := []string{"secrets", "deployments.apps", "customresourcedefinitions.apiextensions.k8s.io",
		"storageversionmigrations.migration.k8s.io"}
	for begin := time.Now(); len(missing) > 0 && time.Since(begin) < time.Minute; time.Sleep(200 * time.Millisecond) {
		missing = slices.DeleteFunc(missing, may)
	}
	cancel()
	controller.Wait()
	if len(missing) > 0 {
		r.t.Errorf("the worker may not patch %q; the controller says\n%s", missing, log.String())
	}
	if may("validatingadmissionpolicies.admissionregistration.k8s.io") {
		r.t.Error("the worker may patch admission policies")
	}
}
