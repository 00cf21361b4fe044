package vsphere

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	infrav1beta1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta1"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

// optionValue gives the value of a VMX key in clear. Where it may be secret, a
// change has its digest only: the value is then read from the owner's spec, and
// must have that digest.
func (w *writer) optionValue(ctx context.Context, key string, f *providers.FieldChange) (string, error) {
	if !w.change.Want.Fields.Get(f.Path).Sensitive {
		return f.Want.Text(), nil
	}
	machine, err := w.provider.machineOf(ctx, w.change.Owner)
	if err != nil {
		return "", fmt.Errorf("read %s for the value of %s: %w", w.change.Owner, key, err)
	}
	if w.change.Owner.UID != "" && machine.UID != w.change.Owner.UID {
		return "", refusal(providers.ReasonMoved, "%s is another object of the same name now", w.change.Owner)
	}
	value, ok := machine.Spec.CustomVMXKeys[key]
	if !ok || !w.provider.secret.option(key, value).Value.Equal(f.Want) {
		return "", refusal(providers.ReasonMoved, "the spec of %s wants another value of %s than when the change was decided", w.change.Owner, key)
	}
	return value, nil
}

// machineOf reads a VSphereMachine in the version that is served.
func (p *Provider) machineOf(ctx context.Context, owner providers.OwnerRef) (*infrav1.VSphereMachine, error) {
	key := client.ObjectKey{Namespace: owner.Namespace, Name: owner.Name}
	machine := &infrav1.VSphereMachine{}
	err := p.reader.Get(ctx, key, machine)
	if !meta.IsNoMatchError(err) {
		return machine, err
	}
	old := &infrav1beta1.VSphereMachine{}
	if err := p.reader.Get(ctx, key, old); err != nil {
		return nil, err
	}
	return machine, old.ConvertTo(machine)
}
