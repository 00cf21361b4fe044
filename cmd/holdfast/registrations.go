package main

import (
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/aws"
	"github.com/holdfast-io/holdfast/providers/node"
	"github.com/holdfast-io/holdfast/providers/vsphere"
)

// registrations are the clouds that this binary knows, made with what a command
// sets for them, and with the Nodes of their machines if those are to be read
// too. Adding one is its folder and a line here.
func registrations(nodes bool, forAWS ...aws.Option) []providers.Registration {
	out := []providers.Registration{
		aws.Registration(forAWS...),
		vsphere.Registration(),
	}
	if nodes {
		for i := range out {
			out[i] = node.Extend(out[i])
		}
	}
	return out
}

// catalogs lists, by provider, every field that is compared: the paths that a
// policy may name, also where the command at hand does not read Nodes.
func catalogs() map[string][]providers.CatalogRow {
	out := map[string][]providers.CatalogRow{}
	for _, r := range registrations(true) {
		out[r.Name] = r.Catalog
	}
	return out
}
