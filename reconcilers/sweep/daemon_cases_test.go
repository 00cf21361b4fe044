package sweep

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/fake"
)

// TestC63ClusterctlMove takes neither what goes at the source for a loss nor
// what it leaves in the cloud for an orphan.
func TestC63ClusterctlMove(t *testing.T) {
	daemon(t, enforcing(""), func(t *testing.T, l *live) {
		c := l.cluster("prod", "c1", 3)
		settled(l)
		for _, name := range []string{"prod-c1-0", "prod-c1-1", "prod-c1-2"} {
			l.cloud.Alter(instance(name), func(r *providers.Resource) { r.ClusterTags = []string{"c1"} })
		}
		l.retype("prod-c1-2", "m5.xlarge")
		l.start()
		pass(time.Minute)
		statuses := func() map[string]detector.Status {
			t.Helper()
			l.d.Ask(Request{Cause: CauseRequested})
			pass(time.Second)
			out := map[string]detector.Status{}
			o := l.last()
			for i := range o.Result.Decisions {
				d := &o.Result.Decisions[i]
				out[d.Finding.Owner.Kind+"/"+d.Finding.Owner.Name+" "+d.Finding.Resource.ID] = d.Finding.Status
				if d.Executable() {
					t.Errorf("%s of %s may be executed while the cluster is moved", d.Action, d.Finding.Owner)
				}
			}
			return out
		}
		l.edit(func() { // clusterctl pauses the Cluster first
			object := c.Object.DeepCopy()
			object.Spec.Paused = ptr.To(true)
			c.Object = object
			for _, o := range c.Owners {
				o.Cluster = object
			}
			c.Owners = slices.Delete(c.Owners, 1, 2) // then the first machine goes
		})
		got := statuses()
		if got["Cluster/c1 i-prod-c1-0"] != detector.Unknown {
			t.Errorf("what the deleted machine leaves is %v", got)
		}
		l.edit(func() {
			c.Owners[1].Machine.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
		})
		got = statuses()
		for what, status := range got {
			if status != detector.NotChecked && status != detector.Unknown {
				t.Errorf("while objects are deleted %s is %s", what, status)
			}
		}
		l.take()
		l.edit(func() { l.inv.Clusters = nil })
		l.d.noticeCluster()
		pass(time.Minute)
		if got := l.take(); len(got) != 1 || !strings.Contains(got[0], "gone [prod/c1]") {
			t.Errorf("when the Cluster is gone: %v", got)
		}
	})
}

// TestC54InFlightEverywhere counts machines of clusters that are not read,
// whoever is at work on them, where a budget is about all clusters.
func TestC54InFlightEverywhere(t *testing.T) {
	daemon(t, enforcing("")+"\nbudgets: [{scope: all, actions: [patch, replace], max: 1}]", func(t *testing.T, l *live) {
		c := l.cluster("prod", "c1", 5)
		settled(l)
		l.retype("prod-c1-0", "m5.xlarge")
		busyNow := false
		l.d.Load = func(ctx context.Context, s inventory.Selection) (*inventory.Inventory, error) {
			inv, err := l.load(ctx, s)
			if err != nil || s.Others == nil {
				return inv, err
			}
			m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "x"}, Spec: clusterv1.MachineSpec{ClusterName: "far"}}
			e := inventory.Elsewhere{Key: types.NamespacedName{Namespace: "other", Name: "far"}, Machines: 1,
				Object: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "far"}}}
			if busyNow {
				m.DeletionTimestamp = ptr.To(metav1.Now())
			}
			if s.Others(m) {
				e.Busy = append(e.Busy, m)
			}
			inv.Elsewhere = append(inv.Elsewhere, e)
			return inv, nil
		}
		for _, tc := range []struct {
			busy bool
			want string
		}{{false, "-"}, {true, policies.GateBudget}, {false, "-"}} {
			busyNow = tc.busy
			o, err := l.d.Fresh(context.Background(), refOf(c), c.Owners[1].Ref)
			if err != nil {
				t.Fatal(err)
			}
			if got := blocks(t, o, "c1-0"); got != tc.want {
				t.Errorf("while another cluster's machine is being deleted (%v) blocked by %s, want %s", tc.busy, got, tc.want)
			}
		}
	})
}

// TestDaemonOneSweepAtATime never reads a scope twice at once, and reads
// different scopes side by side, no more of them than it may.
func TestDaemonOneSweepAtATime(t *testing.T) {
	daemon(t, "", func(t *testing.T, l *live) {
		slow := &slowCloud{Provider: l.cloud, busy: map[providers.Scope]int{}}
		l.d.Providers[fake.Name] = slow
		for i := range 6 {
			l.cluster("prod", fmt.Sprintf("c%d", i), 1)
		}
		l.start()
		for range 30 {
			l.d.Ask(Request{Cause: CauseRequested})
			pass(3 * time.Second)
		}
		pass(5 * time.Minute)
		if slow.twice {
			t.Error("a scope was read twice at once")
		}
		if slow.most < 2 || slow.most > DefaultConcurrency {
			t.Errorf("%d scopes were read at once, want 2 to %d", slow.most, DefaultConcurrency)
		}
	})
}

// slowCloud takes ten seconds for a read, and has a scope for each cluster.
type slowCloud struct {
	*fake.Provider
	mu    sync.Mutex
	busy  map[providers.Scope]int
	twice bool
	most  int
}

func (s *slowCloud) Scope(ctx context.Context, o *providers.Owner) (providers.Scope, error) {
	scope, err := s.Provider.Scope(ctx, o)
	scope.Region = o.Cluster.Name
	return scope, err
}

func (s *slowCloud) Observe(ctx context.Context, scope providers.Scope) (*providers.Snapshot, error) {
	s.enter(scope)
	select {
	case <-time.After(10 * time.Second):
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.busy[scope]--
	s.mu.Unlock()
	return s.Provider.Observe(ctx, scope)
}

func (s *slowCloud) enter(scope providers.Scope) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy[scope]++
	at := 0
	for _, n := range s.busy {
		at += n
	}
	s.most, s.twice = max(s.most, at), s.twice || s.busy[scope] > 1
}

func (s *slowCloud) Watch(ctx context.Context, _ providers.Scope, _ func(providers.Event)) error {
	<-ctx.Done()
	return nil
}

// hesitant takes ten seconds to say where a cluster lives.
type hesitant struct {
	*fake.Provider
	cluster string
}

func (h *hesitant) Scope(ctx context.Context, o *providers.Owner) (providers.Scope, error) {
	if o.Cluster.Name == h.cluster && o.Machine == nil {
		time.Sleep(10 * time.Second)
	}
	return h.Provider.Scope(ctx, o)
}

// TestDaemonStartsOnce waits until it knows of all clusters where they live, so
// that a scope is not read again for each that turns out to be in it.
func TestDaemonStartsOnce(t *testing.T) {
	daemon(t, "", func(_ *testing.T, l *live) {
		l.d.Providers[fake.Name] = &hesitant{Provider: l.cloud, cluster: "c2"}
		l.cluster("prod", "c1", 1)
		l.cluster("prod", "c2", 1)
		l.start()
		pass(2 * time.Minute)
		l.expect("00:00:20 Start prod/c1:2,prod/c2:2")
	})
}

// TestDaemonStops ends while a cloud hangs, at any moment.
func TestDaemonStops(t *testing.T) {
	for _, after := range []time.Duration{0, time.Second, 12 * time.Second, time.Minute} {
		daemon(t, "", func(_ *testing.T, l *live) {
			l.d.Providers[fake.Name] = &slowCloud{Provider: l.cloud, busy: map[providers.Scope]int{}}
			l.cluster("prod", "c1", 1)
			l.start()
			pass(after)
			l.stop()
			l.take()
			pass(time.Hour)
			l.expect()
		})
	}
}

// TestDaemonStaleViews goes through random histories of objects and cloud, read
// in any order by sweeps, events and fresh reads, and never finds a machine
// missing that exists, nor acts on one whose object is another by now.
func TestDaemonStaleViews(t *testing.T) {
	acted := 0
	seeds := 500
	if testing.Short() {
		seeds = 50
	}
	for seed := range seeds {
		daemon(t, enforcing("")+"\n- {id: gone, target: {provider: fake, kind: Instance, statuses: [Missing]}, action: replace}", func(t *testing.T, l *live) {
			c := l.cluster("prod", "c1", 6)
			settled(l)
			s := &history{live: l, t: t, c: c, r: rand.New(rand.NewPCG(uint64(seed), 7)), dead: map[string]bool{}, drifted: map[string]bool{}, generation: map[int]int{}}
			for i, o := range c.Owners[1:] {
				s.renew(i, o, false)
			}
			l.consume = s.check
			defer func() { acted += s.acted }()
			l.start()
			pass(10 * time.Minute) // past the creation grace
			for range 25 {
				s.step()
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
	if acted < seeds/10 {
		t.Errorf("in %d histories %d decisions could be executed: the test shows nothing", seeds, acted)
	}
	t.Logf("%d decisions could be executed", acted)
}

// history is what happens to one cluster.
type history struct {
	*live
	t          *testing.T
	c          *inventory.Cluster
	r          *rand.Rand
	dead       map[string]bool // instances that do not exist
	drifted    map[string]bool
	generation map[int]int
	checking   sync.Mutex
	acted      int
}

// renew puts another machine of the same name in place of one.
func (h *history) renew(i int, o *inventory.Owner, deleting bool) {
	h.generation[i]++
	ref := o.Ref
	ref.UID = types.UID(fmt.Sprintf("uid-%d-%d", i, h.generation[i]))
	next := &inventory.Owner{Provider: o.Provider, Owner: o.Owner}
	next.Ref, next.Machine = ref, o.Machine.DeepCopy()
	next.Machine.DeletionTimestamp = nil
	if deleting {
		next.Machine.DeletionTimestamp = ptr.To(metav1.Now())
	}
	h.c.Owners[i+1] = next
	id := instance(fmt.Sprintf("%s-gen%d", o.Ref.Name, h.generation[i]))
	want := providers.Resource{ID: id, Fields: providers.FieldsOf(map[string]providers.Field{"/instanceType": {Value: providers.String("m5.large"), Mutability: providers.InPlaceDisruptive}})}
	h.cloud.Want(ref, want)
	h.cloud.Put(&providers.Resource{ID: id, Fields: providers.FieldsOf(map[string]providers.Field{"/instanceType": {Value: providers.String("m5.large")}})})
}

func (h *history) id(i int) providers.ID {
	return instance(fmt.Sprintf("c1-%d-gen%d", i, h.generation[i]))
}

func (h *history) step() {
	i := h.r.IntN(6)
	owner := h.c.Owners[i+1]
	switch h.r.IntN(9) {
	case 0: // the machine is replaced under the same name
		h.edit(func() { h.renew(i, owner, false) })
	case 1: // its instance goes
		h.checking.Lock()
		h.cloud.Remove(h.id(i))
		h.dead[h.id(i).Name] = true
		h.checking.Unlock()
	case 2:
		h.checking.Lock()
		if h.cloud.Alter(h.id(i), func(r *providers.Resource) {
			r.Fields.Set("/instanceType", providers.Field{Value: providers.String("m5.xlarge")})
		}) {
			h.drifted[h.id(i).Name] = true
		}
		h.checking.Unlock()
	case 3: // an event comes late, of any generation
		h.cloud.Tell(providers.Event{IDs: []providers.ID{instance(fmt.Sprintf("c1-%d-gen%d", i, 1+h.r.IntN(h.generation[i])))}}, time.Second)
	case 4:
		h.d.Ask(Request{Cause: CauseRequested})
	case 5: // somebody holds on to what it was
		old := owner.Ref
		old.UID = types.UID(fmt.Sprintf("uid-%d-%d", i, 1+h.r.IntN(h.generation[i])))
		if o, err := h.d.Fresh(context.Background(), refOf(h.c), old); err == nil {
			h.check(o)
		}
	case 6:
		h.edit(func() {
			next := &inventory.Owner{Provider: owner.Provider, Owner: owner.Owner}
			next.Machine = owner.Machine.DeepCopy()
			next.Machine.DeletionTimestamp = ptr.To(metav1.Now())
			h.c.Owners[i+1] = next
		})
	case 7:
		h.cloud.Fail(fake.OpConfirm, fmt.Errorf("throttled"))
	case 8:
		h.cloud.Fail(fake.OpConfirm, nil)
	}
	pass(time.Duration(h.r.IntN(int(5 * time.Minute))))
}

// check holds an outcome against the truth of the moment of its reading: dead
// instances do not come back, so one that was called missing must be dead now.
func (h *history) check(o *Outcome) {
	h.checking.Lock()
	defer h.checking.Unlock()
	for i := range o.Result.Decisions {
		d := &o.Result.Decisions[i]
		id := d.Finding.Resource.ID
		if d.Finding.Status == detector.Missing && !h.dead[id] {
			h.t.Errorf("%s exists and was called missing (%s)", id, o.Cause)
		}
		if d.Finding.Status == detector.Drifted && !h.drifted[id] {
			h.t.Errorf("%s was never changed and was called drifted", id)
		}
		if !d.Executable() {
			continue
		}
		h.acted++
		for _, c := range o.Inventory.Clusters {
			for _, owner := range c.Owners {
				if owner.Ref.Name == d.Finding.Owner.Name && owner.Ref.UID != d.Finding.Owner.UID {
					h.t.Errorf("%s of %s may be executed on an object that is another by now", d.Action, d.Finding.Owner)
				}
				if owner.Ref == d.Finding.Owner && !owner.Machine.DeletionTimestamp.IsZero() {
					h.t.Errorf("%s of %s may be executed, and it is being deleted", d.Action, d.Finding.Owner)
				}
			}
		}
	}
}
