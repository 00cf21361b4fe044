package awscluster

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
)

// Variant is an example's cluster in another shape that CAPA knows.
type Variant struct {
	// Name is short and unique; empty is the example as it is.
	Name string
	// Manifest is the example that it is a variant of.
	Manifest string
	// NotOnMoto says why moto cannot hold it; empty if it can.
	NotOnMoto string
	// Edit and BringVPC are the options that make it.
	Edit     func(*Manifest)
	BringVPC bool
}

// Names of variants.
const (
	variantBastion   = "bastion"
	variantSecondary = "second load balancer"
	variantIPv6      = "IPv6"
	variantOwnVPC    = "VPC of the user's"
)

// Variants lists every cluster that tampers are done to, the examples first.
func Variants() []Variant {
	return []Variant{
		{Manifest: DefaultExample},
		{Manifest: "dev-classic.yaml"},
		{
			Name: variantBastion, Manifest: DefaultExample,
			Edit: func(m *Manifest) {
				m.AWSCluster.Spec.Bastion = infrav1.Bastion{
					Enabled: true, InstanceType: "t3.small", AllowedCIDRBlocks: infrav1.CidrBlocks{"198.51.100.0/24"},
					AMI: *m.MachineTemplates[0].Spec.Template.Spec.AMI.ID,
				}
			},
		},
		{
			Name: variantSecondary, Manifest: DefaultExample,
			Edit: func(m *Manifest) {
				m.AWSCluster.Spec.SecondaryControlPlaneLoadBalancer = &infrav1.AWSLoadBalancerSpec{
					Name: aws.String(m.Cluster.Name + "-inside"), LoadBalancerType: infrav1.LoadBalancerTypeNLB,
					Scheme:              &infrav1.ELBSchemeInternal,
					AdditionalListeners: []infrav1.AdditionalListenerSpec{{Port: 8132, Protocol: infrav1.ELBProtocolTCP}},
				}
			},
		},
		{
			Name: variantIPv6, Manifest: DefaultExample,
			Edit: func(m *Manifest) {
				network := &m.AWSCluster.Spec.NetworkSpec
				network.VPC.IPv6 = &infrav1.IPv6{}
				for i := range network.Subnets {
					network.Subnets[i].IsIPv6 = true
				}
			},
		},
		{Name: variantOwnVPC, Manifest: DefaultExample, BringVPC: true},
	}
}
