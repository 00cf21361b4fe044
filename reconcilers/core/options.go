package core

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"
	"k8s.io/component-base/featuregate"
	"sigs.k8s.io/cluster-api/feature"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// Part is one of the sets of reconcilers that can be switched on.
type Part string

// The parts that there are.
const (
	// Core is what upstream's core program runs.
	Core Part = "core"
	// Kubeadm is what its kubeadm bootstrap and control-plane programs run.
	Kubeadm Part = "kubeadm"
	// AWS and VSphere are what takes the place of Cluster API Provider AWS and
	// of Cluster API Provider vSphere. They are Holdfast's own (reconcilers/infra):
	// this package does no more than to look out for upstream's.
	AWS     Part = "aws"
	VSphere Part = "vsphere"
)

// Parts lists those that are upstream's own code.
func Parts() []Part { return []Part{Core, Kubeadm} }

// Infrastructure lists those that are Holdfast's, by the names of providers.
func Infrastructure() []Part { return []Part{AWS, VSphere} }

// everyPart lists what can be switched on.
func everyPart() []Part { return slices.Concat(Parts(), Infrastructure()) }

// ParseParts reads names of parts, in any order. A name that is not known is an
// error that says what is.
func ParseParts(names []string) ([]Part, error) {
	var out []Part
	for _, name := range names {
		part := Part(strings.TrimSpace(name))
		switch {
		case !slices.Contains(everyPart(), part):
			return nil, fmt.Errorf("%q is not known; known: %s", part, known(everyPart()))
		case !slices.Contains(out, part):
			out = append(out, part)
		}
	}
	return out, nil
}

// known lists words for an error.
func known[S ~string](words []S) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return strings.Join(out, ", ")
}

// Options say what to wire. The zero value of most is upstream's default; Fill
// puts those in.
type Options struct {
	// Parts are what is switched on; none is an error.
	Parts []Part
	// Namespace is the only one to look at; empty is all.
	Namespace string
	// WatchFilter is the value of the label cluster.x-k8s.io/watch-filter that
	// objects have to have; empty is no such thing.
	WatchFilter string
	// Agent names the program to workload clusters and in metrics of its
	// informers. One process may use it once.
	Agent string
	// SyncPeriod is the time after which every object is looked at again.
	SyncPeriod time.Duration
	// Workers are how many objects a controller handles at a time, by the names
	// of [Controllers]; others have upstream's number.
	Workers map[string]int
	// Gates are upstream's feature gates; others have upstream's default. They
	// are the process's, not the manager's.
	Gates map[string]bool
	// Backoff is for objects whose reconciling keeps failing.
	Backoff Backoff
	// Webhooks is where admission and conversion are served, with tls.crt and
	// tls.key in CertDir.
	Webhooks webhook.Options
	// Takeover starts although upstream's own programs seem to run.
	Takeover bool
	// WorkloadQPS and WorkloadBurst bound the requests to one workload cluster.
	WorkloadQPS   float32
	WorkloadBurst int
	// EtcdDial and EtcdCall bound what KubeadmControlPlane waits for etcd.
	EtcdDial, EtcdCall time.Duration
	// EtcdLog takes what the client of etcd says; nil drops it.
	EtcdLog *zap.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Upstream's defaults, from the flags of its core/main.go and
// controlplane/kubeadm/main.go, 1.14.
const (
	DefaultSyncPeriod  = 10 * time.Minute
	DefaultWebhookPort = 9443

	defaultWorkloadQPS   = 20
	defaultWorkloadBurst = 30
	defaultEtcdDial      = 10 * time.Second
	defaultEtcdCall      = 15 * time.Second
	connectionGrace      = 50 * time.Second
	conditionsGrace      = 5 * time.Minute
)

// workers has upstream's number for each controller that may be given another.
var workers = map[Part]map[string]int{
	Core: {
		"cluster": 50, "clusterclass": 10, "clusterresourceset": 10, "clustertopology": 50, "machine": 100, "machinedeployment": 50,
		"machinehealthcheck": 50, "machinepool": 50, "machineset": 50,
	},
	Kubeadm: {"kubeadmconfig": 100, "kubeadmcontrolplane": 100},
}

// infrastructure has the number of workers of the controllers of each provider.
// What they wait for is the cloud, and the provider's limits bound its calls.
var infrastructure = map[Part]map[string]int{
	AWS:     {"awscluster": 10, "awsmachine": 100},
	VSphere: {"vspherecluster": 10, "vspheremachine": 50},
}

// clusterCache is the controller that every part has.
const clusterCache = "clustercache"

// Controllers names the controllers whose number of workers can be set, with
// upstream's number.
func Controllers() map[string]int {
	out := map[string]int{clusterCache: 100}
	for _, part := range Parts() {
		maps.Copy(out, workers[part])
	}
	for _, part := range Infrastructure() {
		maps.Copy(out, infrastructure[part])
	}
	return out
}

// Fill puts defaults in place of zero values.
func (o *Options) Fill() {
	fill(&o.Agent, "holdfast")
	fill(&o.SyncPeriod, DefaultSyncPeriod)
	fill(&o.Backoff.First, DefaultBackoff.First)
	fill(&o.Backoff.Most, DefaultBackoff.Most)
	fill(&o.Webhooks.Port, DefaultWebhookPort)
	fill(&o.WorkloadQPS, defaultWorkloadQPS)
	fill(&o.WorkloadBurst, defaultWorkloadBurst)
	fill(&o.EtcdDial, defaultEtcdDial)
	fill(&o.EtcdCall, defaultEtcdCall)
	if o.EtcdLog == nil {
		o.EtcdLog = zap.NewNop()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
}

func fill[V comparable](into *V, otherwise V) {
	var zero V
	if *into == zero {
		*into = otherwise
	}
}

// Has tells whether a part is switched on.
func (o *Options) Has(part Part) bool { return slices.Contains(o.Parts, part) }

// workersOf gives a controller's number of workers.
func (o *Options) workersOf(controller string) int {
	if n, ok := o.Workers[controller]; ok {
		return n
	}
	return Controllers()[controller]
}

// Validate finds what cannot work, all of it at once, without changing anything.
func (o *Options) Validate() error {
	var errs []error
	if len(o.Parts) == 0 {
		errs = append(errs, fmt.Errorf("no reconcilers are named; known: %s", known(everyPart())))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Workers)) {
		switch _, ok := Controllers()[name]; {
		case !ok:
			errs = append(errs, fmt.Errorf("workers of controller %q: it is not known; known: %s", name, known(slices.Sorted(maps.Keys(Controllers())))))
		case o.Workers[name] < 1:
			errs = append(errs, fmt.Errorf("workers of controller %q: %d: want at least 1", name, o.Workers[name]))
		}
	}
	if o.SyncPeriod < time.Second {
		errs = append(errs, fmt.Errorf("sync period %s: want at least 1s", o.SyncPeriod))
	}
	if o.Backoff.First < time.Second || o.Backoff.Most < o.Backoff.First {
		errs = append(errs, fmt.Errorf("back-off from %s to %s: want at least 1s, and the limit no shorter than the first", o.Backoff.First, o.Backoff.Most))
	}
	return errors.Join(append(errs, checkGates(o.Gates))...)
}

// checkGates tries gates on a copy.
func checkGates(gates map[string]bool) error {
	all := feature.MutableGates.DeepCopy()
	var names []string
	for name := range all.GetAll() {
		names = append(names, string(name))
	}
	slices.Sort(names)
	for _, name := range slices.Sorted(maps.Keys(gates)) {
		if !slices.Contains(names, name) {
			return fmt.Errorf("feature gate %q is not known; known: %s", name, known(names))
		}
	}
	if err := all.SetFromMap(gates); err != nil {
		return fmt.Errorf("feature gates: %w", err)
	}
	for _, gate := range []featuregate.Feature{feature.RuntimeSDK, feature.InPlaceUpdates} {
		if all.Enabled(gate) {
			return fmt.Errorf("feature gate %s: extensions cannot be called yet, for upstream keeps the client that calls them to itself; leave it off", gate)
		}
	}
	if all.Enabled(feature.ReconcilerRateLimiting) && !all.Enabled(feature.PriorityQueue) {
		return fmt.Errorf("feature gate %s needs %s", feature.ReconcilerRateLimiting, feature.PriorityQueue)
	}
	return nil
}
