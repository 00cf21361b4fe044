package aws

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// calico are the rules that CAPA adds where a spec has no CNI.
func calico(more ...string) []string {
	return append([]string{"ipip from sg-cp", "ipip from sg-node", "tcp 179-179 from sg-cp", "tcp 179-179 from sg-node"}, more...)
}

// The ingress of each role's group.
func TestGroupIngress(t *testing.T) {
	noCNI := func(c *infrav1.AWSCluster) { c.Spec.NetworkSpec.CNI = &infrav1.CNISpec{} }
	lb := func(mod func(*infrav1.AWSLoadBalancerSpec)) func(*infrav1.AWSCluster) {
		return func(c *infrav1.AWSCluster) {
			c.Spec.ControlPlaneLoadBalancer = &infrav1.AWSLoadBalancerSpec{}
			mod(c.Spec.ControlPlaneLoadBalancer)
		}
	}
	bastion := func(b infrav1.Bastion) func(*infrav1.AWSCluster) {
		return func(c *infrav1.AWSCluster) {
			b.Enabled = true
			c.Spec.Bastion = b
			c.Status.Network.SecurityGroups[infrav1.SecurityGroupBastion] = infrav1.SecurityGroup{ID: "sg-bastion"}
		}
	}
	additional := func(rules ...infrav1.IngressRule) func(*infrav1.AWSCluster) {
		return func(c *infrav1.AWSCluster) { c.Spec.NetworkSpec.AdditionalNodeIngressRules = rules }
	}
	node := []string{"tcp 10250-10250 from sg-cp", "tcp 10250-10250 from sg-node", "tcp 30000-32767 from 0.0.0.0/0"}
	tests := map[string]struct {
		mods  []func(*infrav1.AWSCluster)
		group string
		want  any
	}{
		"control plane": {nil, "sg-cp", calico("tcp 2379-2379 from sg-cp", "tcp 2380-2380 from sg-cp",
			"tcp 6443-6443 from sg-api", "tcp 6443-6443 from sg-cp", "tcp 6443-6443 from sg-node")},
		"node":            {nil, "sg-node", calico(node...)},
		"node, empty CNI": {[]func(*infrav1.AWSCluster){noCNI}, "sg-node", node},
		"CNI of the spec": {
			[]func(*infrav1.AWSCluster){noCNI, func(c *infrav1.AWSCluster) {
				c.Spec.NetworkSpec.CNI.CNIIngressRules = infrav1.CNIIngressRules{{Protocol: "udp", FromPort: 8472, ToPort: 8472}, {Protocol: "icmp", FromPort: 8, ToPort: -1}}
			}},
			"sg-node",
			append([]string{"icmp type 8 from sg-cp", "icmp type 8 from sg-node", "udp 8472-8472 from sg-cp", "udp 8472-8472 from sg-node"}, node...),
		},
		"node ports": {
			[]func(*infrav1.AWSCluster){noCNI, func(c *infrav1.AWSCluster) {
				c.Spec.NetworkSpec.NodePortIngressRuleCidrBlocks = infrav1.CidrBlocks{"10.1.2.3/8", "2001:db8::/32"}
			}},
			"sg-node",
			[]string{"tcp 10250-10250 from sg-cp", "tcp 10250-10250 from sg-node", "tcp 30000-32767 from 10.0.0.0/8"},
		},
		// C04: one rule with two blocks, one of them twice, is two rules.
		"C04 exploded": {
			[]func(*infrav1.AWSCluster){noCNI, additional(
				infrav1.IngressRule{Protocol: "tcp", FromPort: 443, ToPort: 443, CidrBlocks: []string{"10.0.0.0/8", "192.168.1.1/16"}, IPv6CidrBlocks: []string{"2001:DB8::/32"}},
				infrav1.IngressRule{Description: "again", Protocol: "tcp", FromPort: 443, ToPort: 443, CidrBlocks: []string{"10.0.0.0/8"}})},
			"sg-node",
			append(node[:2:2], node[2], "tcp 443-443 from 10.0.0.0/8", "tcp 443-443 from 192.168.0.0/16", "tcp 443-443 from 2001:db8::/32"),
		},
		"roles and ids": {
			[]func(*infrav1.AWSCluster){noCNI, additional(
				infrav1.IngressRule{Protocol: "tcp", FromPort: 1, ToPort: 2, SourceSecurityGroupIDs: []string{"sg-x"}, SourceSecurityGroupRoles: []infrav1.SecurityGroupRole{"node", "controlplane"}},
				infrav1.IngressRule{Protocol: "tcp", FromPort: 3, ToPort: 4})},
			"sg-node",
			append([]string{"tcp 1-2 from sg-cp", "tcp 1-2 from sg-node", "tcp 1-2 from sg-x", "tcp 3-4 from sg-cp"}, node...),
		},
		"NAT gateways": {
			[]func(*infrav1.AWSCluster){withNetwork, noCNI, additional(infrav1.IngressRule{Protocol: "tcp", FromPort: 1, ToPort: 1, NatGatewaysIPsSource: true})},
			"sg-node",
			append([]string{"tcp 1-1 from 203.0.113.1/32", "tcp 1-1 from 203.0.113.2/32"}, node...),
		},
		"API, world":         {nil, "sg-api", []string{"tcp 6443-6443 from 0.0.0.0/0"}},
		"API, NAT and world": {[]func(*infrav1.AWSCluster){withNetwork}, "sg-api", []string{"tcp 6443-6443 from 0.0.0.0/0", "tcp 6443-6443 from 203.0.113.1/32", "tcp 6443-6443 from 203.0.113.2/32"}},
		"API, internal":      {[]func(*infrav1.AWSCluster){withNetwork, lb(func(s *infrav1.AWSLoadBalancerSpec) { s.Scheme = &infrav1.ELBSchemeInternal })}, "sg-api", []string{"tcp 6443-6443 from 0.0.0.0/0", "tcp 6443-6443 from 10.0.0.0/16"}},
		"API, own rules": {
			[]func(*infrav1.AWSCluster){withNetwork, lb(func(s *infrav1.AWSLoadBalancerSpec) {
				s.IngressRules = []infrav1.IngressRule{{Protocol: "tcp", FromPort: 6443, ToPort: 6443, CidrBlocks: []string{"198.51.100.0/24"}}}
			})},
			"sg-api",
			[]string{"tcp 6443-6443 from 198.51.100.0/24", "tcp 6443-6443 from 203.0.113.1/32", "tcp 6443-6443 from 203.0.113.2/32"},
		},
		"lb, classic": {nil, "sg-lb", nil},
		"lb, network": {
			[]func(*infrav1.AWSCluster){lb(func(s *infrav1.AWSLoadBalancerSpec) {
				s.LoadBalancerType = infrav1.LoadBalancerTypeNLB
				s.AdditionalListeners = []infrav1.AdditionalListenerSpec{{Port: 8132}}
			})},
			"sg-lb", "Contains tcp 6443-6443 from 10.0.0.0/16, tcp 8132-8132 from 10.0.0.0/16",
		},
		"lb, clients' addresses": {
			[]func(*infrav1.AWSCluster){lb(func(s *infrav1.AWSLoadBalancerSpec) {
				s.LoadBalancerType, s.PreserveClientIP = infrav1.LoadBalancerTypeNLB, true
			})},
			"sg-lb", "Contains tcp 6443-6443 from 0.0.0.0/0",
		},
		"SSH from the bastion": {[]func(*infrav1.AWSCluster){noCNI, bastion(infrav1.Bastion{})}, "sg-node", append(node[:2:2], "tcp 22-22 from sg-bastion", node[2])},
		"bastion, world":       {[]func(*infrav1.AWSCluster){bastion(infrav1.Bastion{})}, "sg-bastion", []string{"tcp 22-22 from 0.0.0.0/0"}},
		"bastion, blocks":      {[]func(*infrav1.AWSCluster){bastion(infrav1.Bastion{AllowedCIDRBlocks: infrav1.CidrBlocks{"198.51.100.0/24"}})}, "sg-bastion", []string{"tcp 22-22 from 198.51.100.0/24"}},
		"bastion, closed":      {[]func(*infrav1.AWSCluster){bastion(infrav1.Bastion{DisableIngressRules: true})}, "sg-bastion", []string(nil)},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := pick(t, get(t, clusterOwner(genAWSCluster(tt.mods...)), genSnapshot()), providers.KindSecurityGroup, tt.group)
			if list, ok := tt.want.([]string); ok {
				slices.Sort(list)
			}
			checkField(t, r, "/ingress", tt.want)
		})
	}
}

func TestAPIServerPort(t *testing.T) {
	o := clusterOwner(genAWSCluster())
	o.Cluster = genCluster(func(c *clusterv1.Cluster) { c.Spec.ClusterNetwork.APIServerPort = 8443 })
	all := get(t, o, genSnapshot())
	checkField(t, pick(t, all, providers.KindSecurityGroup, "sg-api"), "/ingress", []string{"tcp 8443-8443 from 0.0.0.0/0"})
	cp, _ := plain(pick(t, all, providers.KindSecurityGroup, "sg-cp"), "/ingress").([]string)
	if !strings.Contains(strings.Join(cp, "\n"), "tcp 6443-6443 from sg-api") {
		t.Errorf("control plane: %q", cp)
	}
}

// C02: ports on all protocols limit nothing, and the spec is told so.
func TestC02PortsOnAllProtocols(t *testing.T) {
	for _, ports := range [][2]int64{{8080, 8080}, {0, 65535}, {-1, -1}} {
		cluster := genAWSCluster(func(c *infrav1.AWSCluster) {
			c.Spec.NetworkSpec.CNI = &infrav1.CNISpec{}
			c.Spec.NetworkSpec.AdditionalNodeIngressRules = []infrav1.IngressRule{{Protocol: "-1", FromPort: ports[0], ToPort: ports[1], CidrBlocks: []string{"10.0.0.0/8"}}}
		})
		r := pick(t, get(t, clusterOwner(cluster), genSnapshot()), providers.KindSecurityGroup, "sg-node")
		if !r.Fields.Get("/ingress").Value.Has("all from 10.0.0.0/8") {
			t.Errorf("%v: %q", ports, r.Fields.Get("/ingress").Value.Elements())
		}
		if warned := len(r.Warnings) == 1 && strings.Contains(r.Warnings[0], "additionalNodeIngressRules[0]"); warned != (ports[0] == 8080) {
			t.Errorf("%v: warnings %q", ports, r.Warnings)
		}
	}
}

// C05: the description is no part of a rule.
func TestC05Description(t *testing.T) {
	with := func(text string) providers.Value {
		cluster := genAWSCluster(func(c *infrav1.AWSCluster) {
			c.Spec.NetworkSpec.AdditionalNodeIngressRules = []infrav1.IngressRule{{Description: text, Protocol: "tcp", FromPort: 2049, ToPort: 2049, CidrBlocks: []string{"10.0.0.0/8"}}}
		})
		return pick(t, get(t, clusterOwner(cluster), genSnapshot()), providers.KindSecurityGroup, "sg-node").Fields.Get("/ingress").Value
	}
	if !with("nfs").Equal(with("NFS, made by hand")) {
		t.Error("rules differ by their description")
	}
}

// C13: egress is wanted nowhere, but for the default group when the spec has
// it emptied.
func TestC13Egress(t *testing.T) {
	group := seenGroup("sg-default", "default", "vpc-1", "/egress", []string{"all to 0.0.0.0/0"})
	other := seenGroup("sg-a", "default", "vpc-0")
	for id, r := range get(t, clusterOwner(genAWSCluster(withNetwork)), genSnapshot(group, other)) {
		if _, ok := r.Fields.Lookup("/egress"); ok {
			t.Errorf("%s wants egress", id)
		}
	}
	emptied := genAWSCluster(withNetwork, func(c *infrav1.AWSCluster) { c.Spec.NetworkSpec.VPC.EmptyRoutesDefaultVPCSecurityGroup = true })
	all := get(t, clusterOwner(emptied), genSnapshot(group, other))
	r := pick(t, all, providers.KindSecurityGroup, "sg-default")
	checkField(t, r, "/egress", []string(nil))
	checkField(t, r, "/ingress", []string(nil))
	if got := reasons(get(t, clusterOwner(emptied), genSnapshot()), providers.KindSecurityGroup); len(got) != 1 || !strings.Contains(got[0], "default group") {
		t.Errorf("reasons %q", got)
	}
}

// C14: an override is another team's group: it must be there, and no more.
func TestC14Override(t *testing.T) {
	cluster := genAWSCluster(brought, func(c *infrav1.AWSCluster) {
		c.Spec.NetworkSpec.SecurityGroupOverrides = map[infrav1.SecurityGroupRole]string{
			infrav1.SecurityGroupNode: "sg-byo", infrav1.SecurityGroupLB: "sg-byo", infrav1.SecurityGroupControlPlane: "sg-byo-cp",
		}
	})
	all := get(t, clusterOwner(cluster), genSnapshot())
	for _, id := range []string{"sg-byo", "sg-byo-cp"} {
		if r := pick(t, all, providers.KindSecurityGroup, id); len(r.Fields) != 0 {
			t.Errorf("%s wants %v", id, r.Fields)
		}
	}
	// Rules of our own groups name the overrides.
	checkField(t, pick(t, all, providers.KindSecurityGroup, "sg-api"), "/tags/Name", "c1-apiserver-lb")
	if _, ok := all[providers.ID{Kind: providers.KindSecurityGroup, Name: "sg-node"}]; ok {
		t.Error("the group that was overridden is wanted")
	}
}

// C17: the cloud provider's tag stays on the lb group alone, also where the
// user's tags ask for it everywhere.
func TestC17CloudProviderTag(t *testing.T) {
	const key = "/tags/kubernetes.io~1cluster~1c1"
	cluster := genAWSCluster(func(c *infrav1.AWSCluster) {
		c.Spec.AdditionalTags = infrav1.Tags{"kubernetes.io/cluster/c1": "owned", "team": "a"}
	})
	all := get(t, clusterOwner(cluster), genSnapshot())
	for id, want := range map[string]any{"sg-lb": "owned", "sg-node": nil, "sg-cp": nil, "sg-api": nil} {
		r := pick(t, all, providers.KindSecurityGroup, id)
		checkField(t, r, key, want)
		checkField(t, r, "/tags/team", "a")
	}
	checkField(t, pick(t, all, providers.KindSecurityGroup, "sg-cp"), "/tags/sigs.k8s.io~1cluster-api-provider-aws~1role", "controlplane")
}

// A rule whose peer is not known leaves room for it among the seen rules.
func TestUnknownPeer(t *testing.T) {
	cluster := genAWSCluster(func(c *infrav1.AWSCluster) { delete(c.Status.Network.SecurityGroups, infrav1.SecurityGroupAPIServerLB) })
	all := get(t, clusterOwner(cluster), genSnapshot())
	f := pick(t, all, providers.KindSecurityGroup, "sg-cp").Fields.Get("/ingress")
	if f.Match != providers.Contains || f.Value.Has("tcp 6443-6443 from ") {
		t.Errorf("got %s %q", f.Match, f.Value.Elements())
	}
	want := []string{"security group of role apiserver-lb not created yet", "Kubernetes API: security group of role apiserver-lb not created yet"}
	got := reasons(all, providers.KindSecurityGroup)
	if len(got) == 2 && got[0] > got[1] {
		got[0], got[1] = got[1], got[0]
	}
	if diff := cmp.Diff([]string{want[1], want[0]}, got); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
}

func TestGroupNameLikeAnID(t *testing.T) {
	o := clusterOwner(genAWSCluster(func(c *infrav1.AWSCluster) { c.Status.Network.SecurityGroups = nil }))
	o.Cluster = genCluster(func(c *clusterv1.Cluster) { c.Name = "sg-1" })
	net := genSnapshot(seenResource(providers.KindSecurityGroup, "sg-9", "name", "@sg-1-node", "/vpcId", "vpc-1",
		providers.Pointer("tags", infrav1.ClusterTagKey("sg-1")), "owned"))
	pick(t, get(t, o, net), providers.KindSecurityGroup, "sg-9")
}
