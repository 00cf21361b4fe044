package detector

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
)

// fingerprintVersion changes only with what a fingerprint covers. A change
// makes every known finding new: to ignore lists, to attempts, to people.
const fingerprintVersion = "1"

// fingerprintBytes is how much of the hash is kept: 128 bits, which no number
// of findings makes collide.
const fingerprintBytes = 16

// Fingerprint names the drift that a finding shows: the same in every run for
// the same drift of the same resource, whatever its seen scalar values, times
// and reasons are. It covers the owner (its UID, or kind, namespace and name
// where there is none), the resource, the status, and of each diff the path,
// the type and a set's element. It is pure and does not depend on the diffs'
// order; policies use it again for a finding that holds some of the diffs.
func Fingerprint(f *Finding) string {
	h := hashed{}
	h.part(fingerprintVersion)
	if f.Owner.UID != "" {
		h.part("uid", string(f.Owner.UID))
	} else {
		h.part("name", f.Owner.Kind, f.Owner.Namespace, f.Owner.Name)
	}
	h.part(f.Resource.Provider, f.Resource.Kind, f.Resource.ID, string(f.Status))
	keys := make([]string, 0, len(f.Diffs))
	for i := range f.Diffs {
		d := hashed{}
		d.part(f.Diffs[i].Path, string(f.Diffs[i].Type), element(&f.Diffs[i]))
		keys = append(keys, string(d))
	}
	slices.Sort(keys)
	for _, k := range keys {
		h.part(k)
	}
	sum := sha256.Sum256(h)
	return hex.EncodeToString(sum[:fingerprintBytes])
}

// element leaves sensitive ones out: they are digests under a key that may
// differ from run to run.
func element(d *Diff) string {
	if !d.Element || d.Sensitive {
		return ""
	}
	if d.Want.IsAbsent() {
		return d.Have.Text()
	}
	return d.Want.Text()
}

// hashed gathers parts, each behind its length so that no two lists of parts
// read the same.
type hashed []byte

func (h *hashed) part(parts ...string) {
	for _, p := range parts {
		*h = binary.AppendUvarint(*h, uint64(len(p)))
		*h = append(*h, p...)
	}
}

func sortDiffs(diffs []Diff) {
	slices.SortFunc(diffs, func(a, b Diff) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		if c := strings.Compare(element(&a), element(&b)); c != 0 {
			return c
		}
		return strings.Compare(string(a.Type), string(b.Type))
	})
}
