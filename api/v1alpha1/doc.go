// Package v1alpha1 holds the types of drift.holdfast.io/v1alpha1. The comments
// on types and fields are the documentation that users see: they become the
// descriptions of the published JSON Schema and of the policy reference.
//
// The types only describe documents; package policies reads and judges them.
//
// +kubebuilder:object:generate=true
// +groupName=drift.holdfast.io
package v1alpha1
