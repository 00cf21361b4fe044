package management

import (
	"context"

	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/test/vspherecluster"
)

// VSphereCloud is one test's vCenter: a vcsim with the inventory of the example.
// Its Log has the calls of the program under test only: the stand-in and the
// test act as the administrator, who is not logged.
type VSphereCloud struct {
	*vspherecluster.VCenter
}

// VSphere gives the test's vCenter, started by the first call.
func (g *Ground) VSphere() *VSphereCloud {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.vsphere == nil {
		v, err := vspherecluster.StartVCenter(g.ctx)
		if err != nil {
			g.t.Fatalf("start vCenter: %v", err)
		}
		g.vsphere = &VSphereCloud{VCenter: v}
	}
	return g.vsphere
}

// environ has the credentials for clusters that have no identity of their own.
func (v *VSphereCloud) environ() (map[string]string, error) {
	authority, err := v.CertificateFile()
	if err != nil {
		return nil, err
	}
	return map[string]string{
		"VSPHERE_SERVER":   v.Server(),
		"VSPHERE_USERNAME": vspherecluster.Username,
		"VSPHERE_PASSWORD": vspherecluster.Password,
		"VSPHERE_CA_FILE":  authority,
	}, nil
}

// powers implements [cloud].
func (v *VSphereCloud) powers(ctx context.Context) (map[string]power, error) {
	states, err := v.PowerStates(ctx)
	if err != nil {
		return nil, err
	}
	out := make(map[string]power, len(states))
	for uuid, state := range states {
		out[uuid] = powerOff
		if state == types.VirtualMachinePowerStatePoweredOn {
			out[uuid] = powerOn
		}
	}
	return out, nil
}

// stop, start and end implement [cloud].
func (v *VSphereCloud) stop(ctx context.Context, uuid string) error  { return v.Power(ctx, uuid, false) }
func (v *VSphereCloud) start(ctx context.Context, uuid string) error { return v.Power(ctx, uuid, true) }
func (v *VSphereCloud) end(ctx context.Context, uuid string) error   { return v.Destroy(ctx, uuid) }
