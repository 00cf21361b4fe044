package aws

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

func init() {
	creators[providers.KindInstance] = (*building).createInstance
	removers[providers.KindInstance] = (*building).removeInstance
}

// createInstance launches the instance of an AWSMachine.
func (b *building) createInstance(ctx context.Context, c *providers.Creation) (string, error) {
	if m, ok := c.Owner.Infra.(*infrav1.AWSMachine); ok {
		return b.launch(ctx, m, c)
	}
	return "", unsupported("%s: Holdfast launches instances for AWSMachines only", c.Owner.Ref)
}

// settleMachine sets what CAPA's webhook sets, and decides the names under which
// the bootstrap data will be kept: whatever is made for the machine can then be
// found from its object, also if nobody lives to record it.
func (b *building) settleMachine(_ context.Context, m *infrav1.AWSMachine) error {
	init, ignition := &m.Spec.CloudInit, m.Spec.Ignition
	if ignition == nil && !init.InsecureSkipSecretsManager && init.SecureSecretsBackend == "" {
		init.SecureSecretsBackend = infrav1.SecretBackendSecretsManager
	}
	if ignition != nil && ignition.StorageType == "" {
		ignition.StorageType = infrav1.DefaultIgnitionStorageType
	}
	// Data that boots a machine as it is says its version itself.
	if ignition != nil && ignition.Version == "" && ignition.StorageType != infrav1.IgnitionStorageTypeOptionUnencryptedUserData {
		ignition.Version = infrav1.DefaultIgnitionVersion
	}
	id, _ := machineIdentity(b.owner, m)
	if ignition == nil && !init.InsecureSkipSecretsManager && init.SecretPrefix == "" && id == "" && m.UID != "" {
		init.SecretPrefix = secretPrefix(m)
	}
	return nil
}

// secretPrefix is where CAPA keeps bootstrap data, so that its policies for nodes
// hold: aws.cluster.x-k8s.io/ in Secrets Manager. SSM takes no path that begins
// with aws.
func secretPrefix(m *infrav1.AWSMachine) string {
	if m.Spec.CloudInit.SecureSecretsBackend == infrav1.SecretBackendSSMParameterStore {
		return "/cluster.x-k8s.io/" + string(m.UID)
	}
	return "aws.cluster.x-k8s.io/" + string(m.UID)
}

// recordInMachine records the instance. The provider id has its zone in it, and
// follows when the instance shows it.
func recordInMachine(m *infrav1.AWSMachine, made providers.ID) error {
	id, ok := canonical.InstanceID(made.Name)
	if made.Kind != providers.KindInstance || !ok {
		return fmt.Errorf("record %s in AWSMachine %s/%s: want an instance", made, m.Namespace, m.Name)
	}
	for _, recorded := range []string{deref(m.Spec.InstanceID), deref(m.Spec.ProviderID)} {
		if other, _ := canonical.InstanceID(recorded); recorded != "" && other != id {
			return fmt.Errorf("record %s in AWSMachine %s/%s: it has %q recorded already", id, m.Namespace, m.Name, recorded)
		}
	}
	m.Spec.InstanceID = &id
	return nil
}

var zoneName = regexp.MustCompile(`^[a-z0-9-]+$`)

// providerID is how CAPA and the cloud provider name an instance.
func providerID(zone, id string) string { return "aws:///" + zone + "/" + id }

// doomedOfMachine gives the instance that goes with an AWSMachine: the recorded
// one, or what was launched for it and not recorded. Interfaces that the user
// gave are detached by EC2 and stay.
func doomedOfMachine(owner *providers.Owner, m *infrav1.AWSMachine, snap *providers.Snapshot) ([]providers.Resource, error) {
	if ofMachinePool(owner) {
		return nil, unsupported("%s mirrors an instance of a machine pool, which Holdfast does not take down", owner.Ref)
	}
	if err, known := snap.Covered(providers.KindInstance, ""); err != nil || !known {
		return nil, fmt.Errorf("instances of %s: %s", owner.Ref, notRead(providers.KindInstance, err))
	}
	id, why := machineIdentity(owner, m)
	if why != "" {
		return nil, refused("the instance of %s cannot be told, so none is terminated: %s. Correct the objects, or terminate it by hand and remove the finalizer", owner.Ref, why)
	}
	var out []providers.Resource
	for _, seen := range ofKind(snap, providers.KindInstance) {
		if id != "" && seen.ID.Name != id || id == "" && tagOf(seen, ownerTag) != string(m.UID) {
			continue
		}
		r, err := doomedInstance(owner, seen)
		if err != nil {
			return nil, err
		}
		if r != nil {
			out = append(out, *r)
		}
	}
	return out, nil
}

// doomedInstance says whether a seen instance is still to go; nil is gone.
func doomedInstance(owner *providers.Owner, seen *providers.Resource) (*providers.Resource, error) {
	state := textOf(seen, pathState)
	switch {
	case seen.Gone != "" && state != stateShuttingDown:
		return nil, nil
	case seen.Unknown != "":
		return nil, fmt.Errorf("the state of %s cannot be told: %s", seen.ID, seen.Unknown)
	case seen.ForeignTo != "":
		return nil, &providers.ApplyError{Reason: providers.ReasonForeign, Err: fmt.Errorf("%s is recorded for %s and belongs to %s: it is not terminated", seen.ID, owner.Ref, seen.ForeignTo)}
	case len(seen.ClusterTags) > 0 && !ownedBy(seen, owner.Cluster.Name) && tagOf(seen, ownerTag) != string(owner.Infra.GetUID()):
		return nil, &providers.ApplyError{Reason: providers.ReasonForeign, Err: fmt.Errorf("%s is recorded for %s and tagged as cluster %s's: it is not terminated", seen.ID, owner.Ref, strings.Join(seen.ClusterTags, ", "))}
	}
	r := *seen
	r.Owner, r.Unsettled = owner.Ref, state == stateShuttingDown
	return &r, nil
}
