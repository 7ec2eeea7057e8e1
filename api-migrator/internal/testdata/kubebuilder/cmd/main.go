/*
Copyright 2024 The Test Organisation.
*/

// Command cmd prints the kinds that it knows.
package main

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	cachev1 "github.com/test-org/cache-operator/api/v1"
	// +kubebuilder:scaffold:imports
)

var scheme = runtime.NewScheme()

func init() {
	utilruntime.Must(cachev1.AddToScheme(scheme))
	// +kubebuilder:scaffold:scheme
}

func main() {
	fmt.Println(scheme.IsGroupRegistered(cachev1.GroupVersion.Group), scheme.Recognizes(cachev1.GroupVersion.WithKind("Memcached")))
}
