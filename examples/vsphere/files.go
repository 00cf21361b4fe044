// Package vsphereexamples holds the example vSphere cluster, so that the demo
// and the tests build exactly what a user reads.
package vsphereexamples

import "embed"

// Files are the manifests of this folder, one cluster a file.
//
//go:embed *.yaml
var Files embed.FS
