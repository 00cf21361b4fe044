package aws

import "github.com/holdfast-io/holdfast/providers"

var catalogLoadBalancer = []providers.CatalogRow{}
