// Copyright 2019 The Test Operator Authors

// Package operators contains operators API versions.
//
// This file ensures Go source parsers acknowledge the operators package
// and any child packages. It can be removed if any other Go source files are
// added to this package.
package operators
