package vsphere

import "github.com/holdfast-io/holdfast/providers"

// Catalog gives every field that this provider compares.
func Catalog() []providers.CatalogRow { return nil }
