package sweep

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/fake"
)

// TestWithoutOwnersForATime: a cluster of which no infrastructure object is left
// lives nowhere for a time, and is read again once it has some.
func TestWithoutOwnersForATime(t *testing.T) {
	daemon(t, "", func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 1)
		l.cluster("prod", "c2", 1)
		l.start()
		pass(time.Minute)
		l.take()
		var owners []*inventory.Owner
		l.edit(func() { owners, l.inv.Clusters[1].Owners = l.inv.Clusters[1].Owners, nil })
		pass(20 * time.Minute)
		l.take()
		l.edit(func() { l.inv.Clusters[1].Owners = owners })
		pass(time.Hour)
		if got := strings.Join(l.take(), "; "); !strings.Contains(got, "prod/c2:2") {
			t.Errorf("c2 has owners again, and there came %q", got)
		}
	})
}

// vanishing is a cloud whose identities are gone, and during whose answer a
// Cluster goes.
type vanishing struct {
	*fake.Provider
	then func()
}

func (v *vanishing) Scope(ctx context.Context, o *providers.Owner) (providers.Scope, error) {
	if v.then != nil && o.Cluster.Name == "c2" {
		v.then()
		return providers.Scope{}, &providers.ScopeError{Reason: providers.ReasonUnreachable, Err: errors.New("its Secret is gone")}
	}
	return v.Provider.Scope(ctx, o)
}

// TestGoneWhileItIsLocated: a Cluster that goes while it is asked where one of its
// owners lives does not come back as a member of a place, which would be planned
// and swept for a cluster that nobody knows.
func TestGoneWhileItIsLocated(t *testing.T) {
	daemon(t, "", func(t *testing.T, l *live) {
		v := &vanishing{Provider: l.cloud}
		l.d.Providers[fake.Name] = v
		l.cluster("prod", "c1", 1)
		c := l.cluster("prod", "c2", 1)
		l.start()
		pass(time.Minute)
		l.take()
		ref := refOf(c)
		v.then = func() {
			l.d.mu.Lock()
			defer l.d.mu.Unlock()
			l.d.forgetCluster(ref)
			l.d.loads++
			l.d.applied = l.d.loads
		}
		if _, err := l.d.Fresh(t.Context(), ref, c.Owners[1].Ref); !errors.Is(err, errGone) {
			t.Errorf("what was read of it: %v", err)
		}
		v.then = nil
		l.edit(func() { l.inv.Clusters = l.inv.Clusters[:1] })
		for key, s := range l.d.sites {
			if s.members[ref] != nil {
				t.Errorf("%s has a member that is gone", key)
			}
		}
		l.follow(t, "")
		pass(time.Hour)
	})
}

// chained is a cloud in which each resource that is seen leads to another one that
// is wanted instead of it.
type chained struct{ *fake.Provider }

func (c chained) Desired(o *providers.Owner, snap *providers.Snapshot) ([]providers.Resource, error) {
	want, err := c.Provider.Desired(o, snap)
	if err != nil || o.Machine == nil {
		return want, err
	}
	for i := 0; i < 9; i++ {
		id := providers.ID{Kind: providers.KindInstance, Name: fmt.Sprintf("i-%d", i)}
		if snap.Resources[id] == nil || i == 8 {
			return []providers.Resource{{ID: id, Since: want[0].Since}}, nil
		}
	}
	return want, nil
}

// TestNotAskedForIsNotMissing: a resource that a targeted read has not asked for,
// since what is wanted was another one with each answer, is not known to be gone.
func TestNotAskedForIsNotMissing(t *testing.T) {
	daemon(t, "", func(t *testing.T, l *live) {
		l.d.Providers[fake.Name] = chained{l.cloud}
		c := l.cluster("prod", "c1", 1)
		l.start()
		pass(20 * time.Minute)
		for i := range 9 { // made since
			l.cloud.Put(&providers.Resource{ID: providers.ID{Kind: providers.KindInstance, Name: fmt.Sprintf("i-%d", i)}})
		}
		out, err := l.d.Fresh(t.Context(), refOf(c), c.Owners[1].Ref)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range out.Result.Decisions {
			if d.Finding.Status == detector.Missing {
				t.Errorf("%s is %s: %s", d.Finding.Resource.ID, d.Finding.Status, d.Finding.Reason)
			}
		}
		if len(out.Result.Decisions) == 0 {
			t.Error("nothing is said of it")
		}
	})
}
