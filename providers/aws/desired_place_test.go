package aws

import (
	"errors"
	"strings"
	"testing"
	"time"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

func filters(pairs ...string) []infrav1.Filter {
	var out []infrav1.Filter
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, infrav1.Filter{Name: pairs[i], Values: strings.Split(pairs[i+1], ",")})
	}
	return out
}

func subnetRef(id string, pairs ...string) func(*infrav1.AWSMachineSpec) {
	return func(s *infrav1.AWSMachineSpec) {
		s.Subnet = &infrav1.AWSResourceReference{Filters: filters(pairs...)}
		if id != "" {
			s.Subnet.ID = &id
		}
	}
}

func seenSubnet(id, zone string, pairs ...any) *providers.Resource {
	return seenResource(providers.KindSubnet, id, append([]any{"/vpcId", "vpc-1", "/availabilityZone", zone}, pairs...)...)
}

// C27: a filter with several matches is a membership test; with none, or in
// conflict with the failure domain, it is the spec's error and nothing is
// held against the instance.
func TestC27SubnetFilter(t *testing.T) {
	net := genSnapshot(
		seenSubnet("subnet-1", "eu-central-1a", "/tags/tier", "nodes"),
		seenSubnet("subnet-2", "eu-central-1b", "/tags/tier", "nodes"),
		seenSubnet("subnet-3", "eu-central-1a", "/tags/tier", "nodes-big"),
		seenSubnet("subnet-4", "eu-central-1a", "/tags/tier", "pods",
			"/tags/sigs.k8s.io~1cluster-api-provider-aws~1association", "secondary"),
	)
	tests := map[string]struct {
		spec func(*infrav1.AWSMachineSpec)
		zone string
		want any
		why  string
	}{
		"id":                    {subnetRef("subnet-1"), "", "subnet-1", ""},
		"one match":             {subnetRef("", "tag:tier", "nodes-big"), "", "subnet-3", ""},
		"three matches":         {subnetRef("", "tag:tier", "nodes*"), "", "OneOf subnet-1, subnet-2, subnet-3", ""},
		"two values":            {subnetRef("", "tag:tier", "nodes,nodes-big"), "", "OneOf subnet-1, subnet-2, subnet-3", ""},
		"narrowed by zone":      {subnetRef("", "tag:tier", "nodes"), "eu-central-1b", "subnet-2", ""},
		"two filters":           {subnetRef("", "tag:tier", "nodes*", "availability-zone", "eu-central-1a"), "", "OneOf subnet-1, subnet-3", ""},
		"id and filter":         {subnetRef("subnet-1", "tag:tier", "nodes"), "", "subnet-1", ""},
		"no match":              {subnetRef("", "tag:tier", "gone"), "", nil, "no subnet matches tag:tier=gone"},
		"no such id":            {subnetRef("subnet-9"), "", nil, "no subnet matches subnet-id=subnet-9"},
		"id is no pattern":      {subnetRef("subnet-*"), "", nil, "no subnet matches"},
		"conflict":              {subnetRef("subnet-1"), "eu-central-1b", nil, "the Machine's failureDomain is eu-central-1b"},
		"secondary":             {subnetRef("", "tag:tier", "pods"), "", nil, "secondary subnet"},
		"filter we cannot read": {subnetRef("", "owner-id", "1"), "", nil, `the filter "owner-id" cannot be answered`},
		"no reference":          {func(*infrav1.AWSMachineSpec) {}, "eu-central-1a", nil, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			all := get(t, machineOwner(genAWSMachine(spec(tt.spec)), inZone(tt.zone)), net)
			r := all[providers.ID{Kind: providers.KindInstance, Name: "i-1"}]
			checkField(t, r, "/subnetId", tt.want)
			got := reasons(all, providers.KindSubnet)
			if tt.why == "" {
				if len(got) != 0 {
					t.Errorf("reasons %q", got)
				}
				var zone any
				if tt.zone != "" {
					zone = tt.zone
				}
				checkField(t, r, "/availabilityZone", zone)
				return
			}
			if len(got) != 1 || !strings.Contains(got[0], tt.why) {
				t.Errorf("reasons %q, want one with %q", got, tt.why)
			}
			checkField(t, r, "/instanceType", "m6i.large")
		})
	}
}

// A public address narrows a reference to the cluster's public subnets.
func TestSubnetForPublicAddress(t *testing.T) {
	net := genSnapshot(seenSubnet("subnet-1", "a"), seenSubnet("subnet-2", "a"), seenSubnet("subnet-3", "a"))
	cluster := genAWSCluster(func(c *infrav1.AWSCluster) {
		c.Spec.NetworkSpec.Subnets = infrav1.Subnets{{ID: "subnet-1", IsPublic: true}, {ID: "c1-private", ResourceID: "subnet-2"}}
	})
	machine := genAWSMachine(spec(subnetRef("", "vpc-id", "vpc-1")), spec(func(s *infrav1.AWSMachineSpec) { s.PublicIP = pt(true) }))
	checkField(t, instance(t, machineOwner(machine, inCluster(cluster)), net), "/subnetId", "subnet-1")
}

// A kind that was not read leaves references by filter unknown, and a given
// id as it is.
func TestSubnetsNotRead(t *testing.T) {
	net := genSnapshot()
	net.Coverage[providers.KindSubnet] = errors.New("UnauthorizedOperation")
	all := get(t, machineOwner(genAWSMachine(spec(subnetRef("", "tag:a", "b")))), net)
	if got := reasons(all, providers.KindSubnet); len(got) != 1 || !strings.Contains(got[0], "UnauthorizedOperation") {
		t.Errorf("reasons %q", got)
	}
	checkField(t, instance(t, machineOwner(genAWSMachine(spec(subnetRef("subnet-1")))), net), "/subnetId", "subnet-1")
}

func groupRefs(refs ...infrav1.AWSResourceReference) func(*infrav1.AWSMachineSpec) {
	return func(s *infrav1.AWSMachineSpec) { s.AdditionalSecurityGroups = refs }
}

func seenGroup(id, name, vpc string, pairs ...any) *providers.Resource {
	return seenResource(providers.KindSecurityGroup, id, append([]any{"name", name, "/vpcId", vpc}, pairs...)...)
}

func TestCoreSecurityGroups(t *testing.T) {
	checkField(t, instance(t, machineOwner(genAWSMachine()), genSnapshot()), "/securityGroups", []string{"sg-lb", "sg-node"})
	checkField(t, instance(t, machineOwner(genAWSMachine(), controlPlane), genSnapshot()), "/securityGroups", []string{"sg-cp", "sg-lb", "sg-node"})
}

// C09: where someone else manages the cluster, the machine's own groups are
// all that may be attached, so that the VPC's default group stands out.
func TestC09ExternallyManagedCluster(t *testing.T) {
	external := genAWSCluster(func(c *infrav1.AWSCluster) {
		c.Annotations = map[string]string{"cluster.x-k8s.io/managed-by": "terraform"}
	})
	machine := genAWSMachine(spec(groupRefs(infrav1.AWSResourceReference{ID: pt("sg-app")})))
	checkField(t, instance(t, machineOwner(machine, inCluster(external)), genSnapshot()), "/securityGroups", []string{"sg-app"})
	// C31: no groups in the spec is no opinion.
	checkField(t, instance(t, machineOwner(genAWSMachine(), inCluster(external)), genSnapshot()), "/securityGroups", nil)
}

// C11: names and filters become ids before anything is compared.
func TestC11GroupsByNameAndID(t *testing.T) {
	net := genSnapshot(seenGroup("sg-1", "nodes", "vpc-1"), seenGroup("sg-2", "other", "vpc-1"), seenGroup("sg-3", "nodes-b", "vpc-1"))
	machine := genAWSMachine(spec(groupRefs(
		infrav1.AWSResourceReference{Filters: filters("group-name", "nodes")},
		infrav1.AWSResourceReference{ID: pt("sg-2")},
	)))
	checkField(t, instance(t, machineOwner(machine), net), "/securityGroups", []string{"sg-1", "sg-2", "sg-lb", "sg-node"})
}

// C12: a name is looked up in the machine's VPC. Where that is not known and
// several VPCs have it, there is no answer, and nothing attached is judged.
func TestC12GroupsOfTwoVPCs(t *testing.T) {
	net := genSnapshot(
		seenGroup("sg-old", "shared", "vpc-0"), seenGroup("sg-new", "shared", "vpc-1"),
		seenGroup("sg-n0", "c1-node", "vpc-0", owned()...), seenGroup("sg-n1", "c1-node", "vpc-1", owned()...),
		seenGroup("sg-l1", "c1-lb", "vpc-1", owned()...),
	)
	machine := genAWSMachine(spec(groupRefs(infrav1.AWSResourceReference{Filters: filters("group-name", "shared")})))
	unrecorded := genAWSCluster(func(c *infrav1.AWSCluster) { c.Status.Network.SecurityGroups = nil })
	checkField(t, instance(t, machineOwner(machine, inCluster(unrecorded)), net), "/securityGroups", []string{"sg-l1", "sg-n1", "sg-new"})

	noVPC := genAWSCluster(func(c *infrav1.AWSCluster) { c.Spec.NetworkSpec.VPC = infrav1.VPCSpec{} })
	all := get(t, machineOwner(machine, inCluster(noVPC)), net)
	checkField(t, all[providers.ID{Kind: providers.KindInstance, Name: "i-1"}], "/securityGroups", "Contains sg-lb, sg-node")
	if got := reasons(all, providers.KindSecurityGroup); len(got) != 1 || !strings.Contains(got[0], "2 VPCs") {
		t.Errorf("reasons %q", got)
	}

	elsewhere := genAWSCluster(func(c *infrav1.AWSCluster) { c.Spec.NetworkSpec.VPC.ID = "vpc-7" })
	all = get(t, machineOwner(machine, inCluster(elsewhere)), net)
	if got := reasons(all, providers.KindSecurityGroup); len(got) != 1 || !strings.Contains(got[0], "another VPC") {
		t.Errorf("reasons %q", got)
	}
}

// C14: an override takes the place of the cluster's group, on the machine
// before the cluster.
func TestC14OverridesAttach(t *testing.T) {
	cluster := genAWSCluster(func(c *infrav1.AWSCluster) {
		c.Spec.NetworkSpec.SecurityGroupOverrides = map[infrav1.SecurityGroupRole]string{infrav1.SecurityGroupNode: "sg-byo", infrav1.SecurityGroupLB: "sg-byo-lb"}
	})
	machine := genAWSMachine(spec(func(s *infrav1.AWSMachineSpec) {
		s.SecurityGroupOverrides = map[infrav1.SecurityGroupRole]string{infrav1.SecurityGroupLB: "sg-mine"}
	}))
	checkField(t, instance(t, machineOwner(machine, inCluster(cluster)), genSnapshot()), "/securityGroups", []string{"sg-byo", "sg-mine"})
}

// Without the AWSCluster the groups of the machine's roles are not known: the
// additional ones must be there, and the rest is reported as not compared.
func TestGroupsWithoutAWSCluster(t *testing.T) {
	o := machineOwner(genAWSMachine(spec(groupRefs(infrav1.AWSResourceReference{ID: pt("sg-app")}))))
	o.InfraCluster = nil
	all := get(t, o, genSnapshot())
	checkField(t, all[providers.ID{Kind: providers.KindInstance, Name: "i-1"}], "/securityGroups", "Contains sg-app")
	if got := reasons(all, providers.KindSecurityGroup); len(got) != 1 || !strings.Contains(got[0], "AWSCluster was not found") {
		t.Errorf("reasons %q", got)
	}
}

func TestUnresolvedGroups(t *testing.T) {
	for name, ref := range map[string]infrav1.AWSResourceReference{
		"neither an id nor filters":     {},
		"no security group matches":     {Filters: filters("tag:a", "b")},
		"cannot be answered":            {Filters: filters("ip-permission.cidr", "10.0.0.0/8")},
		"no security group matches t":   {Filters: filters("tag-key", "b")},
		"no security group matches g":   {Filters: filters("group-id", "sg-9")},
		"no security group matches v":   {Filters: filters("vpc-id", "vpc-9")},
		"no security group matches des": {Filters: filters("description", "x")},
	} {
		t.Run(name, func(t *testing.T) {
			all := get(t, machineOwner(genAWSMachine(spec(groupRefs(ref)))), genSnapshot(seenGroup("sg-1", "a", "vpc-1")))
			if got := reasons(all, providers.KindSecurityGroup); len(got) != 1 || !strings.Contains(got[0], name) {
				t.Errorf("reasons %q", got)
			}
			checkField(t, all[providers.ID{Kind: providers.KindInstance, Name: "i-1"}], "/securityGroups", "Contains sg-lb, sg-node")
		})
	}
}

func TestWildcard(t *testing.T) {
	tests := map[string]struct {
		pattern, text string
		want          bool
	}{
		"equal":         {"nodes", "nodes", true},
		"case":          {"Nodes", "nodes", false},
		"prefix":        {"nodes*", "nodes-b", true},
		"star is empty": {"nodes*", "nodes", true},
		"middle":        {"n*s", "nodes", true},
		"two stars":     {"*od*s", "nodes", true},
		"one character": {"node?", "nodes", true},
		"not two":       {"node?", "nodess", false},
		"escaped":       {`a\*b`, "a*b", true},
		"escaped not":   {`a\*b`, "axb", false},
		"last slash":    {`a\`, `a\`, true},
		"empty":         {"", "", true},
		"empty text":    {"a", "", false},
		"umlaut":        {"k?ln", "köln", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := wildcard(tt.pattern, tt.text); got != tt.want {
				t.Errorf("wildcard(%q, %q) = %v", tt.pattern, tt.text, got)
			}
		})
	}
	began := time.Now()
	if wildcard(strings.Repeat("*a", 200)+"b", strings.Repeat("a", 4000)) {
		t.Error("matched")
	}
	if d := time.Since(began); d > 2*time.Second {
		t.Errorf("a hostile pattern took %s", d)
	}
}

func FuzzWildcard(f *testing.F) {
	f.Add("a*b?", "axxbc")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		wildcard(pattern, s)
		if !wildcard(escapeWildcards(s), s) {
			t.Errorf("%q does not match itself", s)
		}
		if !wildcard("*", s) {
			t.Errorf("* does not match %q", s)
		}
	})
}
