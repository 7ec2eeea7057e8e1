// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

//go:generate ../../tools/run controller-gen object:headerFile=boilerplate.txt crd:maxDescLen=2000 paths=. output:crd:dir=../../config/crd
