package aws

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/go-cmp/cmp"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/test/ec2sim"
)

const (
	classicCounts = "address 3, classic 1, group 4, igw 1, nat 3, subnet 6, table 6, vpc 1"
	networkCounts = "address 3, balancer 1, group 4, igw 1, listener 1, nat 3, subnet 6, table 6, target group 1, vpc 1"
)

func withNLB(a *infrav1.AWSCluster) {
	a.Spec.ControlPlaneLoadBalancer = &infrav1.AWSLoadBalancerSpec{LoadBalancerType: infrav1.LoadBalancerTypeNLB}
}

// inSync checks that nothing differs from what a report would want, and that
// nothing is left unchecked.
func (y *yard) inSync() {
	y.t.Helper()
	p, owner := provider(y.t), y.owner()
	scope, err := p.Scope(y.t.Context(), owner)
	if err != nil {
		y.t.Fatal(err)
	}
	snap, err := p.Observe(y.t.Context(), scope)
	if err != nil {
		y.t.Fatal(err)
	}
	want, err := p.Desired(owner, snap)
	if err != nil {
		y.t.Fatal(err)
	}
	r := detector.Compare(owner, want, snap, detector.Options{Building: true})
	for _, f := range r.Findings {
		if f.Status != detector.InSync {
			y.t.Errorf("%s %s is %s: %s %+v", f.Resource.Kind, f.Resource.ID, f.Status, f.Reason, f.Diffs)
		}
	}
	if len(r.InSync) < 10 {
		y.t.Errorf("only %d resources are in sync", len(r.InSync))
	}
}

// A cluster of which its user says nothing but the region becomes ready, and is
// what a report wants of it.
func TestBuildCluster(t *testing.T) {
	for name, tc := range map[string]struct {
		mod    func(*infrav1.AWSCluster)
		counts string
	}{
		"classic": {func(*infrav1.AWSCluster) {}, classicCounts},
		"network": {withNLB, networkCounts},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, ec2sim.Options{}).declare("default", "my-cluster", tc.mod)
			y.build(t.Context())
			if diff := cmp.Diff(tc.counts, y.counts(t.Context())); diff != "" {
				t.Errorf("the cloud has (-want +got):\n%s", diff)
			}
			y.inSync()
			mutations := len(y.cloud.Mutations())
			before := string(y.stored)
			y.build(t.Context())
			if n := len(y.cloud.Mutations()) - mutations; n != 0 {
				t.Errorf("a cluster that is ready is written to %d times: %v", n, y.cloud.Mutations()[mutations:])
			}
			if diff := cmp.Diff(before, string(y.stored)); diff != "" {
				t.Errorf("a cluster that is ready changes:\n%s", diff)
			}
			y.unmake(t.Context())
			if left := y.counts(t.Context()); left != "" {
				t.Errorf("left in the cloud: %s", left)
			}
		})
	}
}

// mortal gives a context that ends when the cloud has taken the nth change from
// now, before it is answered: a process that dies there.
func mortal(t *testing.T, y *yard, changes *atomic.Int64, n int64) context.Context {
	ctx, die := context.WithCancel(t.Context())
	t.Cleanup(die)
	last := changes.Load() + n
	y.onChange = func() {
		if changes.Add(1) == last {
			die()
		}
	}
	return ctx
}

// A process that dies after every single call that changes something still
// builds one cluster, and unmakes it.
func TestBuildClusterThroughDeaths(t *testing.T) {
	for name, tc := range map[string]struct {
		mod    func(*infrav1.AWSCluster)
		counts string
	}{
		"classic": {func(a *infrav1.AWSCluster) {
			a.Spec.NetworkSpec.VPC.PrivateDNSHostnameTypeOnLaunch = ptr("resource-name")
		}, classicCounts},
		"network": {withNLB, networkCounts},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, ec2sim.Options{}).declare("default", "my-cluster", tc.mod)
			var changes atomic.Int64
			deaths := 0
			for y.waiting = "yes"; y.waiting != ""; deaths++ {
				if err := y.pass(mortal(t, y, &changes, 1)); err == nil && y.waiting != "" {
					t.Fatalf("waits though nobody died: %s", y.waiting)
				}
				if deaths > 200 {
					t.Fatalf("it never comes to an end: %s", y.counts(t.Context()))
				}
			}
			if deaths < 40 {
				t.Errorf("only %d deaths", deaths)
			}
			y.onChange = nil
			if diff := cmp.Diff(tc.counts, y.counts(t.Context())); diff != "" {
				t.Errorf("the cloud has (-want +got):\n%s", diff)
			}
			y.inSync()
			for _, s := range must[*ec2.DescribeSubnetsOutput](t)(y.ec2.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})).Subnets {
				if want := deref(y.object().Spec.NetworkSpec.VPC.PrivateDNSHostnameTypeOnLaunch); want != "" && string(s.PrivateDnsNameOptionsOnLaunch.HostnameType) != want {
					t.Errorf("%s has host names of type %s", *s.SubnetId, s.PrivateDnsNameOptionsOnLaunch.HostnameType)
				}
			}
			for deaths = 0; ; deaths++ {
				if gone, _ := y.unmakePass(mortal(t, y, &changes, 1)); gone {
					break
				}
				if deaths > 200 {
					t.Fatalf("it never goes: %s", y.counts(t.Context()))
				}
			}
			if deaths < 25 {
				t.Errorf("only %d deaths on the way out", deaths)
			}
			if left := y.counts(t.Context()); left != "" {
				t.Errorf("left in the cloud: %s", left)
			}
		})
	}
}

// Answers that are lost on the way, to which the SDK asks again.
func TestBuildClusterLostAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		mod    func(*infrav1.AWSCluster)
		counts string
	}{
		"classic": {func(*infrav1.AWSCluster) {}, classicCounts},
		"network": {withNLB, networkCounts},
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, ec2sim.Options{}).declare("default", "my-cluster", tc.mod)
			for _, kind := range []string{"Create*", "Allocate*", "Associate*", "Attach*", "Authorize*", "Modify*", "Configure*", "Delete*", "Release*", "Disassociate*", "Detach*", "Revoke*"} {
				for from := 1; from < 40; from += 2 {
					y.cloud.InjectFault(ec2sim.Fault{Action: kind, From: from, Times: 1, Kind: ec2sim.FaultDrop, AfterSuccess: true})
				}
			}
			tries := 0
			for y.waiting = "yes"; y.waiting != ""; tries++ {
				err := y.pass(t.Context())
				if err != nil && lasting(err) {
					t.Fatalf("a lost answer is taken for a refusal: %v", err)
				}
				if tries > 60 {
					t.Fatalf("it never comes to an end: %v", err)
				}
			}
			if diff := cmp.Diff(tc.counts, y.counts(t.Context())); diff != "" {
				t.Errorf("the cloud has (-want +got):\n%s", diff)
			}
			y.inSync()
			for tries = 0; ; tries++ {
				gone, err := y.unmakePass(t.Context())
				if gone {
					break
				}
				if tries > 60 || err != nil && lasting(err) {
					t.Fatalf("it never goes: %v, %s", err, y.counts(t.Context()))
				}
			}
			if left := y.counts(t.Context()); left != "" {
				t.Errorf("left in the cloud: %s", left)
			}
		})
	}
}

// What the user decides of the control plane's endpoint is kept.
func TestBuildClusterEndpoints(t *testing.T) {
	ctx := t.Context()
	t.Run("given", func(t *testing.T) {
		given := clusterv1beta1.APIEndpoint{Host: "api.example.org", Port: 443}
		y := newYard(t, ec2sim.Options{}).declare("default", "my-cluster", func(a *infrav1.AWSCluster) { a.Spec.ControlPlaneEndpoint = given })
		y.build(ctx)
		if got := y.object().Spec.ControlPlaneEndpoint; got != given || y.counts(ctx) != classicCounts {
			t.Errorf("the endpoint became %v, and the cloud has %s", got, y.counts(ctx))
		}
		y.unmake(ctx)
		if left := y.counts(ctx); left != "" {
			t.Errorf("left in the cloud: %s", left)
		}
	})
	t.Run("none", func(t *testing.T) {
		y := newYard(t, ec2sim.Options{}).declare("default", "my-cluster", func(a *infrav1.AWSCluster) {
			a.Spec.ControlPlaneLoadBalancer = &infrav1.AWSLoadBalancerSpec{LoadBalancerType: infrav1.LoadBalancerTypeDisabled}
		})
		for range 3 {
			if err := y.pass(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if !strings.Contains(y.waiting, "spec.controlPlaneEndpoint") || y.object().Status.Ready {
			t.Errorf("waits for %q", y.waiting)
		}
		y.edit(func(a *infrav1.AWSCluster) {
			a.Spec.ControlPlaneEndpoint = clusterv1beta1.APIEndpoint{Host: "api.example.org", Port: 443}
		})
		y.build(ctx)
		if want := "address 3, group 4, igw 1, nat 3, subnet 6, table 6, vpc 1"; y.counts(ctx) != want {
			t.Errorf("the cloud has %s", y.counts(ctx))
		}
	})
	t.Run("two", func(t *testing.T) {
		y := newYard(t, ec2sim.Options{}).declare("default", "my-cluster", func(a *infrav1.AWSCluster) {
			a.Spec.SecondaryControlPlaneLoadBalancer = &infrav1.AWSLoadBalancerSpec{Name: ptr("inside")}
			a.Spec.AdditionalTags = infrav1.Tags{"kubernetes.io/cluster/another": "owned", "team": "platform"}
		})
		y.build(ctx)
		y.inSync()
		st := y.object().Status.Network
		if st.APIServerELB.Name != "my-cluster-apiserver" || st.SecondaryAPIServerELB.Name != "inside" || st.SecondaryAPIServerELB.Scheme != infrav1.ELBSchemeInternal ||
			st.SecondaryAPIServerELB.DNSName == "" || y.object().Spec.ControlPlaneEndpoint.Host != st.APIServerELB.DNSName {
			t.Errorf("recorded are %+v and %+v", st.APIServerELB, st.SecondaryAPIServerELB)
		}
		for id, tags := range y.allTags(ctx) {
			if strings.Contains(tags, "another") {
				t.Errorf("%s is given to another cluster: %s", id, tags)
			}
		}
		y.unmake(ctx)
		if left := y.counts(ctx); left != "" {
			t.Errorf("left in the cloud: %s", left)
		}
	})
}
