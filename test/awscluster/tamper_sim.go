package awscluster

import (
	"context"
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/test/ec2sim"
)

const noSuchCall = "AWS does it by itself, and no call brings it about"

// simulatorTampers are what AWS itself does to instances. No call of the API
// brings them about, so they need a simulator that can be told to.
func simulatorTampers() []Tamper {
	return []Tamper{
		{
			Name: "instance stopped by AWS", Row: "stopped by the cloud, spot reclaimed, retired", Cases: []string{"C58"}, NotOnMoto: noSuchCall,
			Do: onMachine((*Environment).worker, func(ctx context.Context, e *Environment, m *machine) (*Damage, error) {
				if err := e.Simulator.StopInstance(e.scope(), m.id, "Server.ScheduledStop", "Stopped due to a scheduled retirement"); err != nil {
					return nil, fmt.Errorf("stop %s: %w", m.id, err)
				}
				if err := e.stopped(ctx, m.id); err != nil {
					return nil, err
				}
				return &Damage{
					Findings: []Finding{machineDrift(m, changed("/state", "running", "stopped"))},
					Undo:     func(ctx context.Context) error { return e.start(ctx, m.id) },
				}, nil
			}),
		},
		{
			Name: "spot instance reclaimed", Row: "stopped by the cloud, spot reclaimed, retired", Cases: []string{"C58"}, NotOnMoto: noSuchCall,
			Do: onMachine((*Environment).storage, func(_ context.Context, e *Environment, m *machine) (*Damage, error) {
				const code = "Server.SpotInstanceTermination"
				if err := e.Simulator.TerminateInstance(e.scope(), m.id, code, code+": Spot instance termination"); err != nil {
					return nil, fmt.Errorf("terminate %s: %w", m.id, err)
				}
				return &Damage{Findings: []Finding{machineGone(m, "terminated: "+code)}}, nil
			}),
		},
		{
			Name: "retirement scheduled", Row: "scheduled events", Cases: []string{"C59"}, NotOnMoto: noSuchCall,
			Do: onMachine((*Environment).worker, func(_ context.Context, e *Environment, m *machine) (*Damage, error) {
				event := ec2sim.ScheduledEvent{Code: "instance-retirement", Description: "The instance is running on degraded hardware", NotBefore: time.Now().Add(7 * 24 * time.Hour)}
				id, err := e.Simulator.ScheduleEvent(e.scope(), m.id, event)
				if err != nil {
					return nil, fmt.Errorf("schedule event of %s: %w", m.id, err)
				}
				return &Damage{
					Findings: []Finding{machineDrift(m, added("/scheduledEvents", "instance-retirement "+id))},
					Undo: func(context.Context) error {
						event.ID, event.Description = id, "[Completed] "+event.Description
						_, err := e.Simulator.ScheduleEvent(e.scope(), m.id, event)
						return err
					},
				}, nil
			}),
		},
	}
}

func (e *Environment) scope() ec2sim.Scope { return e.Simulator.DefaultScope(e.AWSCluster.Spec.Region) }
