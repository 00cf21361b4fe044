package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Whether a controller is looking, as its lease tells.
const (
	looking      = "Running"
	notLooking   = "Stopped"
	lookingKnown = "Unknown" // it is not known
)

// controllerSummary is whether anybody keeps up what the objects tell: a
// condition stays when the controller is gone.
type controllerSummary struct {
	State string `json:"state"`
	// Lease is the one that it was read from, Holder who has it or had it.
	Lease   string       `json:"lease,omitempty"`
	Holder  string       `json:"holder,omitempty"`
	Renewed *metav1.Time `json:"renewed,omitempty"`
	// Message says what follows, unless all is well.
	Message string `json:"message,omitempty"`
}

// leaseReader finds out whether a controller renews its lease.
type leaseReader struct {
	client client.Client
	// named is the lease that the user names, NAMESPACE/NAME.
	named string
	now   func() time.Time
	pause func(context.Context, time.Duration) error
}

const (
	// usualNamespace and usualLease are where the chart's installation keeps its
	// lease as the documentation has it.
	usualNamespace = "holdfast-system"
	usualLease     = "holdfast"
	// nodeLeases holds a lease of each node, whatever it is called.
	nodeLeases = "kube-node-lease"
	// maxSkew is how far the clock here may be from the controller's: within it
	// a lease that looks old is watched for a moment instead.
	maxSkew = 10 * time.Minute
	// renewals come every --leader-election-retry-period, 2s unless that was changed.
	watched, watchEvery = 5 * time.Second, 500 * time.Millisecond
)

// read says how it stands. Only a broken request is an error: what may not be
// read is not known.
func (r *leaseReader) read(ctx context.Context) (*controllerSummary, error) {
	leases, unknown, err := r.find(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the controller's lease: %w", err)
	case unknown != "":
		return &controllerSummary{State: lookingKnown, Message: "It is not known whether a controller is looking, or how old this is: " + unknown}, nil
	case len(leases) == 0:
		return &controllerSummary{State: notLooking, Message: "Nobody is looking: no controller holds a lease here (" + r.sought() + "), unless one runs with --leader-elect=false. What conditions say is old."}, nil
	}
	var stopped *controllerSummary
	for i := range leases {
		s, err := r.judge(ctx, &leases[i])
		if err != nil {
			return nil, fmt.Errorf("read the controller's lease: %w", err)
		}
		if s.State == looking {
			return s, nil
		}
		if stopped == nil || stopped.Renewed != nil && s.Renewed != nil && stopped.Renewed.Before(s.Renewed) {
			stopped = s
		}
	}
	return stopped, nil
}

func (r *leaseReader) sought() string {
	if r.named != "" {
		return r.named
	}
	return "none is called " + usualLease + "; --lease NAMESPACE/NAME names another"
}

// find gives the leases that may be the controller's, or why they cannot be
// known.
func (r *leaseReader) find(ctx context.Context) (leases []coordinationv1.Lease, unknown string, err error) {
	if r.named != "" {
		ns, name, ok := strings.Cut(r.named, "/")
		if !ok || ns == "" || name == "" {
			return nil, "", fmt.Errorf("--lease %q: write NAMESPACE/NAME", r.named)
		}
		lease := &coordinationv1.Lease{}
		err := r.client.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, lease)
		switch {
		case apierrors.IsForbidden(err):
			return nil, "you may not get the lease " + r.named, nil
		case apierrors.IsNotFound(err):
			return nil, "", nil
		}
		return []coordinationv1.Lease{*lease}, "", err
	}
	list := &coordinationv1.LeaseList{}
	err = r.client.List(ctx, list)
	if err == nil {
		return slices.DeleteFunc(list.Items, func(l coordinationv1.Lease) bool {
			return l.Namespace == nodeLeases || !strings.Contains(l.Name, usualLease)
		}), "", nil
	}
	if !apierrors.IsForbidden(err) {
		return nil, "", err
	}
	lease := &coordinationv1.Lease{}
	err = r.client.Get(ctx, client.ObjectKey{Namespace: usualNamespace, Name: usualLease}, lease)
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return nil, "you may not list leases, and " + usualNamespace + "/" + usualLease + " cannot be read; --lease NAMESPACE/NAME names one that you may get", nil
	}
	return []coordinationv1.Lease{*lease}, "", err
}

// judge says whether a lease is renewed. One that looks old may be so by this
// machine's clock alone, or just be handed over.
func (r *leaseReader) judge(ctx context.Context, l *coordinationv1.Lease) (*controllerSummary, error) {
	s := leaseSummary(l)
	off := maxSkew
	if s.Renewed != nil {
		off = r.now().Sub(s.Renewed.Time).Abs()
	}
	if s.Holder != "" && off <= leaseDuration(l) {
		s.State = looking
		return s, nil
	}
	for waited := time.Duration(0); off < maxSkew && waited < watched; waited += watchEvery {
		if err := r.pause(ctx, watchEvery); err != nil {
			return nil, err
		}
		again := &coordinationv1.Lease{}
		if err := r.client.Get(ctx, client.ObjectKeyFromObject(l), again); client.IgnoreNotFound(err) != nil {
			if apierrors.IsForbidden(err) {
				break // listing them may be all that is allowed
			}
			return nil, err
		}
		if now := leaseSummary(again); now.Holder != "" && again.Spec.RenewTime != nil && !again.Spec.RenewTime.Equal(l.Spec.RenewTime) {
			now.State = looking
			return now, nil
		}
	}
	s.State = notLooking
	switch {
	case s.Renewed == nil:
		s.Message = fmt.Sprintf("Nobody is looking: nobody has ever renewed the lease %s.", s.Lease)
	case s.Holder == "":
		s.Message = fmt.Sprintf("Nobody is looking: the last controller gave up its lease %s %s ago, and none has taken it. What follows is how it stood then.", s.Lease, age(*s.Renewed, r.now()))
	default:
		s.Message = fmt.Sprintf("Nobody is looking: %s renewed its lease %s last %s ago, and none has taken it over. What follows is how it stood then.", shown(s.Holder, 253), s.Lease, age(*s.Renewed, r.now()))
	}
	return s, nil
}

func leaseSummary(l *coordinationv1.Lease) *controllerSummary {
	s := &controllerSummary{Lease: l.Namespace + "/" + l.Name}
	if h := l.Spec.HolderIdentity; h != nil {
		s.Holder, _, _ = strings.Cut(*h, "_") // the pod; what follows tells its processes apart
	}
	if t := l.Spec.RenewTime; t != nil {
		s.Renewed = &metav1.Time{Time: t.Time}
	}
	return s
}

func leaseDuration(l *coordinationv1.Lease) time.Duration {
	if d := l.Spec.LeaseDurationSeconds; d != nil && *d > 0 {
		return time.Duration(*d) * time.Second
	}
	return 15 * time.Second
}

// linger waits, or gives the context's error.
func linger(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// addController says of each cluster whether what is known of it is kept up.
func (f *statusFlags) addController(ctx context.Context, c client.Client, all []*clusterSummary, now time.Time) error {
	if len(all) == 0 {
		return nil
	}
	controller := &controllerSummary{State: looking}
	// Only a controller that leads has series of clusters: where one answered,
	// no lease need be asked, and none is where it runs without an election.
	if !slices.ContainsFunc(all, func(s *clusterSummary) bool { return s.Metrics != nil }) {
		var err error
		r := &leaseReader{client: c, named: f.lease, now: time.Now, pause: linger}
		if controller, err = r.read(ctx); err != nil {
			return err
		}
	}
	for _, s := range all {
		s.Controller = controller
		s.Stale = controller.State == notLooking || s.overdue(now)
	}
	return nil
}

// overdue says that the last sweep is older than the policies allow.
func (s *clusterSummary) overdue(now time.Time) bool {
	m := s.Metrics
	return m != nil && m.LastSweep != nil && m.StaleAfter != nil && now.Sub(m.LastSweep.Time).Seconds() > *m.StaleAfter
}
