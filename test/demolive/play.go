package main

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/management"
	"github.com/holdfast-io/holdfast/test/sqssim"
)

//go:embed policy.yaml
var ownPolicy []byte

// queue is the name of the one that brings AWS's events.
const queue = "holdfast-events"

// play is the demo under way.
type play struct {
	*stage
	*story
	*operator
	*settings

	ground       *management.Ground
	onAWS, onVMs *management.Cluster
	seen         *observer
	daemon       *daemon
	queueURL     string
	// told counts, by record, the stages that have been told of.
	told map[string]int
}

// perform plays it all; the stage ends it at the first failure.
func perform(st *stage, s *settings, out *story) {
	p := &play{stage: st, story: out, settings: s}
	p.setUp()
	p.tagRemoved()
	p.worldOpened()
	p.resized()
	p.terminated()
	p.shrunk()
	p.sum()
}

// setUp builds everything that the daemon finds when it starts.
func (p *play) setUp() {
	p.say("Starting a management cluster: kube-apiserver, etcd and Cluster API's own reconcilers; and")
	p.say("two clouds: EC2, EventBridge and SQS by simulators of this repository, vCenter by vcsim.")
	p.ground = management.Start(p.stage)
	events, forward := p.events()
	cloud := p.ground.StartAWS(ec2sim.Options{OnEvent: forward})
	p.onAWS = p.ground.AWSCluster(p.ctx, management.AWS{Workers: 3})
	p.onVMs = p.ground.VSphereCluster(p.ctx, management.VSphere{Workers: 2})
	p.operator = &operator{cloud: cloud, aws: cloud.Clients(cloud.Operator), vcenter: p.ground.VSphere()}
	p.onAWS.WaitReady(p.ctx)
	p.onVMs.WaitReady(p.ctx)
	p.healthCheck()
	p.say("%.0f s later two clusters run: %s on AWS (1 control-plane machine, 3 workers), %s on vSphere (1 and 2).",
		time.Since(p.begun).Seconds(), p.onAWS.Name, p.onVMs.Name)
	p.seen = observe(p.stage, p.ground)
	events()
	p.start()
}

// events gives the queue that AWS's events go to, switched off until the
// daemon is about to start: how the clusters were made is no news.
func (p *play) events() (on func(), forward func(ec2sim.Event)) {
	server := sqssim.New(sqssim.Options{})
	p.Cleanup(server.Close)
	server.Create(queue, time.Hour)
	p.queueURL = server.URL()
	var open atomic.Bool
	return func() { open.Store(true) }, func(e ec2sim.Event) {
		if open.Load() {
			server.Send(queue, e.Body)
		}
	}
}

// healthCheck covers the workers on vSphere: machines there are replaced by way
// of it.
func (p *play) healthCheck() {
	mhc := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: p.ground.Namespace, Name: p.onVMs.Name + "-workers"}}
	mhc.Spec.ClusterName = p.onVMs.Name
	mhc.Spec.Selector.MatchLabels = map[string]string{clusterv1.MachineDeploymentNameLabel: p.onVMs.Name + "-general"}
	mhc.Spec.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, TimeoutSeconds: ptr.To[int32](3600)},
	}
	p.must(p.ground.Client.Create(p.ctx, mhc))
}

// start starts the daemon and waits until it has compared everything.
func (p *play) start() {
	policy := p.policy
	if policy == "" {
		dir, err := os.MkdirTemp("", "holdfast-demo-live-")
		p.must(err)
		p.Cleanup(func() { _ = os.RemoveAll(dir) })
		policy = filepath.Join(dir, "policy.yaml")
		p.must(os.WriteFile(policy, ownPolicy, 0o600))
	}
	p.chapter("$ holdfast controller --policy policy.yaml --aws-event-queue %s", queue)
	p.daemon = startDaemon(p.stage, p.settings, p.ground, policy, "AWS_ENDPOINT_URL_SQS="+p.queueURL)
	p.until("ready", p.daemon.ready)
	p.until("every Machine compared", func() string { return p.seen.inSync() })
	machines := len(p.onAWS.Machines(p.ctx)) + len(p.onVMs.Machines(p.ctx))
	p.tell(condition, "DriftDetected=False on all %d Machines: what runs is what is declared", machines)
}

// inSync names a Machine that has not been found in order. The caller holds the
// lock.
func (o *observer) inSync() string {
	if len(o.machines) == 0 {
		return "no Machine was seen"
	}
	for name, m := range o.machines {
		if c := driftOf(m); c == nil || c.Status != metav1.ConditionFalse {
			return "Machine " + name + " has " + conditionText(c)
		}
	}
	return ""
}

// run runs a program as the operator does, shows the command, and gives what it
// printed.
func (p *play) run(show string, program string, args ...string) string {
	cmd := exec.CommandContext(p.ctx, program, args...)
	cmd.Env = p.ground.Environ()
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.Fatalf("%s: %w\n%s", show, err, out)
	}
	return strings.TrimRight(string(out), "\n")
}

// sum shows what remains of it.
func (p *play) sum() {
	p.chapter("$ kubectl get remediations")
	table := p.run("kubectl get remediations", kubectl(), "get", "remediations", "--namespace", p.ground.Namespace, "--sort-by", ".metadata.creationTimestamp")
	p.say("%s", table)
	p.until("everything in sync", p.seen.inSync)
	p.say("")
	calls := map[string]int{}
	for _, c := range p.cloud.Mutations() {
		calls[c.Action]++
	}
	p.checkCalls(calls)
}

// checkCalls tells which changing calls the daemon made, by the simulators' own
// logs, and fails where they are not those that the story tells of.
func (p *play) checkCalls(calls map[string]int) {
	var names []string
	for name := range calls {
		names = append(names, name)
	}
	slices.Sort(names)
	if want := []string{"CreateTags", "RevokeSecurityGroupIngress"}; !slices.Equal(names, want) || calls[want[0]] != 1 || calls[want[1]] != 1 {
		p.Fatalf("holdfast controller made the changing calls %v on AWS, want one each of %v", calls, want)
	}
	if other := p.vcenter.Log.Mutating(); len(other) > 0 {
		p.Fatalf("holdfast controller made changing calls on vSphere, and the story has none: %v", other)
	}
	p.say("By the clouds' logs holdfast controller made two changing calls: CreateTags and")
	p.say("RevokeSecurityGroupIngress. The three machines were replaced by Cluster API.")
}
