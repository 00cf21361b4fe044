// Package providerobjects reads the Provider objects by which a management cluster
// says which Cluster API providers it has (clusterctl.cluster.x-k8s.io/v1alpha3),
// and says on each of them whether Holdfast serves it.
//
// There are two forms. Upstream's, which `clusterctl init` writes, has
// providerName, type and version at the top and no word of credentials, which are
// in a Secret of a fixed name beside it. The other has type, version and
// configSecret in a spec. [Read] makes one thing of both, and the controller
// ([Options.SetUp]) writes the second form's fields to the top, so that clusterctl
// lists it too.
//
// What follows from the objects (docs/adr/0014-provider-objects.md):
//
//	Wanted   the parts that `--reconcilers auto` loads
//	Source   the credentials of a part, read anew whenever they are asked for
//
// It stands beside the other reconcilers and knows no cloud: what credentials are
// used for is the program's to wire.
package providerobjects
