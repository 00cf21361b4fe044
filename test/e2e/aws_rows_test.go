package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers/aws"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/management"
)

// setBack sets back whatever can be.
const setBack = `apiVersion: drift.holdfast.io/v1alpha1
kind: DriftPolicy
metadata: {name: set-back}
spec:
  mode: MODE
  safety: {maxDriftRatio: 100%, maxUnhealthyZone: 100%, minHealthy: 0, controlPlane: enforce}
  budgets: [{scope: cluster, actions: [patch], max: 100}]
  rules:
  - {id: set-back, target: {provider: PROVIDER, statuses: [Drifted, Missing]}, action: patch, disruptive: allowed, grace: {for: 0s, observations: 1}}
`

func setBackOn(provider string) string { return strings.ReplaceAll(setBack, "PROVIDER", provider) }

// awsPatched are the tampers of the default example that are set back in place on
// AWS, one after another where they touch the same.
var awsPatched = []string{
	"instance stopped by a person", "control-plane instance stopped by a person", "instance stopped by AWS", "instance type changed",
	"metadata tokens made optional", "metadata hop limit raised and tags shown", "metadata endpoint switched off",
	"tag changed", "tags removed", "tag spelled in lower case", "name tag changed", "ownership tags removed", "tag declared and never set",
	"tags of a subnet removed", "tags of gateways and route tables removed", "ownership tag of the VPC removed",
	"tag of a security group changed", "tags of the load balancer removed",
	"security group detached from an instance", "default security group attached to an instance",
	"instance profile replaced", "instance profile taken away", "profile of another role declared by its ARN",
	"control plane deregistered from its target group", "control plane registered on another port",
	"DNS host names of the VPC switched off", "DNS support of the VPC switched off", "secondary block of the VPC declared",
	"public subnet stops giving public addresses",
	"subnet moved to another network ACL", "answers denied by the default network ACL", "traffic denied by the default network ACL",
	"default route of a private subnet deleted", "private subnet opened to the internet", "private route sent to an instance",
	"private subnet put into a public route table",
	"SSH opened to the world", "everything opened to one address", "etcd rule revoked", "node ports narrowed to one host",
	"rules given back to the default group",
	"health check of the target group changed", "health check of the target group sent elsewhere",
	"load balancer taken out of a zone", "cross-zone balancing switched off", "security group of the load balancer swapped",
}

// awsOnce are those that nothing but a repair undoes, with what they touch: they
// are played apart from the others.
var awsOnce = map[string][]string{
	"root volume of another type": {"worker"}, "root volume declared larger": {"worker"},
	"root volume slowed down":                   {"control plane"},
	"further volume of another type and slower": {"storage"}, "further volume declared larger": {"storage"}, "second interface declared": {"storage"},
	"listener deleted": {"load balancer"},
}

// awsClassicPatched are those of the example with a classic load balancer.
var awsClassicPatched = []string{
	"health check of the classic load balancer changed", "listener of the classic load balancer deleted",
	"idle time of the classic load balancer shortened", "control plane deregistered from the classic load balancer",
}

// awsWatched are those that nothing is done about: what AWS announces.
var awsWatched = []string{"retirement scheduled"}

// awsOrphans belong to nobody.
var awsOrphans = []string{
	"instance that no object wants", "volume that no object wants",
	"interface that no object wants", "security group that no object wants", "load balancer that no object wants",
}

// awsClock is the real time and what was skipped of it: EC2 lets a volume be
// modified once in six hours.
type awsClock struct {
	mu      sync.Mutex
	skipped time.Duration
}

func (c *awsClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.skipped)
}

func (c *awsClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *awsClock) skip(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skipped += d
}

// Each row of the catalog that can be set back on AWS: it is found, told by
// condition, event and metric whatever the mode, and repaired, verified and
// recorded in mode enforce alone.
func TestAWSRowsAreSetBack(t *testing.T) {
	long(t)
	t.Parallel()
	ctx := t.Context()
	g := management.Start(t)
	clock := &awsClock{}
	g.StartAWS(ec2sim.Options{Clock: clock})
	c := g.AWSCluster(ctx, management.AWS{ControlPlanes: 3, Workers: 2, Storage: 2})
	classic := g.AWSCluster(ctx, management.AWS{Name: "dev", Example: "dev-classic.yaml"})
	c.WaitReady(ctx)
	classic.WaitReady(ctx)
	play := newAWSRows(ctx, t, g, c, clock)
	rows, once := play.rows(awsPatched), play.rows(slices.Collect(maps.Keys(awsOnce)))
	for _, r := range once {
		r.touches = awsOnce[r.name]
	}
	watched := play.rows(awsWatched)
	play.rehearse(ctx, slices.Concat(rows, watched))
	playOld := newAWSRows(ctx, t, g, classic, clock)
	old := playOld.rows(awsClassicPatched)
	playOld.rehearse(ctx, old)
	c.WaitReady(ctx)

	drifted := cover(aws.Registration().Catalog)
	d := start(t, g, strings.ReplaceAll(setBackOn("aws"), "MODE", "observe"))
	w := on(t, g, c, d, setBackOn("aws"), func() []string { return awsMutations(g) }, drifted)
	o := on(t, g, classic, d, setBackOn("aws"), w.mutations, drifted)
	w.quiet(ctx)
	o.quiet(ctx)
	for _, batch := range slices.Concat(batches(rows), batches(once)) {
		w.play(ctx, batch, w.repaired)
	}
	for _, batch := range batches(watched) {
		w.play(ctx, batch, w.left)
	}
	for _, batch := range batches(old) {
		o.play(ctx, batch, o.repaired)
	}
	drifted.check(t, awsPlayed)
}

// awsMutations are the daemon's own.
func awsMutations(g *management.Ground) (out []string) {
	for _, call := range g.AWS().Mutations() {
		out = append(out, call.Action)
	}
	return out
}

// awsRows makes rows of tampers with one cluster.
type awsRows struct {
	t     *testing.T
	env   *awscluster.Environment
	clock *awsClock
	push  func(context.Context) error
	// example and variant are the cluster's; skip says why one cannot be played.
	example, variant string
	skip             func(*awscluster.Tamper) string
	// orphans says that what belongs to nobody is told. On the ground tests run
	// side by side, each with a cluster of the same name in a namespace of its
	// own, and an ownership tag may mean any of them.
	orphans bool
}

func newAWSRows(ctx context.Context, t *testing.T, g *management.Ground, c *management.Cluster, clock *awsClock) *awsRows {
	t.Helper()
	env := c.AWSEnvironment(ctx)
	r := &awsRows{t: t, env: env, clock: clock, example: awscluster.DefaultExample, skip: func(x *awscluster.Tamper) string { return x.NotOnSim }}
	if len(env.TargetGroups) == 0 {
		r.example = "dev-classic.yaml"
	}
	r.push = edits(g.Client, awsObjects(env))
	return r
}

// awsObjects are those that tampers edit.
func awsObjects(env *awscluster.Environment) []client.Object {
	out := []client.Object{env.AWSCluster}
	for i := range env.Machines {
		out = append(out, env.Machines[i], env.AWSMachines[i])
	}
	return out
}

// edits gives what takes changes of copies of objects to the API server.
func edits(c client.Client, objects []client.Object) func(context.Context) error {
	known := make([]client.Object, len(objects))
	for i, o := range objects {
		known[i] = o.DeepCopyObject().(client.Object)
	}
	return func(ctx context.Context) error {
		for i, o := range objects {
			diff := client.MergeFrom(known[i])
			data, err := diff.Data(o)
			if err != nil {
				return err
			}
			if string(data) == "{}" {
				continue
			}
			known[i] = o.DeepCopyObject().(client.Object)
			if err := c.Patch(ctx, o.DeepCopyObject().(client.Object), client.RawPatch(diff.Type(), data)); err != nil {
				return fmt.Errorf("edit %T %s: %w", o, o.GetName(), err)
			}
		}
		return nil
	}
}

// rehearse is the function of that name, of which the API server hears nothing:
// controllers that have just read an edit may write it once more after it has
// been undone.
func (r *awsRows) rehearse(ctx context.Context, rows []*row) {
	r.t.Helper()
	push := r.push
	defer func() { r.push = push }()
	r.push = func(context.Context) error { return nil }
	rehearse(ctx, r.t, rows)
}

// rows are the tampers of these names.
func (r *awsRows) rows(names []string) (rows []*row) {
	r.t.Helper()
	left := map[string]bool{}
	for _, name := range names {
		left[name] = true
	}
	for _, tamper := range awscluster.Tampers() {
		if !left[tamper.Name] || r.skip(&tamper) != "" || tamper.On() != r.example || tamper.Variant != r.variant {
			continue
		}
		delete(left, tamper.Name)
		rows = append(rows, &row{name: tamper.Name, do: func(ctx context.Context) ([]expected, func(context.Context) error, error) {
			return r.do(ctx, &tamper)
		}})
	}
	for name := range left {
		r.t.Errorf("there is no tamper %q to be played here", name)
	}
	return rows
}

func (r *awsRows) do(ctx context.Context, tamper *awscluster.Tamper) ([]expected, func(context.Context) error, error) {
	rest := func() {
		if r.clock != nil && strings.Contains(tamper.Row, "volume") {
			r.clock.skip(7 * time.Hour)
		}
	}
	rest()
	damage, err := tamper.Do(ctx, r.env)
	if err == nil {
		err = r.push(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	rest()
	if !r.orphans {
		damage.Findings = slices.DeleteFunc(damage.Findings, func(f awscluster.Finding) bool { return f.Status == detector.Unexpected })
	}
	if damage.Undo == nil {
		return awsExpected(damage.Findings), nil, nil
	}
	return awsExpected(damage.Findings), func(ctx context.Context) error {
		if err := damage.Undo(ctx); err != nil {
			return err
		}
		return r.push(ctx)
	}, nil
}

func awsExpected(findings []awscluster.Finding) (out []expected) {
	for _, f := range findings {
		e := expected{owner: f.Owner, kind: f.Kind, id: f.ID, status: f.Status}
		for _, d := range f.Diffs {
			e.diffs = append(e.diffs, difference{d.Path, d.Want, d.Have})
		}
		out = append(out, e)
	}
	return out
}
