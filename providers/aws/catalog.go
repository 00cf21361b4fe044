package aws

import (
	"slices"

	"github.com/holdfast-io/holdfast/providers"
)

// catalog lists every field that the provider compares, kind by kind.
var catalog = slices.Concat(catalogInstance, catalogAttached, catalogNetwork, catalogLoadBalancer)

// Shorthand for the tables below.
const (
	inPlace    = providers.InPlace
	disruptive = providers.InPlaceDisruptive
	immutable  = providers.Immutable
	readOnly   = providers.ReadOnly
)

// row makes catalog rows of one kind.
func row(kind string) func(path, from string, m providers.Mutability, compare, source string) providers.CatalogRow {
	return func(path, from string, m providers.Mutability, compare, source string) providers.CatalogRow {
		return providers.CatalogRow{Kind: kind, Path: path, From: from, Mutability: m, Compare: compare, Source: source}
	}
}
