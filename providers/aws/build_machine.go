package aws

import (
	"context"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

func (b *building) settleMachine(context.Context, *infrav1.AWSMachine) error {
	return notBuilt(b.owner)
}

func recordInMachine(_ *infrav1.AWSMachine, made providers.ID) error {
	return unsupported("%s", made)
}

func doomedOfMachine(owner *providers.Owner, _ *infrav1.AWSMachine, _ *providers.Snapshot) ([]providers.Resource, error) {
	return nil, notBuilt(owner)
}

func noteMachine(owner *providers.Owner, _ *infrav1.AWSMachine, _ *providers.Snapshot, _ providers.Progress) string {
	return notBuilt(owner).Error()
}
