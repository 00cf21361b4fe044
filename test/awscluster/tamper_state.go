package awscluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// userShutdown is the reason code of what a person stopped or terminated (EC2
// API reference, StateReason).
const userShutdown = "Client.UserInitiatedShutdown"

func stateTampers() []Tamper {
	return []Tamper{
		{
			Name: "instance terminated by a person", Row: "terminated", Cases: []string{"C58"},
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				if err := e.terminate(ctx, m.id); err != nil {
					return nil, err
				}
				return &Damage{Findings: []Finding{machineGone(m, "terminated: "+userShutdown)}}, nil
			}),
		},
		{
			Name: "instance stopped by a person", Row: "stopped by a person", Cases: []string{"C58"},
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				if err := e.stop(ctx, m.id); err != nil {
					return nil, err
				}
				return &Damage{
					Findings: []Finding{machineDrift(m, changed("/state", "running", "stopped"))},
					Undo:     func(ctx context.Context) error { return e.start(ctx, m.id) },
				}, nil
			}),
		},
		{
			Name: "control-plane instance stopped by a person", Row: "stopped by a person",
			Do: onMachine((*Environment).controlPlane, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				if err := e.stop(ctx, m.id); err != nil {
					return nil, err
				}
				return &Damage{
					Findings: []Finding{machineDrift(m, changed("/state", "running", "stopped"))},
					Undo:     func(ctx context.Context) error { return e.start(ctx, m.id) },
				}, nil
			}),
		},
		{
			Name: "instance gone without a trace", Row: "existence",
			Do: onMachine((*Environment).worker, func(_ context.Context, e *Environment, m *machine) (*Damage, error) {
				return e.lose(m), nil
			}),
		},
		{
			Name: "instance too young to be missed", Row: "existence", Cases: []string{"C45"},
			Do: onMachine((*Environment).worker, func(_ context.Context, e *Environment, m *machine) (*Damage, error) {
				damage, created := e.lose(m), m.aws.CreationTimestamp
				m.aws.CreationTimestamp.Time = time.Now()
				damage.Findings[0].Status, damage.Findings[0].Diffs = detector.Unknown, nil
				mend := damage.Undo
				damage.Undo = func(ctx context.Context) error {
					m.aws.CreationTimestamp = created
					return mend(ctx)
				}
				return damage, nil
			}),
		},
	}
}

// lose makes the machine's objects name an instance that EC2 does not know, as
// one is hours after its end. The instance that runs is then nobody's.
func (e *Environment) lose(m *machine) *Damage {
	const lost = "i-0fffffffffffffff0"
	record := func(id string) {
		provider := strings.Replace(*m.aws.Spec.ProviderID, *m.aws.Spec.InstanceID, id, 1)
		m.aws.Spec.ProviderID, m.aws.Spec.InstanceID, m.core.Spec.ProviderID = &provider, &id, provider
	}
	record(lost)
	gone := machineGone(m, "")
	gone.ID = lost
	return &Damage{
		Findings: []Finding{gone, e.orphan(providers.KindInstance, m.id, "running")},
		Undo: func(context.Context) error {
			record(m.id)
			return nil
		},
	}
}

func (e *Environment) stop(ctx context.Context, id string) error {
	if _, err := e.EC2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{id}}); err != nil {
		return fmt.Errorf("stop %s: %w", id, err)
	}
	return e.stopped(ctx, id)
}

func (e *Environment) stopped(ctx context.Context, id string) error {
	return ec2.NewInstanceStoppedWaiter(e.EC2, func(o *ec2.InstanceStoppedWaiterOptions) {
		o.MinDelay, o.MaxDelay = tamperPoll, tamperPoll
	}).Wait(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}}, tamperPatience)
}

func (e *Environment) start(ctx context.Context, id string) error {
	if _, err := e.EC2.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{id}}); err != nil {
		return fmt.Errorf("start %s: %w", id, err)
	}
	return e.running(ctx, id)
}

func (e *Environment) running(ctx context.Context, id string) error {
	return ec2.NewInstanceRunningWaiter(e.EC2, func(o *ec2.InstanceRunningWaiterOptions) {
		o.MinDelay, o.MaxDelay = tamperPoll, tamperPoll
	}).Wait(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}}, tamperPatience)
}

func (e *Environment) terminate(ctx context.Context, id string) error {
	if _, err := e.EC2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
		return fmt.Errorf("terminate %s: %w", id, err)
	}
	return ec2.NewInstanceTerminatedWaiter(e.EC2, func(o *ec2.InstanceTerminatedWaiterOptions) {
		o.MinDelay, o.MaxDelay = tamperPoll, tamperPoll
	}).Wait(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}}, tamperPatience)
}

// describe reads one instance.
func (e *Environment) describe(ctx context.Context, id string) (*types.Instance, error) {
	out, err := e.EC2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", id, err)
	}
	for _, r := range out.Reservations {
		for i := range r.Instances {
			if aws.ToString(r.Instances[i].InstanceId) == id {
				return &r.Instances[i], nil
			}
		}
	}
	return nil, fmt.Errorf("describe %s: no such instance", id)
}
