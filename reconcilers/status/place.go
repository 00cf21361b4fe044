package status

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/openapi"
)

// place is where a kind keeps its conditions.
type place struct {
	// path of the list; empty where the kind has none.
	path []string
	// keyed lists are maps by type: server-side apply owns single entries.
	keyed bool
}

// placeAge is how long an answer is kept: a provider that is upgraded to
// another contract is seen within it.
const placeAge = 15 * time.Minute

// places asks the API server's OpenAPI documents, which every authenticated
// client may read, where kinds keep their conditions.
type places struct {
	mapper  meta.RESTMapper
	openAPI openapi.Client
	now     func() time.Time

	mu   sync.Mutex
	docs map[schema.GroupVersion]*document
}

type document struct {
	at    time.Time
	kinds map[string]place
}

// of gives the version in which an object is to be written, and the place of
// its conditions there. The wanted version is taken where it is served.
func (p *places) of(wanted schema.GroupVersionKind) (schema.GroupVersionKind, place, error) {
	mapping, err := p.mapper.RESTMapping(wanted.GroupKind(), wanted.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = p.mapper.RESTMapping(wanted.GroupKind())
	}
	if err != nil {
		return schema.GroupVersionKind{}, place{}, fmt.Errorf("find a served version of %s: %w", wanted.GroupKind(), err)
	}
	gvk := mapping.GroupVersionKind
	doc, err := p.document(gvk.GroupVersion())
	if err != nil {
		return schema.GroupVersionKind{}, place{}, fmt.Errorf("find where %s keeps conditions: %w", gvk, err)
	}
	return gvk, doc.kinds[gvk.Kind], nil
}

func (p *places) document(gv schema.GroupVersion) (*document, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d := p.docs[gv]; d != nil && p.now().Sub(d.at) < placeAge {
		return d, nil
	}
	paths, err := p.openAPI.Paths()
	if err != nil {
		return nil, err
	}
	source := paths["apis/"+gv.String()]
	if source == nil {
		return nil, fmt.Errorf("the API server describes no %s", gv)
	}
	data, err := source.Schema("application/json")
	if err != nil {
		return nil, err
	}
	kinds, err := parsePlaces(data)
	if err != nil {
		return nil, fmt.Errorf("read the description of %s: %w", gv, err)
	}
	d := &document{at: p.now(), kinds: kinds}
	if p.docs == nil {
		p.docs = map[schema.GroupVersion]*document{}
	}
	p.docs[gv] = d
	return d, nil
}

// node is as much of an OpenAPI schema as leads to the conditions.
type node struct {
	Properties map[string]json.RawMessage `json:"properties"`
	ListType   string                     `json:"x-kubernetes-list-type"`
	ListKeys   []string                   `json:"x-kubernetes-list-map-keys"`
	Kinds      []schema.GroupVersionKind  `json:"x-kubernetes-group-version-kind"`
}

// parsePlaces finds the place of each kind in an OpenAPI v3 document.
func parsePlaces(data []byte) (map[string]place, error) {
	var doc struct {
		Components struct {
			Schemas map[string]node `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, err
	}
	out := map[string]place{}
	for _, s := range doc.Components.Schemas {
		for _, gvk := range s.Kinds {
			out[gvk.Kind] = placeIn(&s)
		}
	}
	return out, nil
}

// placeIn prefers the places that can be owned entry by entry.
func placeIn(kind *node) place {
	current, found := kind.at("status", "conditions")
	if found && current.byType() {
		return place{path: []string{"status", "conditions"}, keyed: true}
	}
	if next, ok := kind.at("status", "v1beta2", "conditions"); ok && next.byType() {
		return place{path: []string{"status", "v1beta2", "conditions"}, keyed: true}
	}
	if found {
		return place{path: []string{"status", "conditions"}}
	}
	return place{}
}

func (n *node) byType() bool {
	return n.ListType == "map" && slices.Equal(n.ListKeys, []string{"type"})
}

func (n *node) at(path ...string) (*node, bool) {
	for _, key := range path {
		raw, ok := n.Properties[key]
		if !ok {
			return nil, false
		}
		next := &node{}
		if json.Unmarshal(raw, next) != nil {
			return nil, false
		}
		n = next
	}
	return n, true
}
