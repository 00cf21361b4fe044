package core

import (
	"context"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// program is one of upstream's, by what it leaves in a management cluster.
type program struct {
	// lease is the LeaderElectionID in its main.go.
	lease string
	// provider is the value of the label cluster.x-k8s.io/provider that its
	// manifests have (config/default/kustomization.yaml).
	provider string
}

const labelProvider = "cluster.x-k8s.io/provider"

// programs are upstream's that do what a part does.
var programs = map[Part][]program{
	Core: {{"controller-leader-election-capi", "cluster-api"}},
	Kubeadm: {
		{"kubeadm-bootstrap-manager-leader-election-capi", "bootstrap-kubeadm"},
		{"kubeadm-control-plane-manager-leader-election-capi", "control-plane-kubeadm"},
	},
	AWS:     {{"controller-leader-elect-capa", "infrastructure-aws"}},
	VSphere: {{"capv-controller-manager-runtime", "infrastructure-vsphere"}},
}

// elsewhere lists signs that upstream's own programs do what the parts do: a
// lease that is held and not run out, or a Deployment that is to have a replica.
func elsewhere(ctx context.Context, r client.Reader, parts []Part, now time.Time) ([]string, error) {
	var out []string
	for _, part := range parts {
		for _, p := range programs[part] {
			leases := &coordinationv1.LeaseList{}
			if err := r.List(ctx, leases, client.MatchingFields{"metadata.name": p.lease}); err != nil {
				return nil, fmt.Errorf("list Leases: %w", err)
			}
			for i := range leases.Items {
				if l := &leases.Items[i]; live(l, now) {
					out = append(out, fmt.Sprintf("%s: lease %s/%s is held by %q", part, l.Namespace, l.Name, *l.Spec.HolderIdentity))
				}
			}
			deployments := &appsv1.DeploymentList{}
			if err := r.List(ctx, deployments, client.MatchingLabels{labelProvider: p.provider}); err != nil {
				return nil, fmt.Errorf("list Deployments: %w", err)
			}
			for i := range deployments.Items {
				d := &deployments.Items[i]
				if d.Spec.Replicas == nil || *d.Spec.Replicas > 0 || d.Status.Replicas > 0 {
					out = append(out, fmt.Sprintf("%s: Deployment %s/%s is to run", part, d.Namespace, d.Name))
				}
			}
		}
	}
	return out, nil
}

// live tells whether a lease is held by somebody who renews it. Upstream's
// programs do not give theirs back when they end.
func live(l *coordinationv1.Lease, now time.Time) bool {
	s := l.Spec
	if s.HolderIdentity == nil || *s.HolderIdentity == "" || s.RenewTime == nil || s.LeaseDurationSeconds == nil {
		return false
	}
	return now.Before(s.RenewTime.Add(time.Duration(*s.LeaseDurationSeconds) * time.Second))
}

// refuse gives an error if anybody else does what the parts do.
func refuse(ctx context.Context, r client.Reader, parts []Part, now time.Time) error {
	found, err := elsewhere(ctx, r, parts, now)
	if err != nil {
		return fmt.Errorf("look for upstream's own controller managers: %w", err)
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("upstream's own controller managers run in this management cluster, and two must not look after one object (%s): "+
		"scale them to 0 first, or leave these reconcilers off; --reconcilers-takeover starts nevertheless", strings.Join(found, "; "))
}

// guardPeriod is how often a leader looks whether upstream's programs have been
// started beside it.
const guardPeriod = 30 * time.Second

// guard ends the manager when upstream's programs are started beside it. What it
// cannot read does not end it: an API server that is away stops everybody.
type guard struct {
	reader client.Reader
	parts  []Part
	now    func() time.Time
	every  time.Duration
}

// NeedLeaderElection is true: standbys reconcile nothing.
func (*guard) NeedLeaderElection() bool { return true }

// Start implements manager.Runnable.
func (g *guard) Start(ctx context.Context) error {
	tick := time.NewTicker(g.every)
	defer tick.Stop()
	for {
		found, err := elsewhere(ctx, g.reader, g.parts, g.now())
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			ctrl.LoggerFrom(ctx).Error(err, "Unable to look for upstream's controller managers")
		case len(found) > 0:
			return fmt.Errorf("upstream's own controller managers were started in this management cluster, and two must not look after one object: %s", strings.Join(found, "; "))
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
