package awscluster

import (
	"slices"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
)

// fitMoto takes out of a manifest what moto cannot hold: every volume of its has
// 3,000 IOPS and a throughput of 0, whatever was asked for, and it refuses rules of protocol 4, for it wants
// ports on every protocol but -1.
func (m *Manifest) fitMoto() {
	for _, t := range m.MachineTemplates {
		spec := &t.Spec.Template.Spec
		if spec.RootVolume != nil {
			spec.RootVolume.Throughput, spec.RootVolume.IOPS = nil, 0
		}
		for i := range spec.NonRootVolumes {
			spec.NonRootVolumes[i].Throughput, spec.NonRootVolumes[i].IOPS = nil, 0
		}
	}
	cni := m.AWSCluster.Spec.NetworkSpec.CNI
	if cni == nil {
		return
	}
	cni.CNIIngressRules = slices.DeleteFunc(cni.CNIIngressRules, func(r infrav1.CNIIngressRule) bool {
		return r.Protocol == infrav1.SecurityGroupProtocolIPinIP
	})
}
