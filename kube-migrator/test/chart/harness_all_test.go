// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build all

package chart

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

const (
	// chart is the folder of the chart, and config that of the kustomizations.
	chart, config = "../../../charts/kube-migrator", "../../../config"
	// image is the image of an installation.
	image = "registry.example.com/kube-migrator:v1.0.0"
)

// run runs a binary of the testbed with an input.
func run(t *testing.T, release testbed.Release, name, input string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	binary, err := testbed.Binary(t.Context(), release, name, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), binary, args...)
	// Helm reads and writes nothing of the user who runs the tests.
	home := t.TempDir()
	command.Env = append(os.Environ(), "HOME="+home, "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home,
		"HELM_DATA_HOME="+home)
	var out, problems strings.Builder
	command.Stdin, command.Stdout, command.Stderr = strings.NewReader(input), &out, &problems
	err = command.Run()
	return out.String(), problems.String(), err
}

// helm runs Helm.
func helm(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return run(t, testbed.Helm, "helm", "", args...)
}

// template renders the chart with values, in the format of a values file.
func template(t *testing.T, namespace, values string, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	return run(t, testbed.Helm, "helm", values, append([]string{"template", "kube-migrator", chart, "--namespace", namespace,
		"--values", "-"}, args...)...)
}

// byName returns the objects of a stream of YAML documents by kind, namespace and name.
func byName(t *testing.T, stream string) map[string]*unstructured.Unstructured {
	t.Helper()
	objects := map[string]*unstructured.Unstructured{}
	documents := utilyaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(stream), 4096)
	for {
		o := &unstructured.Unstructured{}
		err := documents.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatalf("decode: %v\n%s", err, stream)
		}
		if len(o.Object) == 0 { // a document that holds only a comment
			continue
		}
		name := nameOf(o)
		if objects[name] != nil {
			t.Errorf("%s is there twice", name)
		}
		objects[name] = o
	}
}

func nameOf(o *unstructured.Unstructured) string {
	return o.GetKind() + " " + strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
}
