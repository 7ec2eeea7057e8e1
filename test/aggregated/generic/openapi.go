// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	generatedopenapi "k8s.io/apiextensions-apiserver/pkg/generated/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// openAPI describes the resource: without that, the server installs nothing. It takes the descriptions of Kubernetes' own
// types from another API server.
func openAPI() (*common.Config, *common.OpenAPIV3Config) {
	namer := openapi.NewDefinitionNamer(scheme)
	return genericapiserver.DefaultOpenAPIConfig(definitions, namer),
		genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
}

func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	all := generatedopenapi.GetOpenAPIDefinitions(ref)
	meta := func(name string) spec.Schema { return spec.Schema{SchemaProps: spec.SchemaProps{Ref: ref(name)}} }
	for version, count := range map[string]string{"V1": "teeth", "V2": "toothCount"} {
		one, list := "main.gear"+version, "main.gearList"+version
		objectMeta, listMeta := metav1.ObjectMeta{}.OpenAPIModelName(), metav1.ListMeta{}.OpenAPIModelName()
		all[one] = common.OpenAPIDefinition{Dependencies: []string{objectMeta}, Schema: object(map[string]spec.Schema{
			"apiVersion": *spec.StringProperty(), "kind": *spec.StringProperty(), "metadata": meta(objectMeta),
			"spec": object(map[string]spec.Schema{count: *spec.Int64Property()}),
		})}
		all[list] = common.OpenAPIDefinition{Dependencies: []string{listMeta, one}, Schema: object(map[string]spec.Schema{
			"apiVersion": *spec.StringProperty(), "kind": *spec.StringProperty(), "metadata": meta(listMeta),
			"items": *spec.ArrayProperty(new(meta(one))),
		})}
	}
	return all
}

func object(fields map[string]spec.Schema) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: fields}}
}
