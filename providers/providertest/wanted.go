package providertest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

// pureRuns is how often Desired is asked for the same: map iteration starts at
// random, so that an order that depends on it hardly ever survives.
const pureRuns = 8

func checkDesiredPure(ctx context.Context, _ Harness, env *Environment, _ *testing.T) (out problems) {
	s, err := read(ctx, env)
	if err != nil {
		return problems{err.Error()}
	}
	snapBefore, calls := s.snap.Clone(), env.Mutations()
	for i, o := range env.Owners {
		before := cloneOwner(o)
		for range pureRuns {
			again, err := env.Provider.Desired(o, s.snap)
			if err != nil {
				return append(out, fmt.Sprintf("desired of %s failed when asked again: %v", o.Ref, err))
			}
			if diff := cmp.Diff(s.wants[i], again); diff != "" {
				out = append(out, fmt.Sprintf("desired of %s differs when asked again (-first +again):\n%s", o.Ref, diff))
				break
			}
		}
		if !reflect.DeepEqual(before, o) { // cmp would panic on unexported fields of foreign types
			out = append(out, fmt.Sprintf("desired of %s changed its owner", o.Ref))
		}
	}
	if diff := cmp.Diff(snapBefore, s.snap, byText); diff != "" {
		out = append(out, "desired changed the snapshot (-before +after):\n"+diff)
	}
	if env.Mutations() != calls {
		out = append(out, "desired made mutating calls")
	}
	return out
}

func cloneOwner(o *providers.Owner) *providers.Owner {
	c := *o
	c.Cluster, c.Machine = o.Cluster.DeepCopy(), o.Machine.DeepCopy()
	c.Infra, c.InfraCluster, c.Bootstrap = cloneObject(o.Infra), cloneObject(o.InfraCluster), cloneObject(o.Bootstrap)
	c.Siblings, c.Related = cloneObjects(o.Siblings), cloneObjects(o.Related)
	return &c
}

func cloneObject(o client.Object) client.Object {
	if o == nil {
		return nil
	}
	c, _ := o.DeepCopyObject().(client.Object)
	return c
}

func cloneObjects(objects []client.Object) []client.Object {
	if objects == nil {
		return nil
	}
	out := make([]client.Object, len(objects))
	for i, o := range objects {
		out[i] = cloneObject(o)
	}
	return out
}

func checkWanted(ctx context.Context, h Harness, env *Environment, _ *testing.T) (out problems) {
	s, err := read(ctx, env)
	if err != nil {
		return problems{err.Error()}
	}
	catalog := indexCatalog(h.Registration.Catalog)
	named := map[string]bool{}
	s.each(env, func(o *providers.Owner, w *providers.Resource) {
		say := func(format string, args ...any) {
			out = append(out, fmt.Sprintf("%s wants %s: ", o.Ref, w.ID)+fmt.Sprintf(format, args...))
		}
		if w.ID.Kind == "" {
			say("no kind")
		}
		if w.Owner != o.Ref {
			say("its owner is given as %s", w.Owner)
		}
		if w.Gone != "" || w.Unknown != "" || w.ForeignTo != "" || w.Closed != nil || w.ClusterTags != nil {
			say("it carries what only seen resources may: gone, unknown, foreign, closed or cluster tags")
		}
		if key := o.Ref.String() + string(o.Ref.UID) + w.ID.String(); w.ID.Name != "" {
			if named[key] {
				say("twice")
			}
			named[key] = true
		}
		for path, f := range w.Fields.All() {
			if !catalog.has(w.ID.Kind, path) {
				say("%s is not in the catalog", path)
			}
			if problem := badField(path, f); problem != "" {
				say("%s: %s", path, problem)
			}
		}
	})
	slices.Sort(out)
	return slices.Compact(out)
}

func badField(path string, f providers.Field) string {
	if !strings.HasPrefix(path, "/") || strings.HasSuffix(path, "/") {
		return "path is no JSON pointer to a field"
	}
	if f.Foreign != nil || f.Claimed != nil {
		return "a wanted field has no foreign or claimed elements"
	}
	_, isNumber := f.Value.Number()
	switch {
	case f.Match == providers.AtLeast && !isNumber:
		return "AtLeast needs a number"
	case f.Match == providers.Contains && !f.Value.IsSet():
		return "Contains needs a set"
	case f.Match == providers.OneOf && len(f.Value.Elements()) == 0:
		return "OneOf needs at least one element: nothing can satisfy an empty one"
	}
	return ""
}

// catalogIndex holds patterns by kind and number of segments.
type catalogIndex map[string][][]string

func indexCatalog(rows []providers.CatalogRow) catalogIndex {
	c := catalogIndex{}
	for _, row := range rows {
		c[row.Kind] = append(c[row.Kind], providers.Segments(row.Path))
	}
	return c
}

func (c catalogIndex) has(kind, path string) bool {
	segments := providers.Segments(path)
	return slices.ContainsFunc(c[kind], func(pattern []string) bool {
		return len(pattern) == len(segments) && !slices.ContainsFunc(indexes(pattern), func(i int) bool {
			return pattern[i] != segments[i] && !isPlaceholder(pattern[i])
		})
	})
}

func indexes(s []string) []int {
	out := make([]int, len(s))
	for i := range s {
		out[i] = i
	}
	return out
}

// isPlaceholder reports whether a catalog segment stands for any: KEY, or
// CATEGORY:NAME.
func isPlaceholder(segment string) bool {
	return segment != "" && strings.ToUpper(segment) == segment && strings.ToLower(segment) != segment
}

func checkRegistration(_ context.Context, h Harness, _ *Environment, _ *testing.T) (out problems) {
	r := h.Registration
	if r.Name == "" {
		out = append(out, "registration has no name")
	}
	if r.New == nil {
		out = append(out, "registration has no New")
	}
	if len(r.Owners) == 0 {
		out = append(out, "registration has no owners")
	}
	if r.AddToScheme == nil {
		out = append(out, "registration has no AddToScheme")
	} else {
		out = append(out, checkScheme(r)...)
	}
	return append(out, checkCatalog(r.Catalog)...)
}

func checkScheme(r providers.Registration) (out problems) {
	scheme := runtime.NewScheme()
	if err := r.AddToScheme(scheme); err != nil {
		return problems{fmt.Sprintf("AddToScheme: %v", err)}
	}
	for _, o := range r.Owners {
		if !scheme.Recognizes(o.GVK) {
			out = append(out, fmt.Sprintf("AddToScheme does not add %s, which the registration calls an owner", o.GVK))
		}
	}
	return out
}

func checkCatalog(rows []providers.CatalogRow) (out problems) {
	if len(rows) == 0 {
		return problems{"registration has no catalog"}
	}
	seen := map[string]bool{}
	for _, row := range rows {
		name := "catalog row " + row.Kind + row.Path
		if seen[name] {
			out = append(out, name+" stands twice")
		}
		seen[name] = true
		if row.Kind == "" || !strings.HasPrefix(row.Path, "/") || row.From == "" || row.Compare == "" || row.Source == "" {
			out = append(out, name+" is incomplete: it needs kind, path, from, compare and source")
		}
	}
	return out
}
