package policies

import (
	_ "embed"
	"strings"
)

// zonesText lists the IANA zones of the region/city form. It only serves to
// name the nearest zone for a misspelt one; which zones there are is decided
// by the zone database.
//
//go:embed zones.txt
var zonesText string

var zoneNames = strings.Fields(zonesText)
