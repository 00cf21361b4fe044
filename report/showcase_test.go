package report

import (
	"fmt"
	"time"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// showcase is a scan as a large installation would see it: sixty findings and
// more, and an attacker's tags among them.
func showcase() BuildInput {
	in := sample()
	for cluster := 3; cluster <= 5; cluster++ {
		name := fmt.Sprintf("us-%d", cluster)
		in.Clusters = append(in.Clusters, ClusterInput{
			Ref: detector.ClusterRef{Namespace: "prod", Name: name}, Provider: "aws",
			Scope:        providers.Scope{Provider: "aws", Account: "444455556666", Region: "us-east-1"},
			SnapshotTime: at.Add(-90 * time.Second), Checked: 900 + cluster, NotChecked: cluster * 7, Owners: awsOwners(name),
		})
		for i := range 12 {
			owner := awsMachine(name, fmt.Sprintf("md-%d-%05x", i%4, 0xa1b2c+i*977))
			r := resource("aws", "Instance", fmt.Sprintf("i-%017x", 0xabcdef0+i*7919+cluster), owner.Name)
			in.Decisions = append(in.Decisions, machineDrift(name, owner, r, i)...)
		}
	}
	for i, payload := range attacks("http://127.0.0.1:9/") {
		owner := awsMachine("us-3", fmt.Sprintf("target-%02d", i))
		in.Decisions = append(in.Decisions, decision("us-3", owner, resource("aws", "Instance", fmt.Sprintf("i-attack%02d", i), payload),
			with(changed("/tags/"+providers.Pointer(payload)[1:], providers.String("prod"), providers.String(payload)), added("/securityGroups", payload)),
			severity(policies.Low, policies.Patch), rule("tags", "aws-defaults", "builtin/aws.yaml", 41), observing()))
	}
	return in
}

func machineDrift(cluster string, owner providers.OwnerRef, r detector.ResourceRef, i int) []policies.Decision {
	machines := pool(fmt.Sprintf("MachineDeployment/%s-md-%d", cluster, i%4))
	switch i % 4 {
	case 0:
		return []policies.Decision{decision(cluster, owner, r, machines, since(at.Add(-100*time.Hour)), observing(),
			with(changed("/metadataOptions/httpTokens", providers.String("required"), providers.String("optional"))),
			severity(policies.High, policies.Patch), rule("imds", "aws-defaults", "builtin/aws.yaml", 71))}
	case 1:
		return []policies.Decision{decision(cluster, owner, r, machines, observing(),
			with(changed("/instanceType", providers.String("c6i.2xlarge"), providers.String(fmt.Sprintf("c6i.%dxlarge", 4+i)))),
			severity(policies.High, policies.Replace), rule("instance-type", "aws-defaults", "builtin/aws.yaml", 14))}
	case 2:
		return []policies.Decision{
			decision(cluster, owner, r, machines, observing(), with(removed("/tags/team", "payments"), added("/tags/debug", "true")),
				severity(policies.Low, policies.Patch)),
			decision(cluster, owner, r, machines, with(changed("/rootVolume/iops", providers.Int(6000), providers.Int(3000+i))),
				severity(policies.Medium, policies.Patch), rule("root-volume", "aws-defaults", "builtin/aws.yaml", 60), observing()),
		}
	}
	return []policies.Decision{decision(cluster, owner, r, machines, status(detector.NotChecked,
		"DescribeInstanceStatus: RequestLimitExceeded on page 3 of 5: given up after 6 attempts"), severity(policies.Info, policies.Observe))}
}
