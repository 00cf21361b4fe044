package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	awsv1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/test/management"
)

// observer watches the API server and remembers what it saw, so that nothing is
// missed between two steps of the play.
type observer struct {
	mu sync.Mutex
	// changed is closed and replaced whenever something was seen.
	changed chan struct{}

	machines map[string]*clusterv1.Machine
	clusters map[string]*awsv1.AWSCluster
	pools    map[string]*clusterv1.MachineDeployment
	records  map[types.UID]*record
	events   []*eventsv1.Event
	// fewest are the least machines that each pool had available since the
	// count was begun anew.
	fewest map[string]int32
}

// record is one Remediation and each stage that it was seen in.
type record struct {
	*v1alpha1.Remediation
	stages []v1alpha1.RemediationStatus
}

// observe begins to watch a namespace, until the play is over.
func observe(st *stage, g *management.Ground) *observer {
	o := &observer{
		changed: make(chan struct{}), machines: map[string]*clusterv1.Machine{}, clusters: map[string]*awsv1.AWSCluster{},
		pools: map[string]*clusterv1.MachineDeployment{}, records: map[types.UID]*record{}, fewest: map[string]int32{},
	}
	c, err := cache.New(g.Config, cache.Options{Scheme: g.Scheme(), DefaultNamespaces: map[string]cache.Config{g.Namespace: {}}})
	st.must(err)
	ctx, cancel := context.WithCancel(st.ctx)
	for _, kind := range []client.Object{&clusterv1.Machine{}, &awsv1.AWSCluster{}, &clusterv1.MachineDeployment{}, &v1alpha1.Remediation{}, &eventsv1.Event{}} {
		i, err := c.GetInformer(ctx, kind)
		st.must(err)
		_, err = i.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    o.saw,
			UpdateFunc: func(_, object any) { o.saw(object) },
			DeleteFunc: o.missed,
		})
		st.must(err)
	}
	done := make(chan error, 1)
	go func() { done <- c.Start(ctx) }()
	st.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			st.Errorf("watch the API server: %w", err)
		}
	})
	if !c.WaitForCacheSync(ctx) {
		st.Fatalf("watch the API server: its objects cannot be listed: %v", ctx.Err())
	}
	return o
}

func (o *observer) saw(object any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch object := object.(type) {
	case *clusterv1.Machine:
		o.machines[object.Name] = object
	case *awsv1.AWSCluster:
		o.clusters[object.Name] = object
	case *clusterv1.MachineDeployment:
		o.pools[object.Name] = object
		if n := object.Status.AvailableReplicas; n != nil {
			if least, ok := o.fewest[object.Name]; !ok || *n < least {
				o.fewest[object.Name] = *n
			}
		}
	case *v1alpha1.Remediation:
		o.sawRecord(object)
	case *eventsv1.Event:
		o.events = append(o.events, object)
	}
	close(o.changed)
	o.changed = make(chan struct{})
}

func (o *observer) sawRecord(r *v1alpha1.Remediation) {
	known := o.records[r.UID]
	if known == nil {
		known = &record{}
		o.records[r.UID] = known
	}
	known.Remediation = r
	s := r.Status
	if n := len(known.stages); s.Phase != "" && (n == 0 || known.stages[n-1].Phase != s.Phase || known.stages[n-1].Reason != s.Reason) {
		known.stages = append(known.stages, s)
	}
}

func (o *observer) missed(object any) {
	if gone, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if m, ok := object.(*clusterv1.Machine); ok {
		delete(o.machines, m.Name)
	}
	close(o.changed)
	o.changed = make(chan struct{})
}

// available is how many machines of a pool are. The caller holds the lock.
func (o *observer) available(pool string) int32 {
	if d := o.pools[pool]; d != nil && d.Status.AvailableReplicas != nil {
		return *d.Status.AvailableReplicas
	}
	return 0
}

// count begins to count a pool's machines anew.
func (o *observer) count(pool string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.fewest[pool] = o.available(pool)
}

func (o *observer) least(pool string) int32 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.fewest[pool]
}

// pollTime is how often a wait looks by itself: what it waits for may stand in a
// cloud, which tells nobody.
const pollTime = 200 * time.Millisecond

// until waits for something. look says what is missing, or nothing when it is
// there; it holds the observer's lock.
func (p *play) until(what string, look func() string) {
	deadline := time.After(p.patience)
	for {
		p.seen.mu.Lock()
		missing, changed := look(), p.seen.changed
		p.seen.mu.Unlock()
		if missing == "" {
			return
		}
		select {
		case <-changed:
			continue
		case <-time.After(pollTime):
		case <-p.ctx.Done():
			p.Fatalf("waiting for %s: %w", what, context.Cause(p.ctx))
		case <-deadline:
			p.Fatalf("%s: not within %s: %s\n\nWhat there is:\n%s\n%s", what, p.patience, missing, p.seen.describe(), p.daemon.log)
		}
		if err := p.daemon.broken(); err != nil {
			p.Fatalf("%s: %w", what, err)
		}
	}
}

// describe tells all that was seen, for a play that has waited in vain.
func (o *observer) describe() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(o.machines)) {
		m := o.machines[name]
		fmt.Fprintf(&b, "  Machine %s: %s %s\n", name, m.Status.Phase, m.Spec.ProviderID)
		for _, c := range m.Status.Conditions {
			if strings.Contains(c.Type, "Drift") || c.Status != metav1.ConditionTrue && !negative[c.Type] {
				fmt.Fprintf(&b, "    %s=%s %s: %s\n", c.Type, c.Status, c.Reason, clean(c.Message))
			}
		}
	}
	for _, r := range o.records {
		fmt.Fprintf(&b, "  Remediation %s: %s of %s\n", r.Name, r.Spec.Action, r.Spec.Owner.Name)
		for i := range r.stages {
			s := &r.stages[i]
			fmt.Fprintf(&b, "    %s %s: %s\n", s.Phase, s.Reason, clean(s.Message))
			for _, block := range s.Blocked {
				fmt.Fprintf(&b, "      held by %s: %s\n", block.By, clean(block.Detail))
			}
		}
	}
	return b.String()
}

// negative are the conditions of Machines whose False is good.
var negative = map[string]bool{
	clusterv1.MachineDeletingCondition: true, clusterv1.PausedCondition: true, clusterv1.MachineUpdatingCondition: true,
}
