package sweep

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/fake"
)

// live is a daemon over a world whose time is that of a synctest bubble: it
// passes when everything waits, and nothing sleeps.
type live struct {
	*world
	d       *Daemon
	changes chan struct{}
	cancel  func()
	ended   chan error

	mu       sync.Mutex
	outcomes []*Outcome
	at       []time.Time
	loads    []inventory.Selection
	loadErr  error
	set      *policies.Set
	history  map[string]policies.History
	inFlight []policies.InFlight
	unread   error // of records
	consume  func(*Outcome)
	lags     []time.Duration
	failed   int
	victims  []detector.ClusterRef // of the last sweep that failed
}

// daemon runs a test in a bubble, with a policy that leaves no jitter unless
// the test gives another.
func daemon(t *testing.T, policy string, test func(*testing.T, *live)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := &live{world: newWorldAt(t, time.Now), changes: make(chan struct{}), ended: make(chan error, 1)}
		l.set = policySet(t, policy)
		log := logr.Discard()
		if testing.Verbose() {
			log = testr.New(t)
		}
		l.d = &Daemon{
			Providers: map[string]providers.Provider{fake.Name: l.cloud},
			Load:      l.load, Policies: l.policies, PolicyChanges: l.changes, Records: l, Sinks: []Sink{l}, Meter: l,
			Log: log, StartSpread: -1,
		}
		test(t, l)
		if l.cancel != nil {
			l.stop()
		}
	})
}

func policySet(t *testing.T, spec string) *policies.Set {
	t.Helper()
	if spec == "" {
		spec = `schedule: {cron: "*/15 * * * *", jitter: 0s}`
	}
	set, problems := policies.LoadSources(policies.Options{}, policies.Source{Name: "test.yaml", Data: []byte(
		"apiVersion: drift.holdfast.io/v1alpha1\nkind: DriftPolicy\nmetadata: {name: test}\nspec:\n  " + strings.ReplaceAll(strings.TrimSpace(spec), "\n", "\n  ") + "\n")})
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	return set
}

func (l *live) start() {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	go func() { l.ended <- l.d.Start(ctx) }()
	synctest.Wait()
}

func (l *live) stop() {
	l.t.Helper()
	begun := time.Now()
	l.cancel()
	if err := <-l.ended; err != nil {
		l.t.Error(err)
	}
	if took := time.Since(begun); took > 10*time.Second {
		l.t.Errorf("it took %s to stop", took)
	}
	l.cancel = nil
}

// pass lets time pass, and then everything come to rest.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (l *live) load(_ context.Context, s inventory.Selection) (*inventory.Inventory, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.loads = append(l.loads, s)
	if l.loadErr != nil {
		return nil, l.loadErr
	}
	out := &inventory.Inventory{}
	for _, c := range l.inv.Clusters {
		if slices.Contains(s.Exactly, client.ObjectKeyFromObject(c.Object)) {
			copied := *c
			copied.Owners = slices.Clone(c.Owners)
			out.Clusters = append(out.Clusters, &copied)
		} else {
			out.Elsewhere = append(out.Elsewhere, inventory.Elsewhere{Key: types.NamespacedName{Namespace: c.Object.Namespace, Name: c.Object.Name}, Provider: fake.Name, Object: c.Object})
		}
	}
	return out, nil
}

// edit changes the objects as a load sees them.
func (l *live) edit(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func (l *live) policies() *policies.Set {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.set
}

func (l *live) Facts(context.Context) (map[string]policies.History, []policies.InFlight, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.history, l.inFlight, l.unread
}

func (l *live) Consume(_ context.Context, o *Outcome) error {
	l.mu.Lock()
	l.outcomes = append(l.outcomes, o)
	l.at = append(l.at, time.Now())
	consume := l.consume
	l.mu.Unlock()
	if consume != nil {
		consume(o)
	}
	return nil
}

func (l *live) EventLag(_ providers.Scope, lag time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lags = append(l.lags, lag)
}

func (l *live) SweepFailed(_ providers.Scope, of []detector.ClusterRef, _ error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failed++
	l.victims = of
}

func (l *live) SinkFailed(Sink, error) {}

// take gives the outcomes since the last time, in one line each.
func (l *live) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []string
	for i, o := range l.outcomes {
		out = append(out, l.at[i].UTC().Format("15:04:05")+" "+o.Cause+" "+aboutOf(o))
	}
	l.outcomes, l.at = nil, nil
	return out
}

// aboutOf says what an outcome is about.
func aboutOf(o *Outcome) string {
	if len(o.Gone) > 0 {
		return fmt.Sprintf("gone %v", o.Gone)
	}
	var names []string
	for owner := range o.Owners {
		names = append(names, owner.Name)
	}
	if !o.Targeted() {
		for _, c := range o.Result.Clusters {
			names = append(names, fmt.Sprintf("%s:%d", c.Ref, len(c.Owners)))
		}
	}
	slices.Sort(names)
	text := strings.Join(names, ",")
	if o.Scope == (providers.Scope{}) {
		text += " (no scope)"
	}
	return text
}

// last gives the last outcome that was published and not taken.
func (l *live) last() *Outcome {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.outcomes) == 0 {
		l.t.Fatal("no outcome")
	}
	return l.outcomes[len(l.outcomes)-1]
}

func (l *live) observes() int { return l.count(fake.OpObserve) }

func (l *live) count(op string) int {
	n := 0
	for _, c := range l.cloud.Calls() {
		if c.Op == op {
			n++
		}
	}
	return n
}

func (l *live) expect(want ...string) {
	l.t.Helper()
	if got := l.take(); !slices.Equal(got, want) {
		l.t.Errorf("outcomes:\n\t%s\nwant:\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// retype makes an instance drift.
func (l *live) retype(machine, to string) {
	l.t.Helper()
	if !l.cloud.Alter(instance(machine), func(r *providers.Resource) {
		r.Fields.Set("/instanceType", providers.Field{Value: providers.String(to)})
	}) {
		l.t.Fatalf("no instance of %s", machine)
	}
}

func TestDaemonSchedule(t *testing.T) {
	daemon(t, "", func(t *testing.T, l *live) {
		l.cluster("prod", "c1", 2)
		l.cluster("prod", "c2", 1)
		l.start()
		// Time in a bubble begins at midnight. Both share a scope: one read.
		pass(time.Second)
		l.expect("00:00:00 Start prod/c1:3,prod/c2:2")
		if n := l.observes(); n != 1 {
			t.Errorf("%d bulk reads of one scope at the start, want 1", n)
		}
		pass(30 * time.Minute)
		l.expect("00:15:00 Schedule prod/c1:3,prod/c2:2", "00:30:00 Schedule prod/c1:3,prod/c2:2")
		s := l.d.Status()
		if c := s.Clusters[0]; !c.LastSweep.Equal(time.Date(2000, 1, 1, 0, 30, 0, 0, time.UTC)) || !c.NextSweep.Equal(c.LastSweep.Add(15*time.Minute)) || c.Stale || c.Checked == 0 {
			t.Errorf("status: %+v", c)
		}
	})
}
