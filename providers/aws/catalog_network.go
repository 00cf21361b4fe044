package aws

import "github.com/holdfast-io/holdfast/providers"

var catalogNetwork = []providers.CatalogRow{}
