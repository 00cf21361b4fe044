package main

import (
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/aws"
	"github.com/holdfast-io/holdfast/providers/vsphere"
)

// registrations are the clouds that this binary knows, made with what a command
// sets for them. Adding one is its folder and a line here.
func registrations(forAWS ...aws.Option) []providers.Registration {
	return []providers.Registration{
		aws.Registration(forAWS...),
		vsphere.Registration(),
	}
}

// catalogs lists, by provider, every field that is compared: the paths that a
// policy may name.
func catalogs() map[string][]providers.CatalogRow {
	out := map[string][]providers.CatalogRow{}
	for _, r := range registrations() {
		out[r.Name] = r.Catalog
	}
	return out
}
