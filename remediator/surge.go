package remediator

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/providers"
)

// Steps of a surge, in order.
const (
	StepGrow   = "Grow"   // one machine more, until it is ready
	StepMark   = "Mark"   // the old one is marked as the first to go
	StepShrink = "Shrink" // the number of machines goes back
)

// annotationSurge marks whose replicas are one more than they were, with the
// UID of the record that is to take it back: what a process that starts anew
// finds tells it whether it has grown the group already.
const annotationSurge = v1alpha1.Group + "/surge"

// scaler is where the number of a group's machines is set: in its
// MachineDeployment, or in the topology of its Cluster, which would set it back.
type scaler struct {
	object   client.Object
	path     string // JSON pointer of replicas
	replicas int32
	// tests hold where the path depends on an order.
	tests      []operation
	deployment *clusterv1.MachineDeployment
}

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
}

func noSurge(format string, args ...any) *NoPathError {
	return &NoPathError{Reason: ReasonNoSurge, Message: fmt.Sprintf(format, args...)}
}

func (p *Replacer) chooseSurge(ctx context.Context, r *v1alpha1.Remediation, set *clusterv1.MachineSet) (*v1alpha1.Replacement, error) {
	if set == nil {
		return nil, noSurge("only machines of a MachineDeployment are replaced by a surge: use strategy auto")
	}
	d, err := p.deploymentOf(ctx, set)
	if err != nil {
		return nil, err
	}
	if d == nil {
		return nil, noSurge("MachineSet %s belongs to no MachineDeployment: use strategy auto", set.Name)
	}
	s, err := p.scalerOf(ctx, r, d)
	if err != nil {
		return nil, err
	}
	if by, other := s.object.GetAnnotations()[annotationSurge]; other && by != string(r.UID) {
		return nil, noSurge("another surge of %s has not ended", d.Name)
	}
	n := s.replicas
	return &v1alpha1.Replacement{Strategy: v1alpha1.StrategySurge, Step: StepGrow, Replicas: &n}, nil
}

// scalerOf finds where a MachineDeployment's replicas are set.
func (p *Replacer) scalerOf(ctx context.Context, r *v1alpha1.Remediation, d *clusterv1.MachineDeployment) (*scaler, error) {
	for key := range d.Annotations {
		if strings.HasPrefix(key, "cluster.x-k8s.io/cluster-api-autoscaler-node-group-") || key == clusterv1.ReplicasManagedByAnnotation {
			return nil, noSurge("an autoscaler sets the replicas of MachineDeployment %s: use strategy auto", d.Name)
		}
	}
	if _, owned := d.Labels[clusterv1.ClusterTopologyOwnedLabel]; owned {
		return p.topologyScaler(ctx, r, d)
	}
	if d.Spec.Replicas == nil {
		return nil, noSurge("MachineDeployment %s says nothing about its replicas", d.Name)
	}
	return &scaler{object: d, path: "/spec/replicas", replicas: *d.Spec.Replicas, deployment: d}, nil
}

func (p *Replacer) topologyScaler(ctx context.Context, r *v1alpha1.Remediation, d *clusterv1.MachineDeployment) (*scaler, error) {
	c, err := p.cluster(ctx, r)
	if err != nil {
		return nil, err
	}
	name := d.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel]
	for i, t := range c.Spec.Topology.Workers.MachineDeployments {
		if t.Name != name || name == "" {
			continue
		}
		if t.Replicas == nil {
			return nil, noSurge("the topology of Cluster %s says nothing about the replicas of %s", c.Name, name)
		}
		at := fmt.Sprintf("/spec/topology/workers/machineDeployments/%d", i)
		return &scaler{object: c, path: at + "/replicas", replicas: *t.Replicas, deployment: d,
			tests: []operation{{Op: "test", Path: at + "/name", Value: name}}}, nil
	}
	return nil, noSurge("the topology of Cluster %s has no MachineDeployment %q", c.Name, name)
}

// set changes the number of machines, and the mark of whose surge it is.
func (p *Replacer) set(ctx context.Context, s *scaler, from, to int32, mark, unmark string) error {
	ops := append([]operation{
		{Op: "test", Path: "/metadata/uid", Value: s.object.GetUID()},
		{Op: "test", Path: "/metadata/resourceVersion", Value: s.object.GetResourceVersion()},
		{Op: "test", Path: s.path, Value: from},
	}, s.tests...)
	ops = append(ops, operation{Op: "replace", Path: s.path, Value: to})
	key := "/metadata/annotations/" + providers.Pointer(annotationSurge)[1:]
	switch {
	case unmark != "":
		ops = append(ops, operation{Op: "test", Path: key, Value: unmark}, operation{Op: "remove", Path: key})
	case s.object.GetAnnotations() == nil:
		ops = append(ops, operation{Op: "add", Path: "/metadata/annotations", Value: map[string]string{annotationSurge: mark}})
	default:
		ops = append(ops, operation{Op: "add", Path: key, Value: mark})
	}
	data, err := json.Marshal(ops)
	if err != nil {
		return err
	}
	target := s.object.DeepCopyObject().(client.Object)
	if err := p.Client.Patch(ctx, target, client.RawPatch(types.JSONPatchType, data), client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return fmt.Errorf("set the replicas of %s from %d to %d: %w", s.deployment.Name, from, to, err)
	}
	return nil
}

// recordScaler finds the scaler of a record that has begun a surge, nil if its
// MachineDeployment is gone.
func (p *Replacer) recordScaler(ctx context.Context, r *v1alpha1.Remediation) (*scaler, error) {
	_, name, _ := strings.Cut(r.Spec.Pool, "/")
	d, err := p.deployment(ctx, r.Namespace, name)
	if err != nil || d == nil {
		return nil, err
	}
	return p.scalerOf(ctx, r, d)
}

// surge takes one step of a surge. m is nil once the old Machine is gone, which
// may happen at any step: somebody else may delete it.
func (p *Replacer) surge(ctx context.Context, r *v1alpha1.Remediation, m *clusterv1.Machine) (Progress, error) {
	out := Progress{Replacement: *r.Status.Replacement}
	gone := m == nil || !m.DeletionTimestamp.IsZero()
	s, err := p.recordScaler(ctx, r)
	if err != nil {
		return out, err
	}
	if s == nil || r.Status.Replacement.Replicas == nil {
		out.Done = gone
		out.Reason, out.Message = ReasonWaitingForDeletion, "the MachineDeployment is gone"
		return out, nil
	}
	before := *r.Status.Replacement.Replicas
	switch out.Replacement.Step {
	case StepGrow:
		out.Reason, out.Message = ReasonWaitingForSurge, fmt.Sprintf("one machine more than %d is being made", before)
		out.Replacement.Step, err = p.grow(ctx, r, s, before, gone)
		return out, err
	case StepMark:
		out.Reason, out.Message = ReasonWaitingForSurge, "the old machine is marked as the first to go"
		if !gone {
			if err := p.annotate(ctx, m, clusterv1.DeleteMachineAnnotation); err != nil {
				return out, err
			}
		}
		out.Replacement.Step = StepShrink
	default:
		out.Reason, out.Message = ReasonWaitingForDeletion, fmt.Sprintf("the number of machines goes back to %d", before)
		if err := p.shrink(ctx, r, s, before); err != nil {
			return out, err
		}
		out.Done = gone
	}
	return out, nil
}

// grow asks for one machine more, once, and gives the step that is next.
func (p *Replacer) grow(ctx context.Context, r *v1alpha1.Remediation, s *scaler, before int32, gone bool) (string, error) {
	mark := s.object.GetAnnotations()[annotationSurge]
	switch grown := mark == string(r.UID); {
	case gone:
		return StepShrink, nil
	case grown:
		ready, err := p.surged(ctx, r, s.deployment, before)
		if err != nil || !ready {
			return StepGrow, err
		}
		return StepMark, nil
	case s.replicas == before && mark == "":
		return StepGrow, p.set(ctx, s, before, before+1, string(r.UID), "")
	default:
		return StepGrow, &providers.ApplyError{Reason: providers.ReasonMoved,
			Err: fmt.Errorf("the replicas of %s were %d and are %d now", s.deployment.Name, before, s.replicas)}
	}
}

// surged reports that the machine more is there, and that as many as there were
// are ready without the old one: it may be the one that is not.
func (p *Replacer) surged(ctx context.Context, r *v1alpha1.Remediation, d *clusterv1.MachineDeployment, before int32) (bool, error) {
	at := func(n *int32) bool { return n != nil && *n > before }
	if d.Status.ObservedGeneration < d.Generation || !at(d.Spec.Replicas) || !at(d.Status.Replicas) {
		return false, nil
	}
	g, err := p.Group(ctx, r)
	if err != nil {
		return false, err
	}
	others := g.Ready
	if g.Old != nil && g.Old.DeletionTimestamp.IsZero() && isReady(g.Old) {
		others--
	}
	return others >= int(before), nil
}

// shrink takes back the machine more, once: the mark goes with it. Whoever
// changed the number meanwhile keeps what they set.
func (p *Replacer) shrink(ctx context.Context, r *v1alpha1.Remediation, s *scaler, before int32) error {
	if s.object.GetAnnotations()[annotationSurge] != string(r.UID) {
		return nil
	}
	to := before
	if s.replicas != before+1 {
		to = s.replicas
	}
	return p.set(ctx, s, s.replicas, to, "", string(r.UID))
}

// ungrow takes back a surge that is given up.
func (p *Replacer) ungrow(ctx context.Context, r *v1alpha1.Remediation) error {
	s, err := p.recordScaler(ctx, r)
	if err != nil || s == nil || r.Status.Replacement.Replicas == nil {
		return err
	}
	return p.shrink(ctx, r, s, *r.Status.Replacement.Replicas)
}
