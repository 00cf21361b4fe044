package fake_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/fake"
)

var (
	start   = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	owner   = &providers.Owner{Ref: providers.OwnerRef{Kind: "Machine", Namespace: "prod", Name: "m1"}}
	idOne   = providers.ID{Kind: "Instance", Name: "i-1"}
	errTest = errors.New("refused")
)

func newCloud() (*fake.Provider, *time.Time, providers.Scope) {
	now := start
	p := fake.New("1", "r", func() time.Time { return now }, "Instance")
	return p, &now, providers.Scope{Provider: fake.Name, Account: "1", Region: "r"}
}

func TestDelayedVisibility(t *testing.T) {
	p, now, scope := newCloud()
	p.PutLate(&providers.Resource{ID: idOne}, start.Add(2*time.Minute), start.Add(time.Minute))
	type shown struct{ Bulk, Live bool }
	var got []shown
	for range 3 {
		snap, err := p.Observe(t.Context(), scope)
		if err != nil {
			t.Fatal(err)
		}
		c, err := p.Confirm(t.Context(), scope, []providers.ID{idOne})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, shown{snap.Resources[idOne] != nil, c.Resources[idOne] != nil})
		*now = now.Add(time.Minute)
	}
	if diff := cmp.Diff([]shown{{false, false}, {false, true}, {true, true}}, got); diff != "" {
		t.Errorf("by minute (-want +got):\n%s", diff)
	}
}

func TestInjectedErrors(t *testing.T) {
	p, _, scope := newCloud()
	p.Put(&providers.Resource{ID: idOne})
	ids := []providers.ID{idOne}
	for op, call := range map[string]func() error{
		fake.OpScope:   func() error { _, err := p.Scope(t.Context(), owner); return err },
		fake.OpObserve: func() error { _, err := p.Observe(t.Context(), scope); return err },
		fake.OpConfirm: func() error { _, err := p.Confirm(t.Context(), scope, ids); return err },
	} {
		p.Fail(op, errTest)
		if err := call(); !errors.Is(err, errTest) {
			t.Errorf("%s: %v", op, err)
		}
		p.Fail(op, nil)
		if err := call(); err != nil {
			t.Errorf("%s after the fault: %v", op, err)
		}
	}
	p.WantError(owner.Ref, errTest)
	if _, err := p.Desired(owner, &providers.Snapshot{}); !errors.Is(err, errTest) {
		t.Errorf("desired: %v", err)
	}
	p.Unreadable(idOne, errTest)
	c, err := p.Confirm(t.Context(), scope, ids)
	if err != nil || !errors.Is(c.Unconfirmed[idOne], errTest) || c.Resources[idOne] != nil {
		t.Errorf("unreadable: %+v, %v", c, err)
	}
	p.Unreadable(idOne, nil)
	p.Cover("Instance", errTest)
	snap, err := p.Observe(t.Context(), scope)
	if err != nil || !errors.Is(snap.Coverage["Instance"], errTest) || len(snap.Resources) != 0 {
		t.Errorf("uncovered: %+v, %v", snap, err)
	}
}

func TestCallsAndMutations(t *testing.T) {
	p, _, scope := newCloud()
	p.Put(&providers.Resource{ID: idOne})
	p.Alter(idOne, func(r *providers.Resource) { r.Name = "new" })
	if p.Alter(providers.ID{Kind: "Instance", Name: "i-2"}, func(*providers.Resource) {}) || p.Remove(providers.ID{}) {
		t.Error("changed what does not exist")
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	_, _ = p.Scope(t.Context(), owner)
	_, _ = p.Observe(cancelled, scope)
	_, _ = p.Confirm(t.Context(), scope, []providers.ID{idOne})
	want := []fake.Call{
		{Op: fake.OpScope, Scope: scope, Owner: owner.Ref},
		{Op: fake.OpObserve, Scope: scope},
		{Op: fake.OpConfirm, Scope: scope, IDs: []providers.ID{idOne}},
	}
	if diff := cmp.Diff(want, p.Calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if p.Mutations() != 2 {
		t.Errorf("mutations: %d", p.Mutations())
	}
}

// What was given out stays the test's: changing it does not change the cloud.
func TestSnapshotsShareNothing(t *testing.T) {
	p, _, scope := newCloud()
	r := &providers.Resource{ID: idOne, Fields: providers.FieldsOf(map[string]providers.Field{"/a": {Value: providers.Int(1)}})}
	p.Put(r)
	for range 2 {
		snap, err := p.Observe(t.Context(), scope)
		if err != nil {
			t.Fatal(err)
		}
		if got := snap.Resources[idOne].Fields.Get("/a").Value.Text(); got != "1" {
			t.Fatalf("/a is %s", got)
		}
		snap.Resources[idOne].Set("/a", providers.Field{Value: providers.Int(2)})
		r.Set("/a", providers.Field{Value: providers.Int(3)})
	}
}
