package main

import (
	"fmt"
	"slices"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	awsv1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/test/management"
)

// tagRemoved: a tag goes, and comes back.
func (p *play) tagRemoved() {
	const key = "Pool"
	m := p.onAWS.Workers(p.ctx, "general")[0]
	id := management.Instance(m)
	was, err := p.tag(p.ctx, id, key)
	p.must(err)
	p.chapter("Somebody tidies up tags")
	since := p.seen.mark()
	p.tell(byOperator, "$ aws ec2 delete-tags --resources %s --tags Key=%s", id, key)
	p.must(p.untag(p.ctx, id, key))
	p.drifted(m, since)
	p.follow(m.Spec.InfrastructureRef.Name, since)
	p.until("the tag", func() string {
		now, err := p.tag(p.ctx, id, key)
		if err != nil {
			return err.Error()
		}
		if now != was {
			return fmt.Sprintf("tag %s of %s is %q, and was %q", key, id, now, was)
		}
		return ""
	})
	p.tell(verified, "EC2 says: %s has %s=%s", id, key, was)
	p.resolved(m.Name)
}

// worldOpened: SSH is open to the world, and closed again.
func (p *play) worldOpened() {
	infra := &awsv1.AWSCluster{}
	p.onAWS.Get(p.ctx, p.onAWS.Name, infra)
	group := infra.Status.Network.SecurityGroups[awsv1.SecurityGroupNode].ID
	p.chapter("Somebody needs SSH, just for a minute")
	since := p.seen.mark()
	p.tell(byOperator, "$ aws ec2 authorize-security-group-ingress --group-id %s --protocol tcp --port 22 --cidr 0.0.0.0/0", group)
	p.must(p.open(p.ctx, group))
	p.clusterDrifted(infra.Name, since)
	p.follow(infra.Name, since)
	p.until("the closed door", func() string {
		open, err := p.isOpen(p.ctx, group)
		if err != nil {
			return err.Error()
		}
		if open {
			return "port 22 of " + group + " is open to the world"
		}
		return ""
	})
	p.tell(verified, "EC2 says: nothing in %s lets the world reach port 22", group)
}

// resized: an instance is made small, and replaced when a person agrees.
func (p *play) resized() {
	const small, size = "t3.small", 3
	pool := p.onAWS.Name + "-general"
	m := p.onAWS.Workers(p.ctx, "general")[1]
	id := management.Instance(m)
	p.chapter("Somebody saves money; the policy wants a person's word before it replaces the machine")
	since := p.seen.mark()
	p.tell(byOperator, "$ aws ec2 stop-instances … modify-instance-attribute --instance-id %s --instance-type %s … start-instances", id, small)
	p.must(p.resize(p.ctx, id, small))
	p.drifted(m, since)
	r := p.reaches(m.Spec.InfrastructureRef.Name, since, v1alpha1.PhaseAwaitingApproval)
	p.steady(pool, size)
	p.seen.count(pool)
	p.tell(approval, "$ holdfast remediations approve %s", r.Name)
	p.approve(r)
	r = p.follow(m.Spec.InfrastructureRef.Name, since)
	p.replacedBy(r, m, p.instance)
	if n := p.seen.least(pool); n < size {
		p.Fatalf("pool %s had only %d of %d machines available while one was replaced", pool, n, size)
	}
	p.tell(verified, "MachineDeployment %s never had fewer than %d machines available meanwhile", pool, size)
}

// calm is how long a pool must have been whole: Cluster API notices a moment
// later that the operator's own stop has cost it a machine for a while.
const calm = 3 * time.Second

// steady waits until a pool has been whole for a while.
func (p *play) steady(pool string, size int32) {
	var whole time.Time
	p.until("all machines of "+pool+" available again", func() string {
		n := p.seen.available(pool)
		switch {
		case n != size:
			whole = time.Time{}
			return fmt.Sprintf("%d of %d are", n, size)
		case whole.IsZero():
			whole = time.Now()
		}
		if time.Since(whole) < calm {
			return "they are, since a moment ago"
		}
		return ""
	})
}

// terminated: an instance is gone, and made anew.
func (p *play) terminated() {
	m := p.onAWS.Workers(p.ctx, "general")[0]
	id := management.Instance(m)
	p.chapter("Somebody terminates what looks unused")
	since := p.seen.mark()
	p.tell(byOperator, "$ aws ec2 terminate-instances --instance-ids %s", id)
	p.must(p.terminate(p.ctx, id))
	p.drifted(m, since)
	r := p.follow(m.Spec.InfrastructureRef.Name, since)
	p.replacedBy(r, m, p.instance)
}

// shrunk: a virtual machine has less memory, and is made anew.
func (p *play) shrunk() {
	m := p.onVMs.Workers(p.ctx, "general")[0]
	p.chapter("Somebody shrinks a virtual machine; a MachineHealthCheck watches over its pool")
	since := p.seen.mark()
	p.tell(byOperator, "$ govc vm.power -off %s; govc vm.change -vm %s -m 2048; govc vm.power -on %s", m.Name, m.Name, m.Name)
	p.must(p.shrink(p.ctx, management.Instance(m), 2048))
	p.drifted(m, since)
	r := p.follow(m.Spec.InfrastructureRef.Name, since)
	p.replacedBy(r, m, p.virtualMachine)
}

func (p *play) approve(r *record) {
	p.run("holdfast remediations approve", p.binary, "remediations", "approve", r.Name, "--namespace", r.Namespace)
}

// mark is a point in what was seen: only what comes after it counts for a step.
type mark struct {
	at     time.Time
	events int
}

func (o *observer) mark() mark {
	o.mu.Lock()
	defer o.mu.Unlock()
	return mark{at: time.Now().Truncate(time.Second), events: len(o.events)}
}

func driftOf(m *clusterv1.Machine) *metav1.Condition {
	return meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionDriftDetected)
}

func conditionText(c *metav1.Condition) string {
	if c == nil {
		return "no condition DriftDetected"
	}
	return fmt.Sprintf("DriftDetected=%s %s: %s", c.Status, c.Reason, c.Message)
}

// drifted waits for a Machine's condition and for the event about it.
func (p *play) drifted(m *clusterv1.Machine, since mark) {
	p.until("DriftDetected on Machine "+m.Name, func() string {
		now := p.seen.machines[m.Name]
		if now == nil {
			return "the Machine is not there"
		}
		if c := driftOf(now); c == nil || c.Status != metav1.ConditionTrue {
			return conditionText(c)
		}
		return ""
	})
	p.seen.mu.Lock()
	text := conditionText(driftOf(p.seen.machines[m.Name]))
	p.seen.mu.Unlock()
	p.tell(condition, "Machine %s: %s", m.Name, text)
	p.toldOf("Machine", m.Name, since)
}

// toldOf waits for the event about an object's drift, which names the operator.
func (p *play) toldOf(kind, name string, since mark) {
	var told *eventsv1.Event
	p.until("an event about "+kind+" "+name, func() string {
		for _, e := range p.seen.events[min(since.events, len(p.seen.events)):] {
			if e.Reason == "DriftDetected" && e.Regarding.Kind == kind && e.Regarding.Name == name {
				told = e
				return ""
			}
		}
		return "there is none"
	})
	p.tell(event, "%s %s: %s", told.Type, told.Reason, told.Note)
}

// clusterDrifted waits for an AWSCluster's condition, whose contract is v1beta1's.
func (p *play) clusterDrifted(name string, since mark) {
	text := ""
	p.until("DriftDetected on AWSCluster "+name, func() string {
		if c := p.seen.clusters[name]; c != nil {
			for _, x := range c.Status.Conditions {
				if x.Type == v1alpha1.ConditionDriftDetected && x.Status == "True" {
					text = x.Message
					return ""
				}
			}
		}
		return "the condition is not True"
	})
	p.tell(condition, "AWSCluster %s: DriftDetected=True: %s", name, text)
	p.toldOf("AWSCluster", name, since)
}

// resolved waits until a Machine is in sync.
func (p *play) resolved(machine string) {
	p.until("Machine "+machine+" in sync", func() string {
		m := p.seen.machines[machine]
		if m == nil {
			return "the Machine is not there"
		}
		if c := driftOf(m); c == nil || c.Status != metav1.ConditionFalse {
			return conditionText(c)
		}
		return ""
	})
	p.tell(condition, "Machine %s: DriftDetected=False", machine)
}

// recordOf finds the newest acting record of an owner since a mark. The caller holds the
// lock.
func (o *observer) recordOf(owner string, since mark) *record {
	var found *record
	for _, r := range o.records {
		if r.Spec.Owner.Name == owner && !r.CreationTimestamp.Time.Before(since.at) &&
			(found == nil || found.CreationTimestamp.Before(&r.CreationTimestamp)) {
			found = r
		}
	}
	return found.now()
}

// now is the record as it is seen at this moment, nil if there is none. The caller
// holds the lock.
func (r *record) now() *record {
	if r == nil {
		return nil
	}
	return &record{Remediation: r.Remediation, stages: slices.Clone(r.stages)}
}

// reaches waits for an owner's record to be in a phase, and tells of each stage
// on the way. A record that ends otherwise fails the play.
func (p *play) reaches(owner string, since mark, phase v1alpha1.RemediationPhase) *record {
	var r *record
	what := fmt.Sprintf("a Remediation of %s that is %s", owner, phase)
	p.until(what, func() string {
		if r = p.seen.recordOf(owner, since); r == nil {
			return "there is none"
		}
		return ""
	})
	if p.told == nil {
		p.told = map[string]int{}
	}
	if p.told[r.Name] == 0 {
		p.tell(decision, "%s by rule %s, severity %s%s: Remediation %s", r.Spec.Action, r.Spec.Rule.ID, r.Spec.Severity, changedBy(r), r.Name)
	}
	for {
		var next *v1alpha1.RemediationStatus
		p.until(what, func() string {
			r = p.seen.records[r.UID].now()
			if n := p.told[r.Name]; n < len(r.stages) {
				next = &r.stages[n]
				p.told[r.Name]++
				return ""
			}
			return fmt.Sprintf("it is %s %s: %s", r.Status.Phase, r.Status.Reason, r.Status.Message)
		})
		p.stageOf(r, next)
		if next.Phase == phase {
			return r
		}
		if next.Phase.Ended() {
			p.Fatalf("%s: it ended %s %s: %s", what, next.Phase, next.Reason, next.Message)
		}
	}
}

// follow is reaches to a good end.
func (p *play) follow(owner string, since mark) *record {
	return p.reaches(owner, since, v1alpha1.PhaseSucceeded)
}

func changedBy(r *record) string {
	if r.Spec.ChangedBy == "" {
		return ""
	}
	return ", changed by " + r.Spec.ChangedBy
}

// stageOf tells one stage of a record.
func (p *play) stageOf(r *record, s *v1alpha1.RemediationStatus) {
	word := map[v1alpha1.RemediationPhase]string{
		v1alpha1.PhaseAwaitingApproval: held, v1alpha1.PhaseBlocked: held, v1alpha1.PhaseRunning: repair,
		v1alpha1.PhaseVerifying: verify, v1alpha1.PhaseSucceeded: verified,
	}[s.Phase]
	if word == "" {
		return // Pending is over in a moment
	}
	if word == repair && string(r.Spec.Action) == "replace" {
		word = replace
	}
	text := fmt.Sprintf("%s %s", s.Phase, s.Reason)
	if s.Message != "" {
		text += ": " + s.Message
	}
	p.tell(word, "%s", text)
}

// replacedBy tells what took an old machine's place, and what the cloud says of
// it.
func (p *play) replacedBy(r *record, old *clusterv1.Machine, hardware func(*clusterv1.Machine) (string, error)) {
	if r.Status.Replacement == nil || r.Status.Replacement.ReplacedBy == "" {
		p.Fatalf("Remediation %s does not say which Machine took the place of %s: %+v", r.Name, old.Name, r.Status.Replacement)
	}
	name := r.Status.Replacement.ReplacedBy
	var made *clusterv1.Machine
	p.until("Machine "+name+" in the place of "+old.Name, func() string {
		if p.seen.machines[old.Name] != nil {
			return "Machine " + old.Name + " is still there"
		}
		if made = p.seen.machines[name]; made == nil {
			return "Machine " + name + " is not there"
		}
		return ""
	})
	text, err := hardware(made)
	p.must(err)
	p.tell(verified, "Machine %s is gone, Machine %s by way of %s runs on %s", old.Name, name, r.Status.Replacement.Strategy, text)
	p.resolved(name)
}

// instance says what an AWS Machine runs on.
func (p *play) instance(m *clusterv1.Machine) (string, error) {
	id := management.Instance(m)
	i, err := p.cloud.Instance(p.ctx, id)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, which EC2 says is a %s and %s", id, i.InstanceType, i.State.Name), nil
}

// virtualMachine says what a vSphere Machine runs on.
func (p *play) virtualMachine(m *clusterv1.Machine) (string, error) {
	mib, err := p.memory(p.ctx, management.Instance(m))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, which vCenter says has %d MiB", management.Instance(m), mib), nil
}
