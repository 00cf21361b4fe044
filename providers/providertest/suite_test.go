package providertest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/fake"
)

var errRefused = errors.New("UnauthorizedOperation")

func id(kind, name string) providers.ID { return providers.ID{Kind: kind, Name: name} }

// newFake makes a harness and an environment of two owners on the fake.
func newFake(t *testing.T) (Harness, *Environment) {
	t.Helper()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	p := fake.New("111122223333", "eu-west-1", func() time.Time { return now }, "Instance", "Volume", "SecurityGroup")
	p.Cover("Instance/tags", nil)
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "c1"}}
	var owners []*providers.Owner
	for _, name := range []string{"m1", "m2"} {
		m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, UID: types.UID(name)}}
		m.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("Machine"))
		ref := providers.RefOf(m)
		owners = append(owners, &providers.Owner{Ref: ref, Cluster: cluster, Machine: m, Infra: m, Related: []client.Object{cluster}})
		instance := providers.Resource{ID: id("Instance", "i-"+name), Since: now.Add(-time.Hour)}
		instance.Set("/type", providers.Field{Value: providers.String("m5"), Mutability: providers.InPlaceDisruptive})
		instance.Set("/groups", providers.Field{Value: providers.Set("sg-1", "sg-2"), Mutability: providers.InPlace})
		instance.Set("/tags/a~1b", providers.Field{Value: providers.String("x"), Mutability: providers.InPlace})
		instance.Set("/image", providers.Field{Value: providers.String("ami-1"), Mutability: providers.Immutable})
		group := providers.Resource{ID: id("SecurityGroup", "name:nodes")}
		p.Want(ref, instance, group)

		seen := &providers.Resource{ID: instance.ID, Name: name, Closed: []string{"/tags"}, ClusterTags: []string{"c1"}}
		for path, f := range instance.Fields.All() {
			seen.Set(path, providers.Field{Value: f.Value})
		}
		p.Put(seen)
	}
	p.Put(&providers.Resource{ID: id("SecurityGroup", "sg-1"), Name: "nodes"})
	r := p.Registration(clusterv1.AddToScheme, providers.OwnerKind{GVK: clusterv1.GroupVersion.WithKind("Machine"), Role: providers.RoleMachine})
	env := &Environment{
		Provider: p, Owners: owners, Mutations: p.Mutations,
		Absent:    []providers.ID{id("Instance", "i-none"), id("Volume", "vol-none")},
		FailKinds: []string{"Instance", "SecurityGroup", "Instance/tags"},
		FailKind: func(_ *testing.T, kind string) func() {
			p.Cover(kind, errRefused)
			return func() { p.Cover(kind, nil) }
		},
		Remove: func(*testing.T) providers.ID {
			p.Remove(id("Instance", "i-m1"))
			return id("Instance", "i-m1")
		},
		Tampers: []Tamper{
			{"type changed", func(*testing.T) { setField(p, "/type", providers.String("t3")) }},
			{"group swapped", func(*testing.T) { setField(p, "/groups", providers.Set("sg-1", "sg-3")) }},
			{"tag removed", func(*testing.T) { setField(p, "/tags/a~1b", providers.Value{}) }},
		},
	}
	return Harness{Registration: r}, env
}

func setField(p *fake.Provider, path string, v providers.Value) {
	p.Alter(id("Instance", "i-m1"), func(r *providers.Resource) {
		if v.IsAbsent() {
			r.Fields.Delete(path)
			return
		}
		r.Set(path, providers.Field{Value: v})
	})
}

func TestFakePasses(t *testing.T) {
	h, _ := newFake(t)
	h.New = func(t *testing.T) *Environment {
		_, env := newFake(t)
		return env
	}
	Run(t, h)
}

// Each broken provider breaks one obligation, and the suite has to say so.
func TestSuiteFindsBrokenProviders(t *testing.T) {
	seenInstance := func(change func(*providers.Resource)) func(*broken) {
		return func(b *broken) {
			b.observe = func(s *providers.Snapshot) { change(s.Resources[id("Instance", "i-m1")]) }
		}
	}
	wantedInstance := func(change func(*providers.Resource)) func(*broken) {
		return func(b *broken) {
			b.desired = func(_ *providers.Owner, _ *providers.Snapshot, w []providers.Resource) { change(&w[0]) }
		}
	}
	tests := map[string]struct {
		bend  func(*broken)
		check string
		says  string
	}{
		"writes while reading": {
			func(b *broken) { b.observe = func(*providers.Snapshot) { b.Remove(id("Instance", "i-m2")) } },
			"reading writes nothing", "mutating calls",
		},
		"observes at random": {
			func(b *broken) {
				b.observe = func(s *providers.Snapshot) {
					b.n++
					s.Resources[id("Instance", "i-m1")].Set("/n", providers.Field{Value: providers.Int(b.n)})
				}
			}, "observe is deterministic", "differ",
		},
		"wants in random order": {
			func(b *broken) {
				b.desired = func(_ *providers.Owner, _ *providers.Snapshot, w []providers.Resource) {
					if b.n++; b.n%2 == 0 {
						w[0], w[1] = w[1], w[0]
					}
				}
			}, "desired is pure", "differs when asked again",
		},
		"desired changes its owner": {
			func(b *broken) {
				b.desired = func(o *providers.Owner, _ *providers.Snapshot, _ []providers.Resource) {
					b.n++
					o.Infra.SetGeneration(int64(b.n))
				}
			}, "desired is pure", "changed its owner",
		},
		"desired changes the snapshot": {
			func(b *broken) {
				b.desired = func(_ *providers.Owner, s *providers.Snapshot, _ []providers.Resource) {
					b.n++
					s.Resources[id("Instance", "i-m1")].Set("/n", providers.Field{Value: providers.Int(b.n)})
				}
			}, "desired is pure", "changed the snapshot",
		},
		"wants what no catalog has": {
			wantedInstance(func(r *providers.Resource) { r.Set("/new", providers.Field{Value: providers.Bool(true)}) }),
			"what is wanted is well-formed", "/new is not in the catalog",
		},
		"wants for another owner": {
			wantedInstance(func(r *providers.Resource) { r.Owner.Name = "other" }),
			"what is wanted is well-formed", "its owner is given as",
		},
		"matches what has no order": {
			wantedInstance(func(r *providers.Resource) {
				r.Set("/type", providers.Field{Value: providers.String("m5"), Match: providers.AtLeast})
			}), "what is wanted is well-formed", "AtLeast needs a number",
		},
		"sees a field without value": {
			seenInstance(func(r *providers.Resource) { r.Set("/type", providers.Field{}) }),
			"what is seen is well-formed", "without a value",
		},
		"sees under another id": {
			seenInstance(func(r *providers.Resource) { r.ID.Name = "i-9" }),
			"what is seen is well-formed", "stands under that id",
		},
		"sees a kind without coverage": {
			func(b *broken) {
				b.observe = func(s *providers.Snapshot) { delete(s.Coverage, "Instance") }
			}, "what is seen is well-formed", "coverage says nothing",
		},
		"spells differently on both sides": {
			seenInstance(func(r *providers.Resource) { r.Set("/type", providers.Field{Value: providers.String("M5")}) }),
			"a fresh environment is in sync", `want "m5", have "M5"`,
		},
		"does not see what it wants": {
			seenInstance(func(r *providers.Resource) { r.Fields.Delete("/type") }),
			"a fresh environment is in sync", "want at least",
		},
		"wants other ids than it sees": {
			wantedInstance(func(r *providers.Resource) { r.ID.Name = "I-M1" }),
			"confirm agrees with observe", "neither observe nor confirm",
		},
		"confirms what is not there": {
			func(b *broken) {
				b.confirm = func(c *providers.Confirmation) {
					c.Resources[id("Instance", "i-none")] = &providers.Resource{}
				}
			}, "confirm agrees with observe", "does not exist",
		},
		"confirm spells differently": {
			func(b *broken) {
				b.confirm = func(c *providers.Confirmation) {
					c.Resources[id("Instance", "i-m1")].Set("/type", providers.Field{Value: providers.String("M5")})
				}
			}, "confirm agrees with observe", `observe says "m5", confirm "M5"`,
		},
		"ignores cancelling": {
			func(b *broken) { b.deaf = true }, "a cancelled read is an error", "no error",
		},
		"an unread kind looks empty": {
			func(b *broken) {
				b.observe = func(s *providers.Snapshot) {
					for part := range s.Coverage {
						s.Coverage[part] = nil
					}
				}
			}, "a kind that fails hides nothing else", "is Missing",
		},
		"one unread kind hides all": {
			func(b *broken) {
				b.observe = func(s *providers.Snapshot) {
					if s.Coverage["Instance"] != nil {
						for part := range s.Coverage {
							s.Coverage[part] = errRefused
						}
					}
				}
			}, "a kind that fails hides nothing else", "nothing else was read",
		},
		"never notices a loss": {
			func(b *broken) {
				b.confirm = func(c *providers.Confirmation) {
					c.Unconfirmed[id("Instance", "i-m1")] = errRefused
				}
			}, "what is removed is missing", "is not missing",
		},
		"confirm leaves a field out": {
			func(b *broken) {
				b.confirm = func(c *providers.Confirmation) {
					c.Resources[id("Instance", "i-m2")].Fields.Delete("/groups")
				}
			}, "confirm agrees with observe", "confirm nothing",
		},
		"confirm closes less": {
			func(b *broken) {
				b.confirm = func(c *providers.Confirmation) { c.Resources[id("Instance", "i-m1")].Closed = nil }
			}, "confirm agrees with observe", "read /tags in full",
		},
		"confirm does not know what nobody wants": {
			func(b *broken) {
				b.Put(&providers.Resource{ID: id("Instance", "i-m3")})
				b.confirm = func(c *providers.Confirmation) { delete(c.Resources, id("Instance", "i-m3")) }
			}, "confirm agrees with observe", "confirm sees it: false",
		},
		"applies nothing": {
			func(b *broken) { b.Inert(id("Instance", "i-m1"), true) },
			"apply repairs what drifted", "repaired, and",
		},
		"applies for ever": {
			func(b *broken) {
				b.apply = func(context.Context, providers.Scope, providers.Change) error { return providers.ErrPending }
			}, "apply repairs what drifted", "still pending",
		},
		"applies more than it was asked": {
			func(b *broken) {
				b.apply = func(ctx context.Context, s providers.Scope, c providers.Change) error {
					b.Alter(id("Instance", "i-m2"), func(r *providers.Resource) { r.Name = "other" })
					return b.Provider.Apply(ctx, s, c)
				}
			}, "apply repairs what drifted", "is not what it was before the tamper",
		},
		"writes what is right already": {
			func(b *broken) {
				b.apply = func(ctx context.Context, s providers.Scope, c providers.Change) error {
					err := b.Provider.Apply(ctx, s, c)
					b.Alter(c.Resource, func(*providers.Resource) {})
					return err
				}
			}, "apply repairs what drifted", "applying once more made 1 mutating calls",
		},
		"disrupts without leave": {
			func(b *broken) {
				b.apply = func(ctx context.Context, s providers.Scope, c providers.Change) error {
					c.Disruptive = true
					return b.Provider.Apply(ctx, s, c)
				}
			}, "apply repairs what drifted", "without leave to disrupt",
		},
		"makes what is gone": {
			func(b *broken) {
				b.apply = func(ctx context.Context, s providers.Scope, c providers.Change) error {
					b.Put(c.Have.Clone())
					return b.Provider.Apply(ctx, s, c)
				}
			}, "apply makes nothing that is gone", "mutating calls",
		},
		"writes what is foreign": {
			func(b *broken) {
				b.apply = func(ctx context.Context, s providers.Scope, c providers.Change) error {
					if c.Have != nil {
						c.Have = c.Have.Clone()
						c.Have.ForeignTo = ""
					}
					return b.Provider.Apply(ctx, s, c)
				}
			}, "apply refuses what it must not write", "want it refused with Foreign",
		},
		"writes although it was cancelled": {
			func(b *broken) {
				b.apply = func(ctx context.Context, s providers.Scope, c providers.Change) error {
					return b.Provider.Apply(context.WithoutCancel(ctx), s, c)
				}
			}, "apply refuses what it must not write", "cancelled context",
		},
		"tampers with less than it can change": {
			func(b *broken) { b.tampers = 2 }, "apply repairs what drifted", "catalog row Instance/tags/",
		},
		"another provider's name": {
			func(b *broken) { b.name = "other" }, "scope is stable", "scope names provider",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h, env := newFake(t)
			b := &broken{Provider: env.Provider.(*fake.Provider)}
			tt.bend(b)
			env.Provider = b
			if b.tampers > 0 {
				env.Tampers = env.Tampers[:b.tampers]
			}
			for _, c := range checks() {
				if c.name != tt.check {
					continue
				}
				found := strings.Join(c.run(t.Context(), h, env, t), "\n")
				if !strings.Contains(found, tt.says) {
					t.Errorf("%s found %q, want %q in it", c.name, found, tt.says)
				}
				return
			}
			t.Fatalf("no check %q", tt.check)
		})
	}
}

// broken bends what the fake gives.
type broken struct {
	*fake.Provider
	n       int
	deaf    bool
	name    string
	observe func(*providers.Snapshot)
	desired func(*providers.Owner, *providers.Snapshot, []providers.Resource)
	confirm func(*providers.Confirmation)
	apply   func(context.Context, providers.Scope, providers.Change) error
	tampers int
}

func (b *broken) Scope(ctx context.Context, o *providers.Owner) (providers.Scope, error) {
	s, err := b.Provider.Scope(ctx, o)
	if b.name != "" {
		s.Provider = b.name
	}
	return s, err
}

func (b *broken) Observe(ctx context.Context, scope providers.Scope) (*providers.Snapshot, error) {
	if b.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	s, err := b.Provider.Observe(ctx, scope)
	if err == nil && b.observe != nil {
		b.observe(s)
	}
	return s, err
}

func (b *broken) Desired(o *providers.Owner, s *providers.Snapshot) ([]providers.Resource, error) {
	w, err := b.Provider.Desired(o, s)
	if err == nil && b.desired != nil {
		b.desired(o, s, w)
	}
	return w, err
}

func (b *broken) Confirm(ctx context.Context, scope providers.Scope, ids []providers.ID) (*providers.Confirmation, error) {
	c, err := b.Provider.Confirm(ctx, scope, ids)
	if err == nil && b.confirm != nil {
		b.confirm(c)
	}
	return c, err
}

func (b *broken) Apply(ctx context.Context, scope providers.Scope, c providers.Change) error {
	if b.apply != nil {
		return b.apply(ctx, scope, c)
	}
	return b.Provider.Apply(ctx, scope, c)
}
