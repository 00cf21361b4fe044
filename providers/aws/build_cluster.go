package aws

import (
	"context"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

func (b *building) settleCluster(context.Context, *infrav1.AWSCluster) error {
	return notBuilt(b.owner)
}

func recordInCluster(owner *providers.Owner, _ *infrav1.AWSCluster, _, _ providers.ID) error {
	return notBuilt(owner)
}

func doomedOfCluster(owner *providers.Owner, _ *infrav1.AWSCluster, _ *providers.Snapshot) ([]providers.Resource, error) {
	return nil, notBuilt(owner)
}

func noteCluster(owner *providers.Owner, _ *infrav1.AWSCluster, _ *providers.Snapshot, _ providers.Progress) string {
	return notBuilt(owner).Error()
}
