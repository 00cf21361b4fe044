package policies

import (
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// Options are what a loader needs to know beyond the files.
type Options struct {
	// Catalog has the rows of every registered provider by its name. Unknown
	// providers, kinds and paths are errors. Without a catalog they are not
	// checked.
	Catalog map[string][]providers.CatalogRow
}

// Source is one file or object to load.
type Source struct {
	// Name is a path, or "DriftPolicy/NAME" for an object.
	Name string
	Data []byte
}

// Set is the built-in policies and those that were loaded. It is immutable and
// safe for concurrent use.
type Set struct {
	policies []*policy
}

type policy struct{}

// Builtin is the built-in policies alone.
func Builtin() *Set { return &Set{} }

// Load reads policies from files and folders. Where a problem is an error the
// set is nil; warnings come with a set. All problems are found at once.
func Load(opts Options, paths ...string) (*Set, Problems) { return &Set{}, nil }

// LoadSources is Load for policies that have been read already.
func LoadSources(opts Options, sources ...Source) (*Set, Problems) { return &Set{}, nil }

// Effective is what the policies of a set come to for one cluster.
type Effective struct {
	Cluster detector.ClusterRef
	Mode    Mode
}

// For gives what holds for a cluster with these labels.
func (s *Set) For(cluster detector.ClusterRef, labels map[string]string) *Effective {
	return &Effective{Cluster: cluster, Mode: ModeObserve}
}
