// Package crds holds the generated CustomResourceDefinitions of
// drift.holdfast.io, so that programs and tests can install them.
package crds

import "embed"

// Files are the definitions, one file each.
//
//go:embed *.yaml
var Files embed.FS
