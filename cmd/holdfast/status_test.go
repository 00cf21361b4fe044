package main

import (
	"context"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
)

func someLease(holder string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "holdfast-system", Name: "holdfast"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: ptr.To[int32](15), RenewTime: &metav1.MicroTime{Time: renewed}}}
}

// TestStatusOfAStoppedController: conditions stay when the controller is gone,
// and status says that nobody keeps them up, or that this cannot be known.
func TestStatusOfAStoppedController(t *testing.T) {
	m := newManagement(t)
	c := m.cluster(t, "prod", "eu")
	meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{Type: v1alpha1.ConditionDriftDetected, Status: metav1.ConditionFalse, Reason: "InSync"})
	if err := m.client.Status().Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	m.kubectl(t, "", "create", "namespace", "holdfast-system")
	lease := func(holder string, ago time.Duration) {
		t.Helper()
		l := someLease(holder, time.Now().Add(-ago))
		if err := client.IgnoreNotFound(m.client.Delete(t.Context(), l.DeepCopy())); err != nil {
			t.Fatal(err)
		}
		if err := m.client.Create(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	check := func(kubeconfig string, stale bool, wants ...string) {
		t.Helper()
		o := holdfast(t, "status", "--kubeconfig", kubeconfig)
		for _, want := range append(wants, "prod/eu", "InSync", "LAST SWEEP and COVERAGE are told by the controller's metrics alone") {
			if o.code != exitOK || !strings.Contains(o.stdout, want) {
				t.Errorf("exit %d, want %q:\n%s%s", o.code, want, o.stdout, o.stderr)
			}
		}
		if got := strings.Contains(o.stdout, "InSync, stale"); got != stale || strings.Contains(o.stdout, "Nobody is looking") != stale {
			t.Errorf("stale %t, want %t:\n%s", got, stale, o.stdout)
		}
		if o := holdfast(t, "status", "-o", "json", "--kubeconfig", kubeconfig); strings.Contains(o.stdout, `"stale": true`) != stale {
			t.Errorf("stale is not %t:\n%s%s", stale, o.stdout, o.stderr)
		}
	}
	check(m.kubeconfig, true, "no controller holds a lease here", "--lease NAMESPACE/NAME")
	lease("holdfast-5d-x_0a", 0)
	check(m.kubeconfig, false)
	lease("holdfast-5d-x_0a", 3*time.Hour)
	check(m.kubeconfig, true, "holdfast-5d-x renewed its lease holdfast-system/holdfast last 3h ago")
	lease("", 30*time.Minute)
	check(m.kubeconfig, true, "gave up its lease holdfast-system/holdfast 30m ago")

	// Somebody who may see clusters and no leases.
	m.kubectl(t, "", "create", "clusterrole", "viewer", "--verb=get,list", "--resource=clusters.cluster.x-k8s.io,machines.cluster.x-k8s.io,remediations.drift.holdfast.io")
	m.kubectl(t, "", "create", "clusterrolebinding", "viewer", "--clusterrole=viewer", "--serviceaccount=default:holdfast")
	viewer := m.account(t)
	check(viewer, false, "It is not known whether a controller is looking, or how old this is: you may not list leases")
	m.kubectl(t, "", "create", "role", "-n", "holdfast-system", "lease", "--verb=get", "--resource=leases", "--resource-name=holdfast")
	m.kubectl(t, "", "create", "rolebinding", "-n", "holdfast-system", "lease", "--role=lease", "--serviceaccount=default:holdfast")
	check(viewer, true, "gave up its lease")
	if o := holdfast(t, "status", "--kubeconfig", viewer, "--lease", "prod/other"); !strings.Contains(o.stdout, "you may not get the lease prod/other") {
		t.Errorf("another lease: %s%s", o.stdout, o.stderr)
	}
	refuses(t, holdfast(t, "status", "--kubeconfig", viewer, "--lease", "holdfast"), "write NAMESPACE/NAME")
}

// TestLeaseByAnotherClock: a lease that looks old, or new, by this machine's
// clock alone is watched instead.
func TestLeaseByAnotherClock(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := coordinationv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for name, tc := range map[string]struct {
		lease   *coordinationv1.Lease
		renewed *coordinationv1.Lease // what it becomes while it is watched
		want    string
		pauses  int
	}{
		"a clock that is behind":  {someLease("a", now.Add(-time.Minute)), someLease("a", now.Add(-58*time.Second)), looking, 1},
		"a clock that is ahead":   {someLease("a", now.Add(time.Minute)), someLease("a", now.Add(62*time.Second)), looking, 1},
		"handed over":             {someLease("", now.Add(-time.Second)), someLease("b", now), looking, 1},
		"given up a moment ago":   {someLease("", now.Add(-time.Second)), nil, notLooking, 10},
		"ended a moment ago":      {someLease("a", now.Add(-20*time.Second)), nil, notLooking, 10},
		"ended long ago":          {someLease("a", now.Add(-time.Hour)), nil, notLooking, 0},
		"in time":                 {someLease("a", now.Add(-10*time.Second)), nil, looking, 0},
		"another one's of a node": {func() *coordinationv1.Lease { l := someLease("a", now); l.Namespace = nodeLeases; return l }(), nil, notLooking, 0},
		"of a release":            {func() *coordinationv1.Lease { l := someLease("a", now); l.Name = "drift-holdfast"; return l }(), nil, looking, 0},
	} {
		c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.lease).Build()
		pauses := 0
		r := &leaseReader{client: c, now: func() time.Time { return now }, pause: func(ctx context.Context, _ time.Duration) error {
			if pauses++; tc.renewed != nil {
				live := &coordinationv1.Lease{}
				if err := c.Get(ctx, client.ObjectKeyFromObject(tc.renewed), live); err != nil {
					return err
				}
				live.Spec = tc.renewed.Spec
				return c.Update(ctx, live)
			}
			return nil
		}}
		got, err := r.read(t.Context())
		if err != nil || got.State != tc.want || pauses != tc.pauses {
			t.Errorf("%s: %+v after %d pauses, want %s after %d: %v", name, got, pauses, tc.want, tc.pauses, err)
		}
	}
}

// TestStatusExplains: what the table shows and does not explain is said below it.
func TestStatusExplains(t *testing.T) {
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	swept := func(ago time.Duration) *clusterMetrics {
		return &clusterMetrics{LastSweep: &metav1.Time{Time: now.Add(-ago)}, Coverage: ptr.To(1.0), StaleAfter: ptr.To(3600.0)}
	}
	running := &controllerSummary{State: looking}
	for name, tc := range map[string]struct {
		flags   statusFlags
		summary clusterSummary
		want    []string
		not     []string
	}{
		"no metrics": {statusFlags{}, clusterSummary{}, []string{"holdfast status --metrics reads them"}, []string{"breaker", "last sweep was"}},
		"breaker":    {statusFlags{metrics: "x"}, clusterSummary{BreakerOpen: true, Metrics: swept(time.Minute)}, []string{"the breaker is open", "what a policy ignores does not count"}, []string{"COVERAGE"}},
		"not swept":  {statusFlags{metrics: "x"}, clusterSummary{}, []string{"has not swept the cluster since it started, or does not lead"}, nil},
		"overdue":    {statusFlags{metrics: "x"}, clusterSummary{Metrics: swept(3 * time.Hour)}, []string{"the last sweep was 3h ago, and its policies call one stale after 60m"}, []string{"COVERAGE"}},
		"all well":   {statusFlags{metrics: "x"}, clusterSummary{Metrics: swept(time.Minute)}, nil, []string{"a"}},
	} {
		s := tc.summary
		s.Namespace, s.Name, s.Drift, s.Reason, s.Controller = "prod", "eu", "False", "InSync", running
		var b strings.Builder
		if err := tc.flags.writeNotes(&b, []*clusterSummary{&s}, now); err != nil {
			t.Fatal(err)
		}
		for _, want := range tc.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s: no %q in %s", name, want, b.String())
			}
		}
		for _, not := range tc.not {
			if strings.Contains(b.String(), not) {
				t.Errorf("%s: %q in %s", name, not, b.String())
			}
		}
		if s.overdue(now) != (name == "overdue") {
			t.Errorf("%s: overdue %t", name, s.overdue(now))
		}
	}
}

// TestStatusOfAClusterThatIsMade: where it stands, what for and since when, and
// nothing of that once it is there.
func TestStatusOfAClusterThatIsMade(t *testing.T) {
	m := newManagement(t)
	c := m.cluster(t, "prod", "eu")
	tell := func(kind, reason, message string, status metav1.ConditionStatus) {
		meta.SetStatusCondition(&c.Status.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message,
			LastTransitionTime: metav1.NewTime(time.Now().Add(-3 * time.Minute))})
	}
	update := func() {
		t.Helper()
		if err := m.client.Status().Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	says := func(wants ...string) {
		t.Helper()
		o := holdfast(t, "status", "--kubeconfig", m.kubeconfig)
		for _, want := range wants {
			if o.code != exitOK || !strings.Contains(o.stdout, want) {
				t.Errorf("exit %d, want %q:\n%s%s", o.code, want, o.stdout, o.stderr)
			}
		}
	}
	c.Status.Initialization.InfrastructureProvisioned, c.Status.Initialization.ControlPlaneInitialized = nil, nil
	tell(clusterv1.ClusterInfrastructureReadyCondition, "NotReady", "NatGatewaysReady: a NAT gateway\nis being made", metav1.ConditionFalse)
	update()
	says("prod/eu: infrastructure for ", " (InfrastructureReady: NotReady): NatGatewaysReady: a NAT gateway")

	c.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	tell(clusterv1.ClusterInfrastructureReadyCondition, "Ready", "", metav1.ConditionTrue)
	tell(clusterv1.ClusterControlPlaneAvailableCondition, "NotAvailable", "", metav1.ConditionFalse)
	update()
	says("prod/eu: control plane for 3m (ControlPlaneAvailable: NotAvailable)\n")
	if o := holdfast(t, "status", "-o", "json", "--kubeconfig", m.kubeconfig); !strings.Contains(o.stdout, `"name": "control plane"`) {
		t.Errorf("no stage in\n%s%s", o.stdout, o.stderr)
	}

	c.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	tell(clusterv1.ClusterControlPlaneAvailableCondition, "Available", "", metav1.ConditionTrue)
	update()
	if o := holdfast(t, "status", "--kubeconfig", m.kubeconfig); o.code != exitOK || strings.Contains(o.stdout, "prod/eu: ") {
		t.Errorf("exit %d, and of one that is there it says\n%s%s", o.code, o.stdout, o.stderr)
	}
	c.Spec.Paused = ptr.To(true)
	if err := m.client.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	says("prod/eu: ready for ", "paused: nobody works on it")
}
