package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lease is this process's claim to be the one that acts.
type lease struct {
	namespace, name, identity string
	duration                  time.Duration
	leases                    coordinationv1.LeasesGetter
	now                       func() time.Time
}

// newLease names the claim; nothing is asked yet. It is nil without leader
// election.
func newLease(c *controllerConfig, cfg *rest.Config) (*lease, error) {
	if !c.LeaderElect {
		return nil, nil //nolint:nilnil // no lease is what was asked for
	}
	namespace := c.LeaderElectionNamespace
	if namespace == "" {
		namespace = ownNamespace()
	}
	if namespace == "" {
		namespace = c.Namespace
	}
	if namespace == "" {
		return nil, errors.New("it is not known where to keep the lease: set --leader-election-namespace, or --leader-elect=false if one process alone runs")
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name the holder of the lease: %w", err)
	}
	cfg = rest.CopyConfig(cfg)
	// A request that outlasts the deadline must not block the next try.
	cfg.Timeout = c.LeaderElectionRenewDeadline.Duration / 2
	client, err := coordinationv1.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	return &lease{namespace: namespace, name: c.LeaderElectionID, identity: host + "_" + uuid.NewString(),
		duration: c.LeaderElectionLeaseDuration.Duration, leases: client, now: time.Now}, nil
}

// namespaceFile is where Kubernetes tells a pod its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

func ownNamespace() string {
	data, err := os.ReadFile(namespaceFile)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

func (l *lease) lock() resourcelock.Interface {
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: l.namespace, Name: l.name},
		Client:     l.leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: l.identity},
	}
}

// held reads the lease live and gives an error unless it is this process's, and
// not about to run out. It stands before every act: a leader that was paused,
// or cut off for a while, may believe that it is one still.
func (l *lease) held(ctx context.Context) error {
	if l == nil {
		return nil
	}
	live, err := l.leases.Leases(l.namespace).Get(ctx, l.name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the lease %s/%s: %w", l.namespace, l.name, err)
	}
	holder := live.Spec.HolderIdentity
	switch {
	case holder == nil || *holder != l.identity:
		return fmt.Errorf("the lease %s/%s is not this process's any more", l.namespace, l.name)
	case live.Spec.RenewTime == nil:
		return fmt.Errorf("the lease %s/%s was never renewed", l.namespace, l.name)
	}
	if age := l.now().Sub(live.Spec.RenewTime.Time); age > l.duration/2 {
		return fmt.Errorf("the lease %s/%s was renewed %s ago: another process may take it any moment", l.namespace, l.name, age.Round(time.Millisecond))
	}
	return nil
}
