package policies

import _ "embed"

// schemaJSON is generated from the types of package v1alpha1; a test keeps it
// fresh.
//
//go:embed schema/driftpolicy.schema.json
var schemaJSON []byte

// Schema is the JSON Schema (2020-12) of a policy document, for editors and
// for checks in CI. The loader checks more than a schema can.
func Schema() []byte { return schemaJSON }
