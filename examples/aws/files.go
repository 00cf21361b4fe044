// Package awsexamples holds the example AWS clusters, so that the demo and the
// tests build exactly what a user reads.
package awsexamples

import "embed"

// Files are the manifests of this folder, one cluster a file.
//
//go:embed *.yaml
var Files embed.FS
