package aws

import (
	"cmp"
	"runtime"
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/holdfast-io/holdfast/providers"
)

// indexes remembers which ids of a kind a snapshot holds, so that ten thousand
// machines with a filter each do not look through the snapshot ten thousand
// times. It holds no snapshot alive, and ids only: a resource that is replaced
// in its snapshot is found as it is now.
var indexes sync.Map // of weak.Pointer[providers.Snapshot] to *kindIndex

type kindIndex struct {
	// size and taken tell a snapshot that was filled further since.
	size  int
	taken time.Time
	kinds map[string][]providers.ID
}

// ofKind gives the snapshot's resources of a kind in order of their ids.
func ofKind(snap *providers.Snapshot, kind string) []*providers.Resource {
	ids := indexOf(snap).kinds[kind]
	out := make([]*providers.Resource, 0, len(ids))
	for _, id := range ids {
		if r := snap.Resources[id]; r != nil {
			out = append(out, r)
		}
	}
	return out
}

func indexOf(snap *providers.Snapshot) *kindIndex {
	key := weak.Make(snap)
	known, ok := indexes.Load(key)
	if ok && known.(*kindIndex).size == len(snap.Resources) && known.(*kindIndex).taken.Equal(snap.TakenAt) {
		return known.(*kindIndex)
	}
	index := &kindIndex{size: len(snap.Resources), taken: snap.TakenAt, kinds: map[string][]providers.ID{}}
	for id := range snap.Resources {
		index.kinds[id.Kind] = append(index.kinds[id.Kind], id)
	}
	for _, ids := range index.kinds {
		slices.SortFunc(ids, func(a, b providers.ID) int { return cmp.Compare(a.Name, b.Name) })
	}
	indexes.Store(key, index)
	if !ok {
		runtime.AddCleanup(snap, func(k weak.Pointer[providers.Snapshot]) { indexes.Delete(k) }, key)
	}
	return index
}
