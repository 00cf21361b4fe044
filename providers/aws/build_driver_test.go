package aws

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// A builder's yard: a cloud, and one AWSCluster that is stored as an API server
// would, so that what a call was lost before storing is forgotten.
type yard struct {
	t       *testing.T
	cloud   *ec2sim.Server
	ec2     *ec2.Client
	elb     *elb.Client
	elbv2   *elbv2.Client
	region  string
	cluster *clusterv1.Cluster
	stored  []byte
	waiting string
	// onChange is called for each call that changes something, before it is
	// answered.
	onChange func()
}

func newYard(t *testing.T, options ec2sim.Options) *yard {
	t.Helper()
	if options.Delays == nil {
		options.Delays = &ec2sim.Delays{}
	}
	const region = "us-west-2"
	options.Regions = []string{region}
	y := &yard{t: t, region: region}
	options.OnEvent = func(ec2sim.Event) {
		if y.onChange != nil {
			y.onChange()
		}
	}
	y.cloud = ec2sim.New(options)
	t.Cleanup(y.cloud.Close)
	isolate(t, y.cloud.URL())
	credential := y.cloud.Credentials()[0]
	t.Setenv("AWS_ACCESS_KEY_ID", credential.AccessKeyID)
	t.Setenv("AWS_SECRET_ACCESS_KEY", credential.SecretAccessKey)
	y.clients()
	return y
}

func (y *yard) clients() {
	cfg := y.cloud.Config(y.region)
	y.ec2, y.elb, y.elbv2 = ec2.NewFromConfig(cfg), elb.NewFromConfig(cfg), elbv2.NewFromConfig(cfg)
}

// beside is another cluster in the same cloud.
func (y *yard) beside() *yard {
	other := *y
	return &other
}

// declare stores an AWSCluster as its user wrote it. The default is that of the
// acceptance manifest: no network at all.
func (y *yard) declare(namespace, name string, mods ...func(*infrav1.AWSCluster)) *yard {
	y.cluster = &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	a := &infrav1.AWSCluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: infrav1.GroupVersion.String(), Kind: "AWSCluster"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-of-" + namespace + "-" + name), CreationTimestamp: metav1.NewTime(time.Now().Add(-time.Minute))},
		Spec:       infrav1.AWSClusterSpec{Region: y.region, SSHKeyName: ptr("my-key")},
	}
	for _, mod := range mods {
		mod(a)
	}
	y.store(a)
	return y
}

func (y *yard) store(a *infrav1.AWSCluster) {
	data, err := json.Marshal(a)
	if err != nil {
		y.t.Fatal(err)
	}
	y.stored = data
}

func (y *yard) owner() *providers.Owner {
	a := &infrav1.AWSCluster{}
	if err := json.Unmarshal(y.stored, a); err != nil {
		y.t.Fatal(err)
	}
	return &providers.Owner{Ref: providers.RefOf(a), Cluster: y.cluster, Infra: a, InfraCluster: a}
}

func (y *yard) object() *infrav1.AWSCluster { return y.owner().Infra.(*infrav1.AWSCluster) }

func (y *yard) edit(change func(*infrav1.AWSCluster)) {
	a := y.object()
	change(a)
	y.store(a)
}

// pass goes through the pipeline once with a provider of its own, as a process
// does that was just started. It does what the engine does.
func (y *yard) pass(ctx context.Context) (err error) {
	p := provider(y.t)
	owner := y.owner()
	a := owner.Infra.(*infrav1.AWSCluster)
	scope, err := p.Scope(ctx, owner)
	if err != nil {
		return err
	}
	a.Spec.IdentityRef = nil
	if err := p.Settle(ctx, scope, owner); err != nil {
		return err
	}
	a.Spec.IdentityRef = nil // whose object is for the controller to make
	y.store(a)
	snap, err := p.Observe(ctx, scope)
	if err != nil {
		return err
	}
	progress := providers.Progress{}
	for range 30 {
		progress = providers.Progress{Open: map[providers.ID]string{}}
		if progress.Plan, err = p.Plan(owner, snap); err != nil {
			progress.Failed = err
			break
		}
		changed, err := y.round(ctx, p, scope, owner, snap, &progress)
		if err != nil {
			progress.Failed = err
			break
		}
		if len(changed) == 0 {
			break
		}
		c, err := p.Confirm(ctx, scope, changed)
		if err != nil {
			return err
		}
		for _, id := range changed {
			if e := c.Unconfirmed[id]; e != nil {
				return e
			}
			delete(snap.Resources, id)
		}
		next := *snap
		next.Resources = maps.Clone(snap.Resources)
		maps.Copy(next.Resources, c.Resources)
		snap = &next
	}
	y.waiting = p.Note(owner, snap, progress)
	y.store(a)
	return progress.Failed
}

// round takes one round of steps, and gives what differs since.
func (y *yard) round(ctx context.Context, p *Provider, scope providers.Scope, owner *providers.Owner, snap *providers.Snapshot, progress *providers.Progress) (changed []providers.ID, err error) {
	found := map[providers.ID][]detector.Finding{}
	for _, f := range detector.Compare(owner, progress.Plan, snap, detector.Options{Now: snap.TakenAt.Add(24 * time.Hour), Building: true}).Findings {
		id := providers.ID{Kind: f.Resource.Kind, Name: f.Resource.ID}
		found[id] = append(found[id], f)
	}
	todo := map[providers.ID]bool{}
	var sets []func() error
	for i := range progress.Plan {
		w := &progress.Plan[i]
		switch {
		case w.Unchecked != "":
			progress.At = w.ID
			return nil, fmt.Errorf("%s: %s", w.Name, w.Unchecked)
		case w.Unsettled, w.ID.Provisional():
			progress.Open[w.ID] = "it is being made"
			continue
		}
		for _, f := range found[w.ID] {
			if f.Status == detector.Missing || f.Tentative {
				progress.Open[w.ID] = "it is not shown"
			}
			if f.Status != detector.Drifted {
				continue
			}
			c := providers.Change{Resource: w.ID, Owner: owner.Ref, Want: w, Have: f.Have, Token: y.token(owner, w.ID)}
			for _, d := range f.Diffs {
				progress.Open[w.ID] = "its " + d.Path + " waits"
				if d.Mutability == providers.Immutable {
					progress.At = w.ID
					return nil, fmt.Errorf("%s has %s %q and is to have %q", w.ID, d.Path, d.Have.Text(), d.Want.Text())
				}
				if d.Mutability == providers.InPlace && d.Foreign == "" && !d.Want.Provisional() {
					c.Fields = append(c.Fields, providers.FieldChange{Path: d.Path, Want: d.Want, Have: d.Have, Element: d.Element, Mutability: d.Mutability})
				}
			}
			if len(c.Fields) > 0 {
				todo[w.ID] = true
				sets = append(sets, func() error {
					if err := p.Apply(ctx, scope, c); err != nil && !errors.Is(err, providers.ErrPending) {
						progress.At = w.ID
						return err
					}
					changed = append(changed, w.ID)
					return nil
				})
			}
		}
	}
	for i := range progress.Plan {
		w := &progress.Plan[i]
		blocked := slices.ContainsFunc(w.Needs, func(id providers.ID) bool {
			return id.Provisional() || snap.Resources[id] == nil || snap.Resources[id].Gone != "" || todo[id]
		})
		if !w.ID.Provisional() || w.Unsettled || blocked {
			continue
		}
		id, err := p.Create(ctx, scope, providers.Creation{Owner: owner, Want: w, Token: y.token(owner, w.ID)})
		if errors.Is(err, providers.ErrPending) {
			continue
		}
		if err != nil {
			progress.At = w.ID
			return nil, err
		}
		for range 2 { // it may be recorded twice
			if err := p.Record(owner, w.ID, id); err != nil {
				return nil, err
			}
		}
		y.store(owner.Infra.(*infrav1.AWSCluster))
		changed = append(changed, id)
	}
	for _, set := range sets {
		if err := set(); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

func (y *yard) token(owner *providers.Owner, id providers.ID) string {
	return uuid.NewSHA1(uuid.Nil, []byte(string(owner.Ref.UID)+id.String())).String()
}

// build goes through the pipeline until the cluster is ready.
func (y *yard) build(ctx context.Context) {
	y.t.Helper()
	for range 10 {
		if err := y.pass(ctx); err != nil {
			y.t.Fatalf("build %s: %v", y.cluster.Name, err)
		}
		if y.waiting == "" {
			return
		}
	}
	y.t.Fatalf("%s still waits: %s", y.cluster.Name, y.waiting)
}

// unmakePass goes one way through deletion, and says whether all is gone.
func (y *yard) unmakePass(ctx context.Context) (gone bool, err error) {
	y.edit(func(a *infrav1.AWSCluster) {
		if a.DeletionTimestamp.IsZero() {
			a.DeletionTimestamp = ptr(metav1.Now())
		}
	})
	p, owner := provider(y.t), y.owner()
	scope, err := p.Scope(ctx, owner)
	if err != nil {
		return false, err
	}
	snap, err := p.Observe(ctx, scope)
	if err != nil {
		return false, err
	}
	sent := map[providers.ID]bool{}
	for range 30 {
		doomed, err := p.Doomed(owner, snap)
		if err != nil || len(doomed) == 0 {
			return err == nil, err
		}
		needed := map[providers.ID]bool{}
		progress := providers.Progress{Deleting: true, Open: map[providers.ID]string{}}
		for i := range doomed {
			progress.Open[doomed[i].ID] = "it is still there"
			for _, id := range doomed[i].Needs {
				needed[id] = true
			}
		}
		var done []providers.ID
		for i := range doomed {
			d := &doomed[i]
			if needed[d.ID] || d.Unsettled || sent[d.ID] {
				continue
			}
			sent[d.ID] = true
			if err := p.Delete(ctx, scope, providers.Deletion{Owner: owner, Have: d}); err != nil {
				progress.Failed, progress.At = err, d.ID
				continue
			}
			done = append(done, d.ID)
		}
		y.waiting = p.Note(owner, snap, progress)
		y.store(owner.Infra.(*infrav1.AWSCluster))
		if progress.Failed != nil || len(done) == 0 {
			return false, progress.Failed
		}
		c, err := p.Confirm(ctx, scope, done)
		if err != nil {
			return false, err
		}
		next := *snap
		next.Resources = maps.Clone(snap.Resources)
		for _, id := range done {
			delete(next.Resources, id)
		}
		maps.Copy(next.Resources, c.Resources)
		snap = &next
	}
	return false, errors.New("deletion does not come to an end")
}

func (y *yard) unmake(ctx context.Context) {
	y.t.Helper()
	for range 10 {
		gone, err := y.unmakePass(ctx)
		if err != nil {
			y.t.Fatalf("unmake %s: %v", y.cluster.Name, err)
		}
		if gone {
			return
		}
	}
	y.t.Fatalf("%s does not go: %s", y.cluster.Name, y.waiting)
}

// census lists what is in the cloud, by kind, but for what EC2 makes and
// unmakes with a VPC. It is read without the provider.
func (y *yard) census(ctx context.Context) map[string][]string {
	y.t.Helper()
	out := map[string][]string{}
	add := func(kind, id string) { out[kind] = append(out[kind], id) }
	check := func(err error) {
		if err != nil {
			y.t.Fatal(err)
		}
	}
	vpcs, err := y.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{})
	check(err)
	for _, x := range vpcs.Vpcs {
		add("vpc", *x.VpcId)
	}
	subnets, err := y.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{})
	check(err)
	for _, x := range subnets.Subnets {
		add("subnet", *x.SubnetId)
	}
	gateways, err := y.ec2.DescribeInternetGateways(ctx, &ec2.DescribeInternetGatewaysInput{})
	check(err)
	for _, x := range gateways.InternetGateways {
		add("igw", *x.InternetGatewayId)
	}
	nats, err := y.ec2.DescribeNatGateways(ctx, &ec2.DescribeNatGatewaysInput{})
	check(err)
	for _, x := range nats.NatGateways {
		if x.State != ec2types.NatGatewayStateDeleted {
			add("nat", *x.NatGatewayId)
		}
	}
	addresses, err := y.ec2.DescribeAddresses(ctx, &ec2.DescribeAddressesInput{})
	check(err)
	for _, x := range addresses.Addresses {
		add("address", *x.AllocationId)
	}
	tables, err := y.ec2.DescribeRouteTables(ctx, &ec2.DescribeRouteTablesInput{})
	check(err)
	for _, x := range tables.RouteTables {
		if !slices.ContainsFunc(x.Associations, func(a ec2types.RouteTableAssociation) bool { return deref(a.Main) }) {
			add("table", *x.RouteTableId)
		}
	}
	groups, err := y.ec2.DescribeSecurityGroups(ctx, &ec2.DescribeSecurityGroupsInput{})
	check(err)
	for _, x := range groups.SecurityGroups {
		if *x.GroupName != "default" {
			add("group", *x.GroupId)
		}
	}
	classic, err := y.elb.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{})
	check(err)
	for _, x := range classic.LoadBalancerDescriptions {
		add("classic", *x.LoadBalancerName)
	}
	modern, err := y.elbv2.DescribeLoadBalancers(ctx, &elbv2.DescribeLoadBalancersInput{})
	check(err)
	for _, x := range modern.LoadBalancers {
		add("balancer", *x.LoadBalancerArn)
		listeners, err := y.elbv2.DescribeListeners(ctx, &elbv2.DescribeListenersInput{LoadBalancerArn: x.LoadBalancerArn})
		check(err)
		for _, l := range listeners.Listeners {
			add("listener", *l.ListenerArn)
		}
	}
	targets, err := y.elbv2.DescribeTargetGroups(ctx, &elbv2.DescribeTargetGroupsInput{})
	check(err)
	for _, x := range targets.TargetGroups {
		add("target group", *x.TargetGroupArn)
	}
	return out
}

// counts is a census in one line.
func (y *yard) counts(ctx context.Context) string {
	census := y.census(ctx)
	var out []string
	for _, kind := range slices.Sorted(maps.Keys(census)) {
		out = append(out, fmt.Sprintf("%s %d", kind, len(census[kind])))
	}
	return strings.Join(out, ", ")
}
