// Package clusterapi gives the manifests that managed mode needs in a management
// cluster, for tests and for releases (make managed-crds): CRDs of Cluster API, of
// the providers that Holdfast takes the place of, and of clusterctl's inventory.
//
// None of them is a file of this repository. They are read from the folders of the
// modules that go.mod names, so that they are always of the version whose code
// runs. What upstream's kustomizations would add is read from those: contract
// labels, clusterctl's labels, and which kinds are converted. Two additions are
// Holdfast's own: see [fields] and [inventory].
package clusterapi
