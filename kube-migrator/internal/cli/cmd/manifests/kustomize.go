// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/config"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/arg"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/controller/trigger"
	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install"
)

// placeholder is the image in config/default until the user sets one. Its name begins with localhost, so that no
// registry can provide it.
const placeholder = "localhost/kube-migrator"

const head = "# Generated from kube-migrator/internal/install by make generate. Do not edit.\n"

// kustomizations returns the files below config by name: the kustomization of the CRDs, and that of an installation
// with the defaults of install.
func kustomizations() (map[string]string, error) {
	o := install.Options{
		Image:           placeholder,
		Guard:           true,
		DiscoveryPeriod: trigger.DefaultPeriod,
		Pace:            v1alpha1.Pace{MaxObjectsPerSecond: arg.DefaultRate, MaxInFlight: arg.DefaultInFlight},
	}.Complete()
	plan, err := install.Plan(o, install.Portable(o), nil)
	if err != nil {
		return nil, err
	}
	isCRD := func(o *unstructured.Unstructured) bool { return o.GetKind() == "CustomResourceDefinition" }
	crds := slices.Clone(plan[:slices.IndexFunc(plan, func(o *unstructured.Unstructured) bool { return !isCRD(o) })])
	others := slices.DeleteFunc(plan, isCRD)
	manifests, err := install.YAML(others)
	if err != nil {
		return nil, err
	}
	replacements, err := imageReplacements(others)
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(config.CRDs, "crd/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("find CRDs: %w", err)
	}
	for n, name := range names {
		names[n] = path.Base(name)
	}
	files := map[string]string{"default/manifests.yaml": head + string(manifests)}
	for name, kustomization := range map[string]map[string]any{
		"crd/kustomization.yml": {"resources": names, "labels": []any{map[string]any{"pairs": crds[0].GetLabels()}}},
		"default/kustomization.yaml": {
			"resources": []string{"../crd", "manifests.yaml"},
			// as in the plan: objects that others refer to first, the controller last
			"sortOptions":  map[string]any{"order": "fifo"},
			"replacements": replacements,
		},
	} {
		kustomization["apiVersion"], kustomization["kind"] = "kustomize.config.k8s.io/v1beta1", "Kustomization"
		text, err := yaml.Marshal(kustomization)
		if err != nil {
			return nil, fmt.Errorf("write kustomization: %w", err)
		}
		files[name] = head + string(text)
	}
	return files, nil
}

// imageReplacements copies the image of the controller's container, which `kustomize edit set image` sets, to the other
// places that hold it: an argument of the controller, and the policy for the Jobs that it creates.
func imageReplacements(plan []*unstructured.Unstructured) ([]any, error) {
	const container = "spec.template.spec.containers.0.image"
	var targets []any
	for _, o := range plan {
		selected := map[string]any{"kind": o.GetKind(), "name": o.GetName()}
		for _, found := range placesOf(o.Object, "") {
			if found.path == container {
				continue
			}
			before, after, _ := strings.Cut(found.text, placeholder)
			delimiter := before[len(before)-1:]
			parts := strings.Split(found.text, delimiter)
			index := slices.Index(parts, placeholder)
			if index < 0 || strings.Contains(after, placeholder) {
				return nil, fmt.Errorf("%s %s: no delimiter separates the image in %q", o.GetKind(), o.GetName(), found.text)
			}
			targets = append(targets, map[string]any{
				"select":     selected,
				"fieldPaths": []string{found.path},
				"options":    map[string]any{"delimiter": delimiter, "index": index},
			})
		}
	}
	return []any{map[string]any{
		"source":  map[string]any{"kind": "Deployment", "name": install.Controller, "fieldPath": container},
		"targets": targets,
	}}, nil
}

// place is a text in an object.
type place struct{ path, text string }

// placesOf returns the texts below a path that hold the image, in the order of their paths.
func placesOf(value any, at string) []place {
	below := func(name string) string { return strings.TrimPrefix(at+"."+name, ".") }
	var found []place
	switch v := value.(type) {
	case string:
		if strings.Contains(v, placeholder) {
			found = append(found, place{at, v})
		}
	case []any:
		for n, element := range v {
			found = append(found, placesOf(element, below(fmt.Sprint(n)))...)
		}
	case map[string]any:
		for name, field := range v {
			found = append(found, placesOf(field, below(name))...)
		}
		slices.SortFunc(found, func(a, b place) int { return strings.Compare(a.path, b.path) })
	}
	return found
}
