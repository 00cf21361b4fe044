package report

import _ "embed"

// Schema is the JSON Schema (draft 2020-12) of a report's JSON form. It is
// generated from the types in this package and verified by a test.
//
//go:embed schema/report.schema.json
var Schema []byte
