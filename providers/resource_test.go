package providers_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

func TestCovered(t *testing.T) {
	errKind, errPart := errors.New("kind"), errors.New("part")
	snap := &providers.Snapshot{Coverage: map[string]error{
		"Instance": nil, "Instance/tags": errPart, "Instance/tags/a": nil, "Volume": errKind, "Volume/tags": nil,
	}}
	tests := map[string]struct {
		kind, path string
		err        error
		known      bool
	}{
		"kind":                     {"Instance", "", nil, true},
		"path without a part":      {"Instance", "/type", nil, true},
		"part":                     {"Instance", "/tags", errPart, true},
		"below a part":             {"Instance", "/tags/b", errPart, true},
		"a more specific part":     {"Instance", "/tags/a", nil, true},
		"not at a segment's end":   {"Instance", "/tagsets", nil, true},
		"a failed kind fails all":  {"Volume", "/tags", errKind, true},
		"nothing said of the kind": {"VPC", "/tags", nil, false},
		"a longer kind":            {"InstanceX", "", nil, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			err, known := snap.Covered(tt.kind, tt.path)
			if !errors.Is(err, tt.err) || known != tt.known {
				t.Errorf("got %v, %v", err, known)
			}
		})
	}
}

func TestCloses(t *testing.T) {
	r := &providers.Resource{Closed: []string{"/tags", "/profile"}}
	for path, want := range map[string]bool{"/tags": true, "/tags/a": true, "/tagsets": false, "/profile": true, "/": false, "": false} {
		if got := r.Closes(path); got != want {
			t.Errorf("Closes(%q) = %v", path, got)
		}
	}
	whole := &providers.Resource{Closed: []string{""}}
	if !whole.Closes("/anything") {
		t.Error("the empty prefix closes everything")
	}
}

func TestCloneSharesNothing(t *testing.T) {
	s := sampleSnapshot()
	c := s.Clone()
	if diff := cmp.Diff(s, c, byText); diff != "" {
		t.Fatalf("-original +clone:\n%s", diff)
	}
	id := providers.ID{Kind: "Instance", Name: "i-1"}
	r := c.Resources[id]
	r.Set("/new", providers.Field{})
	r.Fields.Get("/ingress").Foreign["b"] = "x"
	r.Fields.Get("/ingress").Claimed["a"] = "x"
	r.Closed[0], r.Warnings[0], r.ClusterTags[0], r.Needs[0].Name = "x", "x", "x", "x"
	c.Serves[0] = "x"
	c.Coverage["new"] = nil
	delete(c.Resources, providers.ID{Kind: "Instance", Name: "i-0"})
	if diff := cmp.Diff(sampleSnapshot(), s, byText); diff != "" {
		t.Errorf("changing the clone changed the original:\n%s", diff)
	}
	if (*providers.Snapshot)(nil).Clone() != nil || (*providers.Resource)(nil).Clone() != nil {
		t.Error("the clone of nil is not nil")
	}
}

func TestSortOwners(t *testing.T) {
	owner := func(cluster, kind, name string) *providers.Owner {
		return &providers.Owner{
			Cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}},
			Ref:     providers.OwnerRef{Kind: kind, Name: name},
		}
	}
	owners := []*providers.Owner{owner("b", "A", "x"), owner("a", "B", "x"), owner("a", "A", "y"), owner("a", "A", "x")}
	providers.SortOwners(owners)
	var got []string
	for _, o := range owners {
		got = append(got, o.Cluster.Name+o.Ref.Kind+o.Ref.Name)
	}
	if diff := cmp.Diff([]string{"aAx", "aAy", "aBx", "bAx"}, got); diff != "" {
		t.Error(diff)
	}
}
