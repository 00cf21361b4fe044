package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	awsv1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
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
  - {id: set-back, target: {provider: aws, statuses: [Drifted, Missing]}, action: patch, disruptive: allowed, grace: {for: 0s, observations: 1}}
`

// awsPatched are the rows of the catalog, by tampers, that are set back in place
// on AWS; the values say why a tamper is played elsewhere.
var awsPatched = map[string]string{
	"instance stopped by a person": "", "control-plane instance stopped by a person": "a control plane of one cannot lose it",
	"instance stopped by AWS": "the field that a person's stop changes", "instance type changed": "",
	"metadata tokens made optional": "", "metadata hop limit raised and tags shown": "", "metadata endpoint switched off": "",
	"tag changed": "", "tags removed": "", "tag spelled in lower case": "", "name tag changed": "", "ownership tags removed": "",
	"tags of a subnet removed": "", "tags of gateways and route tables removed": "", "ownership tag of the VPC removed": "",
	"tag of a security group changed": "", "tags of the load balancer removed": "",
	"security group detached from an instance": "", "default security group attached to an instance": "",
	"instance profile replaced": "", "instance profile taken away": "",
	"control plane deregistered from its target group": "", "control plane registered on another port": "",
	"root volume of another type": "", "root volume slowed down": "", "further volume of another type and slower": "",
	"DNS host names of the VPC switched off": "", "DNS support of the VPC switched off": "",
	"public subnet stops giving public addresses": "",
	"subnet moved to another network ACL":         "", "answers denied by the default network ACL": "", "traffic denied by the default network ACL": "",
	"default route of a private subnet deleted": "", "private subnet opened to the internet": "", "private route sent to an instance": "",
	"private subnet put into a public route table": "",
	"SSH opened to the world":                      "", "everything opened to one address": "", "etcd rule revoked": "", "node ports narrowed to one host": "",
	"rules given back to the default group": "",
	"listener deleted":                      "", "health check of the target group changed": "", "health check of the target group sent elsewhere": "",
	"load balancer taken out of a zone": "", "cross-zone balancing switched off": "", "security group of the load balancer swapped": "",
}

// awsWatched are the rows that nothing is done about: a field that AWS cannot
// change in place, what it announces, and what belongs to nobody.
var awsWatched = []string{
	"public address given to a private machine", "instance that no object wants", "volume that no object wants",
	"interface that no object wants", "security group that no object wants", "load balancer that no object wants",
}

// playedHere are the tampers of a table that are played where it is used.
func playedHere(table map[string]string) (names []string) {
	for name, elsewhere := range table {
		if elsewhere == "" {
			names = append(names, name)
		}
	}
	return names
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
	c := g.AWSCluster(ctx, management.AWS{Workers: 2, Storage: 2})
	c.WaitReady(ctx)
	env := c.AWSEnvironment(ctx)
	rows := awsRows(t, env, clock, playedHere(awsPatched))
	rehearse(ctx, t, rows)
	c.WaitReady(ctx)
	w := &world{
		Ground: g, t: t, c: c, policy: setBack,
		d: start(t, g, strings.ReplaceAll(setBack, "MODE", "observe")),
		mutations: func() (out []string) {
			for _, call := range g.AWS().Mutations() {
				out = append(out, call.Action)
			}
			return out
		},
		condition: func(ctx context.Context, owner string) (string, string, error) { return awsCondition(ctx, c, owner) },
	}
	c.Eventually(ctx, "without a finding", func(context.Context) error { return w.counted(nil) })
	for _, batch := range batches(rows) {
		w.play(ctx, batch)
		if t.Failed() {
			return
		}
	}
	w.watch(ctx, awsRows(t, env, clock, awsWatched))
	uids := map[string]types.UID{"AWSCluster": env.AWSCluster.UID}
	for _, m := range slices.Concat(c.Workers(ctx, "general")[:1], c.Workers(ctx, "storage")[:1]) {
		uids["Machine "+m.Name] = m.UID
	}
	for who, uid := range uids {
		told := w.eventsOf(ctx, uid)
		for _, reason := range []string{"DriftDetected", "DriftResolved"} {
			if !slices.Contains(told, reason) {
				t.Errorf("no event %s about %s among %v", reason, who, told)
			}
		}
	}
}

// awsRows are the tampers that are played here.
func awsRows(t *testing.T, env *awscluster.Environment, clock *awsClock, names []string) (rows []*row) {
	t.Helper()
	left := map[string]bool{}
	for _, name := range names {
		left[name] = true
	}
	for _, tamper := range awscluster.Tampers() {
		if !left[tamper.Name] || tamper.NotOnSim != "" || tamper.On() != awscluster.DefaultExample || tamper.Variant != "" {
			continue
		}
		delete(left, tamper.Name)
		rest := func() {
			if strings.Contains(tamper.Row, "volume") {
				clock.skip(7 * time.Hour)
			}
		}
		rows = append(rows, &row{name: tamper.Name, alone: strings.Contains(tamper.Row, "volume") || tamper.Name == "listener deleted", do: func(ctx context.Context) ([]expected, func(context.Context) error, error) {
			rest()
			damage, err := tamper.Do(ctx, env)
			if err != nil {
				return nil, nil, err
			}
			rest()
			return awsExpected(damage.Findings), damage.Undo, nil
		}})
	}
	for name := range left {
		t.Errorf("there is no tamper %q for the simulator", name)
	}
	return rows
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

// awsCondition gives the condition DriftDetected of an infrastructure object.
func awsCondition(ctx context.Context, c *management.Cluster, owner string) (status, message string, err error) {
	kind, name, _ := strings.Cut(owner, "/")
	var list clusterv1beta1.Conditions
	switch kind {
	case "AWSMachine":
		m := &awsv1.AWSMachine{}
		c.Get(ctx, name, m)
		list = m.Status.Conditions
	case "AWSCluster":
		o := &awsv1.AWSCluster{}
		c.Get(ctx, name, o)
		list = o.Status.Conditions
	default:
		return "", "", fmt.Errorf("no condition is known of %s", owner)
	}
	for _, have := range list {
		if string(have.Type) == driftv1.ConditionDriftDetected {
			return string(have.Status), have.Message, nil
		}
	}
	return "", "", fmt.Errorf("%s has no condition DriftDetected", owner)
}
