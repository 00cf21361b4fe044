package aws

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// managedBy adds a managed-fields entry of a manager for fields of a subnet.
func managedBy(manager, subnet, fields string) func(*infrav1.AWSCluster) {
	return func(c *infrav1.AWSCluster) {
		c.ManagedFields = append(c.ManagedFields, metav1.ManagedFieldsEntry{
			Manager: manager, Operation: "Update", FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:network":{"f:subnets":{"k:{\"id\":\"` + subnet + `\"}":{` + fields + `}}}}}`),
		})
	}
}

func applied(json string) func(*infrav1.AWSCluster) {
	return func(c *infrav1.AWSCluster) {
		c.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": json}
	}
}

// flipped makes one of the four subnets public, as CAPA does when it finds a
// route to the internet gateway.
func flipped(id string) func(*infrav1.AWSCluster) {
	return func(c *infrav1.AWSCluster) {
		for i := range c.Spec.NetworkSpec.Subnets {
			s := &c.Spec.NetworkSpec.Subnets[i]
			if s.ID == "c1-subnet-private-a" {
				s.ID, s.IsPublic = id, true
			}
		}
	}
}

// Whose opinion the spec's isPublic is.
func TestDeclaredPublic(t *testing.T) {
	const own, item = `"f:isPublic":{}`, `".":{},"f:id":{},"f:cidrBlock":{}`
	subnetsOf := func(json string) string { return `{"spec":{"network":{"subnets":[` + json + `]}}}` }
	tests := map[string]struct {
		id      string
		mods    []func(*infrav1.AWSCluster)
		public  bool
		adopted bool
	}{
		"nothing known":                  {"nodes-a", nil, true, false},
		"applied private":                {"nodes-a", []func(*infrav1.AWSCluster){applied(subnetsOf(`{"id":"nodes-a","isPublic":false}`))}, false, true},
		"applied public":                 {"nodes-a", []func(*infrav1.AWSCluster){applied(subnetsOf(`{"id":"nodes-a","isPublic":true}`))}, true, false},
		"applied and left out":           {"nodes-a", []func(*infrav1.AWSCluster){applied(subnetsOf(`{"id":"nodes-a"}`))}, false, true},
		"applied, another subnet":        {"nodes-a", []func(*infrav1.AWSCluster){applied(subnetsOf(`{"id":"x","isPublic":false}`))}, true, false},
		"annotation is no JSON":          {"nodes-a", []func(*infrav1.AWSCluster){applied(`{`)}, true, false},
		"brought, applied private":       {"subnet-7", []func(*infrav1.AWSCluster){applied(subnetsOf(`{"id":"subnet-7","isPublic":false}`))}, false, true},
		"brought, left out":              {"subnet-7", []func(*infrav1.AWSCluster){applied(subnetsOf(`{"id":"subnet-7"}`))}, true, false},
		"user owns the field":            {"nodes-a", []func(*infrav1.AWSCluster){managedBy("kubectl-edit", "nodes-a", own), managedBy("manager", "nodes-a", `"f:resourceID":{}`)}, true, false},
		"controller took the field":      {"nodes-a", []func(*infrav1.AWSCluster){managedBy("kubectl-client-side-apply", "nodes-a", item), managedBy("manager", "nodes-a", own)}, false, true},
		"by the deployment's name":       {"nodes-a", []func(*infrav1.AWSCluster){managedBy("argocd-controller", "nodes-a", item), managedBy("capa-controller-manager", "nodes-a", own)}, false, true},
		"controller took it, brought":    {"subnet-7", []func(*infrav1.AWSCluster){managedBy("kubectl", "subnet-7", item), managedBy("manager", "subnet-7", own)}, true, false},
		"controller made the item":       {"nodes-a", []func(*infrav1.AWSCluster){managedBy("manager", "nodes-a", item+","+own)}, true, false},
		"moved between clusters":         {"nodes-a", []func(*infrav1.AWSCluster){managedBy("clusterctl", "nodes-a", item+","+own)}, true, false},
		"moved, CAPA's own name":         {"c1-subnet-private-a", []func(*infrav1.AWSCluster){managedBy("clusterctl", "c1-subnet-private-a", item+","+own)}, false, true},
		"CAPA's own name":                {"c1-subnet-private-a", nil, false, true},
		"CAPA's own name, public":        {"c1-subnet-public-z", nil, true, false},
		"CAPA's name, the user's choice": {"c1-subnet-private-a", []func(*infrav1.AWSCluster){managedBy("kubectl-edit", "c1-subnet-private-a", own)}, true, false},
		"another cluster's name":         {"c2-subnet-private-a", nil, true, false},
		"status entry": {"nodes-a", []func(*infrav1.AWSCluster){func(c *infrav1.AWSCluster) {
			c.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "manager", Subresource: "status"}, {Manager: "manager"}}
		}}, true, false},
		"fields are no JSON": {"nodes-a", []func(*infrav1.AWSCluster){managedBy("manager", "nodes-a", `"`)}, true, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := genAWSCluster(append([]func(*infrav1.AWSCluster){withNetwork, flipped(tt.id)}, tt.mods...)...)
			c := newClusterView(clusterOwner(cluster), genSnapshot(), false)
			c.resolveSubnets()
			if s := c.subnets[1]; s.public != tt.public || s.adopted != tt.adopted {
				t.Errorf("public %v adopted %v, want %v and %v", s.public, s.adopted, tt.public, tt.adopted)
			}
		})
	}
}

// The other way round: a public subnet that CAPA came to call private.
func TestAdoptedPrivate(t *testing.T) {
	cluster := genAWSCluster(withNetwork, func(c *infrav1.AWSCluster) { c.Spec.NetworkSpec.Subnets[0].IsPublic = false })
	all := get(t, clusterOwner(cluster), genSnapshot())
	f := pick(t, all, providers.KindRouteTable, "rtb-pub1").Fields.Get("/routes/0.0.0.0~10")
	if f.Value.Text() != "igw-1" || !f.Adopted {
		t.Errorf("got %+v", f)
	}
}

// An internet-gateway route in a private subnet's table, before CAPA sees it
// and after it has made the subnet public: the private form is wanted in both,
// and marked as adopted in the second.
func TestAdoptedInternetRoute(t *testing.T) {
	table := func(name string) *providers.Resource {
		return seenResource(providers.KindRouteTable, "rtb-priv1", append(owned(name), "/vpcId", "vpc-1",
			"/associations", []string{"subnet-priv1"}, "/routes/10.0.0.0~116", "local", "/routes/0.0.0.0~10", "igw-1", "/routes/::~10", "igw-1", "/routes/128.0.0.0~11", "igw-1")...)
	}
	before := get(t, clusterOwner(genAWSCluster(withNetwork)), genSnapshot(table("c1-rt-private-a")))
	after := get(t, clusterOwner(genAWSCluster(withNetwork, flipped("c1-subnet-private-a"))), genSnapshot(table("c1-rt-public-a")))
	for when, all := range map[string]map[providers.ID]providers.Resource{"before": before, "after": after} {
		adopted := when == "after"
		r := pick(t, all, providers.KindRouteTable, "rtb-priv1")
		checkField(t, r, "/routes/0.0.0.0~10", "nat-1")
		checkField(t, r, "/routes/::~10", "absent")
		checkField(t, r, "/routes/128.0.0.0~11", "absent")
		checkField(t, r, "/routes/10.0.0.0~116", nil)
		checkField(t, r, "/tags/Name", "c1-rt-private-a")
		s := pick(t, all, providers.KindSubnet, "subnet-priv1")
		checkField(t, s, "/tags/sigs.k8s.io~1cluster-api-provider-aws~1role", "private")
		checkField(t, s, "/tags/kubernetes.io~1role~1internal-elb", "1")
		checkField(t, s, "/mapPublicIpOnLaunch", false)
		for path, want := range map[string]bool{
			"/mapPublicIpOnLaunch": adopted, "/tags/sigs.k8s.io~1cluster-api-provider-aws~1role": adopted,
			"/tags/kubernetes.io~1role~1internal-elb": adopted, "/tags/kubernetes.io~1cluster~1c1": false, "/vpcId": false,
		} {
			if got := s.Fields.Get(path).Adopted; got != want {
				t.Errorf("%s: subnet %s adopted %v", when, path, got)
			}
		}
		for path, want := range map[string]bool{"/routes/0.0.0.0~10": adopted, "/routes/::~10": adopted, "/tags/Name": adopted, "/associations": false} {
			if got := r.Fields.Get(path).Adopted; got != want {
				t.Errorf("%s: table %s adopted %v", when, path, got)
			}
		}
		// The zone keeps its NAT gateway, and the load balancer its subnets.
		pick(t, all, providers.KindNATGateway, "nat-1")
		checkField(t, pick(t, all, providers.KindLoadBalancer, "classic/c1-apiserver"), "/subnets", []string{"subnet-pub1", "subnet-pub2"})
	}
}

// A private subnet that was moved to the public table: CAPA records the table
// that it sees, so the subnet's own is found by its name.
func TestAdoptedAssociation(t *testing.T) {
	moved := genAWSCluster(withNetwork, flipped("c1-subnet-private-a"), func(c *infrav1.AWSCluster) {
		c.Spec.NetworkSpec.Subnets[1].RouteTableID = pt("rtb-pub1")
	})
	public := seenResource(providers.KindRouteTable, "rtb-pub1", append(owned("c1-rt-public-a"), "/vpcId", "vpc-1", "/associations", []string{"subnet-pub1", "subnet-priv1"})...)
	private := seenResource(providers.KindRouteTable, "rtb-priv1", append(owned("c1-rt-private-a"), "/vpcId", "vpc-1", "/associations", []string{})...)
	all := get(t, clusterOwner(moved), genSnapshot(public, private))
	checkField(t, pick(t, all, providers.KindRouteTable, "rtb-priv1"), "/associations", "Contains subnet-priv1")
	checkField(t, pick(t, all, providers.KindRouteTable, "rtb-pub1"), "/associations", "Contains subnet-pub1")
	checkField(t, pick(t, all, providers.KindRouteTable, "rtb-pub1"), "/routes/0.0.0.0~10", "igw-1")
	checkField(t, pick(t, all, providers.KindSubnet, "subnet-priv1"), "/routeTableId", "rtb-priv1")

	all = get(t, clusterOwner(moved), genSnapshot(public))
	if got := reasons(all, providers.KindRouteTable); len(got) != 1 {
		t.Errorf("reasons %q", got)
	}
}

// In a VPC that the user brought a route to the internet is refused for what
// the user called private, and nothing else of the table is wanted.
func TestBroughtPrivateSubnet(t *testing.T) {
	net := genSnapshot(
		seenSubnet("subnet-1", "a", "/routeTableId", "rtb-1"), seenSubnet("subnet-2", "a", "/routeTableId", "rtb-2"),
		seenResource(providers.KindRouteTable, "rtb-1", "/routes/0.0.0.0~10", "igw-1"),
		seenResource(providers.KindRouteTable, "rtb-2", "/routes/0.0.0.0~10", "igw-1", "/routes/10.0.0.0~116", "local"),
	)
	all := get(t, clusterOwner(genAWSCluster(brought)), net)
	r := pick(t, all, providers.KindRouteTable, "rtb-2")
	checkField(t, r, "/routes/0.0.0.0~10", "absent")
	if len(r.Fields) != 1 {
		t.Errorf("wants %v", r.Fields)
	}
	if _, ok := all[providers.ID{Kind: providers.KindRouteTable, Name: "rtb-1"}]; ok {
		t.Error("the public subnet's table is wanted")
	}
}

// Two subnets share a table: it must serve both, and if one is private and
// the other public its routes are nobody's to tell.
func TestSharedTable(t *testing.T) {
	shared := genAWSCluster(withNetwork, func(c *infrav1.AWSCluster) {
		c.Spec.NetworkSpec.Subnets[3].RouteTableID = pt("rtb-priv1")
	})
	r := pick(t, get(t, clusterOwner(shared), genSnapshot()), providers.KindRouteTable, "rtb-priv1")
	checkField(t, r, "/associations", "Contains subnet-priv1, subnet-priv2")
	mixed := genAWSCluster(withNetwork, func(c *infrav1.AWSCluster) {
		c.Spec.NetworkSpec.Subnets[1].RouteTableID = pt("rtb-pub1")
	})
	r = pick(t, get(t, clusterOwner(mixed), genSnapshot()), providers.KindRouteTable, "rtb-pub1")
	checkField(t, r, "/associations", "Contains subnet-priv1, subnet-pub1")
	checkField(t, r, "/routes/0.0.0.0~10", nil)
}
