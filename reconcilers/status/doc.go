// Package status shows on Cluster API's objects what sweeps came to: the
// conditions DriftDetected and InfrastructureDrifted, and Kubernetes events
// where they change. It stands at the end of the pipeline and decides nothing.
//
// # Where conditions go
//
// Cluster API's contracts keep conditions in three places, and the API server
// says in its OpenAPI document which of them a kind has:
//
//   - status.conditions as a map keyed by type (contract v1beta2: Cluster API
//     1.11 and later, CAPV 1.16): ours is set by server-side apply, so that the
//     object's own controller keeps the others;
//   - status.v1beta2.conditions, the same as a transition (objects served at
//     v1beta1 by Cluster API 1.9 and later): likewise;
//   - status.conditions as one atomic list (contract v1beta1: CAPA 2.13).
//     Server-side apply would take the whole list from CAPA. Ours is put into
//     the list as it stands by a patch that names the resourceVersion, and tried
//     again on a conflict: that is how Cluster API's own patch helper, which CAPA
//     uses, sets single conditions, and it keeps those that it did not set.
//
// See docs/adr/0010-conditions-in-three-places.md.
//
// # When nothing is written
//
// What the sweep read is compared with what the object carried in the same
// read; only where the two differ is the object read again, live, and then
// written. A process that starts anew and finds what it would write writes
// nothing.
package status
