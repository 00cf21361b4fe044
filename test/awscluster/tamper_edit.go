package awscluster

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
)

// editTampers are for fields that EC2 never changes on an instance. There the
// careless hand is at the object: an AWSMachine edited in place, with the
// webhook switched off or restored from another cluster's backup. What exists
// then differs from what is declared, which is drift all the same.
func editTampers() []Tamper {
	const image = "ami-0aaaaaaaaaaaaaaaa"
	return []Tamper{
		editTamper("image declared anew", "image", nil, (*Environment).worker,
			func(_ *Environment, s *infrav1.AWSMachineSpec) { s.AMI.ID = aws.String(image) },
			func(_ *Environment, before *infrav1.AWSMachineSpec) []Diff {
				return []Diff{changed("/imageId", image, *before.AMI.ID)}
			}),
		editTamper("key pair declared anew", "key pair", nil, (*Environment).controlPlane,
			func(_ *Environment, s *infrav1.AWSMachineSpec) { s.SSHKeyName = aws.String("other") },
			func(*Environment, *infrav1.AWSMachineSpec) []Diff {
				return []Diff{changed("/keyName", "other", "prod-admin")}
			}),
		editTamper("subnet declared anew", "subnet, zone", nil, (*Environment).worker,
			func(e *Environment, s *infrav1.AWSMachineSpec) {
				s.Subnet = &infrav1.AWSResourceReference{ID: aws.String(e.subnet("-public-a").ResourceID)}
			},
			func(e *Environment, _ *infrav1.AWSMachineSpec) []Diff {
				return []Diff{changed("/subnetId", e.subnet("-public-a").ResourceID, e.subnet("-private-a").ResourceID)}
			}),
		contradictoryZone(),
		editTamper("root volume declared encrypted", "root volume encryption, key", nil, (*Environment).worker,
			func(_ *Environment, s *infrav1.AWSMachineSpec) { s.RootVolume.Encrypted = aws.Bool(true) },
			func(*Environment, *infrav1.AWSMachineSpec) []Diff {
				return []Diff{changed("/rootVolume/encrypted", "true", "false")}
			}),
		editTamper("machine declared a spot instance", "market and tenancy, placement group, capacity reservation, cpu options", nil, (*Environment).worker,
			func(_ *Environment, s *infrav1.AWSMachineSpec) { s.SpotMarketOptions = &infrav1.SpotMarketOptions{} },
			func(*Environment, *infrav1.AWSMachineSpec) []Diff { return []Diff{changed("/spot", "true", "false")} }),
		editTamper("tenancy declared dedicated", "market and tenancy, placement group, capacity reservation, cpu options", nil, (*Environment).worker,
			func(_ *Environment, s *infrav1.AWSMachineSpec) { s.Tenancy = "dedicated" },
			func(*Environment, *infrav1.AWSMachineSpec) []Diff {
				return []Diff{changed("/tenancy", "dedicated", "default")}
			}),
		editTamper("placement group declared", "market and tenancy, placement group, capacity reservation, cpu options", nil, (*Environment).worker,
			func(_ *Environment, s *infrav1.AWSMachineSpec) { s.PlacementGroupName = "fast" },
			func(*Environment, *infrav1.AWSMachineSpec) []Diff { return []Diff{removed("/placementGroup", "fast")} }),
		editTamper("capacity reservation declared", "market and tenancy, placement group, capacity reservation, cpu options", nil, (*Environment).worker,
			func(_ *Environment, s *infrav1.AWSMachineSpec) {
				s.CapacityReservationID = aws.String("cr-0123456789abcdef0")
			},
			func(*Environment, *infrav1.AWSMachineSpec) []Diff {
				return []Diff{removed("/capacityReservationId", "cr-0123456789abcdef0")}
			}),
		editTamper("host declared", "market and tenancy, placement group, capacity reservation, cpu options", nil, (*Environment).worker,
			func(_ *Environment, s *infrav1.AWSMachineSpec) {
				s.HostID, s.HostAffinity = aws.String("h-0123456789abcdef0"), aws.String("host")
			},
			func(*Environment, *infrav1.AWSMachineSpec) []Diff {
				return []Diff{removed("/hostId", "h-0123456789abcdef0"), changed("/tenancy", "host", "default")}
			}),
		editTamper("partition of a placement group declared", "market and tenancy, placement group, capacity reservation, cpu options", nil, (*Environment).worker,
			func(_ *Environment, s *infrav1.AWSMachineSpec) {
				s.PlacementGroupName, s.PlacementGroupPartition = "spread", 2
			},
			func(*Environment, *infrav1.AWSMachineSpec) []Diff {
				return []Diff{removed("/placementGroup", "spread"), removed("/placementGroupPartition", "2")}
			}),
		editTamper("profile declared by a full ARN", "IAM instance profile", []string{"C26"}, (*Environment).worker,
			func(_ *Environment, s *infrav1.AWSMachineSpec) {
				s.IAMInstanceProfile = "arn:aws-us-gov:iam::123456789012:instance-profile/" + s.IAMInstanceProfile
			},
			func(_ *Environment, before *infrav1.AWSMachineSpec) []Diff {
				const end = ":iam::123456789012:instance-profile/"
				return []Diff{changed("/iamInstanceProfileArn", "arn:aws-us-gov"+end+before.IAMInstanceProfile, "arn:aws"+end+before.IAMInstanceProfile)}
			}),
		editTamper("image left to a lookup", "image", []string{"C25", "C31"}, (*Environment).worker,
			func(_ *Environment, s *infrav1.AWSMachineSpec) { s.AMI.ID = nil },
			func(*Environment, *infrav1.AWSMachineSpec) []Diff { return nil }),
		editTamper("tag declared and never set", "tags", nil, (*Environment).worker,
			func(_ *Environment, s *infrav1.AWSMachineSpec) { s.AdditionalTags["Tier"] = "gold" },
			func(*Environment, *infrav1.AWSMachineSpec) []Diff { return []Diff{removed(tagPath("Tier"), "gold")} }),
		editTamper("profile declared with path and partition", "IAM instance profile", []string{"C26"}, (*Environment).worker,
			func(_ *Environment, s *infrav1.AWSMachineSpec) {
				s.IAMInstanceProfile = "/team/" + s.IAMInstanceProfile
			},
			func(*Environment, *infrav1.AWSMachineSpec) []Diff { return nil }),
		editTamper("provider id without a zone", "existence", []string{"C64"}, (*Environment).worker,
			func(_ *Environment, s *infrav1.AWSMachineSpec) { s.ProviderID = aws.String("aws:////" + *s.InstanceID) },
			func(*Environment, *infrav1.AWSMachineSpec) []Diff { return nil }),
		editTamper("root volume without a type", "root volume size, type, iops, throughput", []string{"C21"}, (*Environment).worker,
			func(_ *Environment, s *infrav1.AWSMachineSpec) { s.RootVolume.Type = "" },
			func(*Environment, *infrav1.AWSMachineSpec) []Diff { return nil }),
	}
}

func editTamper(name, row string, cases []string, pick func(*Environment) (*machine, error), edit func(*Environment, *infrav1.AWSMachineSpec), diffs func(*Environment, *infrav1.AWSMachineSpec) []Diff) Tamper {
	return Tamper{Name: name, Row: row, Cases: cases, Do: onMachine(pick, func(_ context.Context, e *Environment, m *machine) (*Damage, error) {
		before := m.aws.Spec.DeepCopy()
		edit(e, &m.aws.Spec)
		d := &Damage{Undo: func(context.Context) error {
			m.aws.Spec = *before
			return nil
		}}
		if want := diffs(e, before); len(want) > 0 {
			d.Findings = []Finding{machineDrift(m, want...)}
		}
		return d, nil
	})}
}

// contradictoryZone declares a subnet in another zone than the Machine's
// failure domain. What is wanted cannot be told then, so nothing is drift.
func contradictoryZone() Tamper {
	return Tamper{Name: "subnet declared in another zone", Row: "subnet, zone", Cases: []string{"C27"}, Do: onMachine((*Environment).worker,
		func(_ context.Context, e *Environment, m *machine) (*Damage, error) {
			m.aws.Spec.Subnet = &infrav1.AWSResourceReference{ID: aws.String(e.subnet("-private-c").ResourceID)}
			return &Damage{
				Findings: []Finding{{
					Owner: "AWSMachine/" + m.aws.Name, Kind: providers.KindSubnet, Status: detector.NotChecked,
					ID: "unresolved/" + m.aws.Namespace + "/" + m.aws.Name + "/spec.subnet",
				}},
				Undo: func(context.Context) error {
					m.aws.Spec.Subnet = nil
					return nil
				},
			}, nil
		})}
}
