package management

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
)

// heartbeat is how often a fleet looks at its instances.
const heartbeat = 100 * time.Millisecond

// power is what a cloud says of an instance, as far as what runs on it is
// concerned.
type power int

const (
	// powerGone is an instance that has ended or that the cloud does not know.
	powerGone power = iota
	// powerOff is one that exists and does not run.
	powerOff
	powerOn
)

// cloud has instances, which it knows by names of its own.
type cloud interface {
	// powers tells the power of all instances; those that it leaves out are
	// gone. It makes no call that a test could count or break.
	powers(context.Context) (map[string]power, error)
	// stop, start and end are what a person does to one behind everybody's
	// back. They return when the cloud has accepted it.
	stop(ctx context.Context, instance string) error
	start(ctx context.Context, instance string) error
	end(ctx context.Context, instance string) error
}

// fleet is what runs on the instances of one cluster: it has a Node and static
// pods for those that run, and has them fall silent with the instance,
// whoever stopped or ended it. It writes nothing to the management cluster.
type fleet struct {
	cloud    cloud
	workload *workload

	mu    sync.Mutex
	hosts map[string]*booted // by Machine
	// management is the management cluster that the cluster's objects are in.
	management client.Reader
	// broken are what tests have done to hosts: see [Cluster].
	broken faults
	// last is the last round's error, for a test that waits in vain.
	last error
}

// faults are failures of hosts of which the cloud knows nothing.
type faults struct {
	// noBoot keeps hosts that have not joined yet from joining.
	noBoot bool
	// cutOff are the Machines whose kubelets nobody hears.
	cutOff map[string]bool
	// follow has the Node of an instance that is gone deleted, as a cloud
	// controller manager does.
	follow bool
}

// booted is a host and what has become of it.
type booted struct {
	host
	joined, up, left bool
}

func newFleet(cloud cloud, w *workload, management client.Reader) *fleet {
	return &fleet{cloud: cloud, workload: w, management: management, hosts: map[string]*booted{}, broken: faults{cutOff: map[string]bool{}}}
}

// run keeps Nodes as their instances are, until ctx ends.
func (f *fleet) run(ctx context.Context) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := f.round(ctx)
		f.mu.Lock()
		f.last = err
		f.mu.Unlock()
		if err != nil && ctx.Err() == nil {
			logf.FromContext(ctx).Error(err, "Hosts did not follow their instances", "cluster", f.workload.name)
		}
	}
}

// add takes in the host of a Machine that has been given an instance.
func (f *fleet) add(h host) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.hosts[h.machine]; !ok {
		f.hosts[h.machine] = &booted{host: h}
	}
}

// has tells whether a Machine has a host.
func (f *fleet) has(machine string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hosts[machine] != nil
}

// managedBy takes in the host of a Machine of a management cluster, to which the
// whole cluster may have been moved.
func (f *fleet) managedBy(management client.Reader, h host) {
	f.mu.Lock()
	f.management = management
	f.mu.Unlock()
	f.add(h)
}

// unbind takes the host of a Machine away that a management cluster has no more. One
// whose instance is there was moved to another management cluster.
func (f *fleet) unbind(ctx context.Context, machine string) error {
	powers, err := f.cloud.powers(ctx)
	if err != nil {
		return fmt.Errorf("look at the instances of cluster %s: %w", f.workload.name, err)
	}
	f.mu.Lock()
	b, ok := f.hosts[machine]
	f.mu.Unlock()
	if !ok || powers[b.instance] != powerGone {
		return nil
	}
	return f.drop(ctx, machine)
}

// drop takes a Machine's host away for good.
func (f *fleet) drop(ctx context.Context, machine string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, ok := f.hosts[machine]
	if !ok {
		return nil
	}
	if err := f.workload.leave(ctx, &b.host); err != nil {
		return err
	}
	delete(f.hosts, machine)
	return nil
}

func (f *fleet) round(ctx context.Context) error {
	powers, err := f.cloud.powers(ctx)
	if err != nil {
		return fmt.Errorf("look at the instances of cluster %s: %w", f.workload.name, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	names := make([]string, 0, len(f.hosts))
	for name := range f.hosts {
		names = append(names, name)
	}
	slices.Sort(names)
	var errs []error
	for _, name := range names {
		if err := f.follow(ctx, f.hosts[name], powers[f.hosts[name].instance]); err != nil {
			errs = append(errs, fmt.Errorf("host of machine %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// follow brings one host to where its instance is. It is called again after an
// error.
func (f *fleet) follow(ctx context.Context, b *booted, p power) error {
	alive := p == powerOn && !f.broken.cutOff[b.machine] && (b.joined || !f.broken.noBoot)
	switch {
	case alive && !b.up:
		if !b.joined {
			if err := f.configure(ctx, &b.host); err != nil {
				return err
			}
		}
		if err := f.workload.join(ctx, &b.host); err != nil {
			return err
		}
		if b.controlPlane {
			if err := f.workload.serve(ctx, f.management, &b.host); err != nil {
				return err
			}
		}
		b.joined, b.up, b.left = true, true, false
	case !alive && b.up:
		if b.controlPlane {
			if err := f.workload.silence(ctx, &b.host); err != nil {
				return err
			}
		}
		if err := f.workload.fall(ctx, &b.host); err != nil {
			return err
		}
		b.up = false
	}
	if p == powerGone && b.joined && f.broken.follow && !b.left {
		if err := f.workload.leave(ctx, &b.host); err != nil {
			return err
		}
		b.left = true
	}
	return nil
}
