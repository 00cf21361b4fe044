package aws

import (
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
)

// Names of what is planned, by which it is told what was made when it is
// recorded. They are shown to people too.
const (
	whatVPC        = "VPC"
	whatGateway    = "internet gateway"
	whatEgressOnly = "egress-only internet gateway"
	// EC2 makes it.
	whatDefaultGroup = "default security group of the VPC"
)

func whatSubnet(s *infrav1.SubnetSpec) string { return "subnet " + first(s.ID, s.CidrBlock) }

func whatTable(s *infrav1.SubnetSpec) string { return "route table of " + first(s.ID, s.CidrBlock) }

func whatNAT(zone string) string { return "NAT gateway of zone " + zone }

func whatGroup(role infrav1.SecurityGroupRole) string {
	return "security group of role " + string(role)
}

func whatBalancer(name string) string { return "load balancer " + name }
