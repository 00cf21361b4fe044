package aws

import (
	"fmt"
	"strings"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// clusterView is what a Cluster, its AWSCluster and the snapshot say together.
// It is read-only: the objects belong to the caller. With the ids that CAPA
// records, making one costs no look through the snapshot.
type clusterView struct {
	name      string
	namespace string
	capi      *clusterv1.Cluster
	// spec is nil when the AWSCluster is not known, and noSpec says why.
	spec   *infrav1.AWSCluster
	noSpec string
	snap   *providers.Snapshot
	// plan has what is not recorded under provisional ids: whoever builds
	// records what it makes, and Create finds what an earlier call made.
	plan bool
	// external is infrastructure that something else than CAPA manages.
	external bool
	// managed is a VPC that CAPA made and keeps.
	managed bool
	// vpcID is empty when the VPC is not known, and noVPC says why.
	vpcID string
	noVPC string
	// subnets is nil until the cluster's own wants need it.
	subnets []subnetView
}

func newClusterView(owner *providers.Owner, snap *providers.Snapshot, plan bool) *clusterView {
	c := &clusterView{
		name:      owner.Cluster.Name,
		namespace: owner.Cluster.Namespace,
		capi:      owner.Cluster,
		snap:      snap,
		plan:      plan,
	}
	infra := owner.InfraCluster
	if own, ok := owner.Infra.(*infrav1.AWSCluster); ok {
		infra = own
	}
	switch infra := infra.(type) {
	case *infrav1.AWSCluster:
		if infra != nil {
			c.spec = infra
		}
	case nil:
	default:
		kind := first(infra.GetObjectKind().GroupVersionKind().Kind, fmt.Sprintf("%T", infra))
		c.noSpec = "infrastructure of kind " + kind + " is not modelled"
	}
	if c.spec == nil {
		c.noSpec = first(c.noSpec, "the cluster's AWSCluster was not found")
		c.noVPC = c.noSpec
		return c
	}
	_, c.external = c.spec.Annotations[clusterv1.ManagedByAnnotation]
	c.managed = !c.external && c.vpc().IsManaged(c.name)
	c.vpcID, c.noVPC = c.findVPC()
	return c
}

func (c *clusterView) vpc() *infrav1.VPCSpec { return &c.spec.Spec.NetworkSpec.VPC }

// findVPC gives the recorded VPC, else the one that carries the cluster's
// ownership tag. Two of those belong to two clusters of one name, or to an
// abandoned attempt: neither can be taken.
func (c *clusterView) findVPC() (id, why string) {
	if id := c.vpc().ID; id != "" {
		return id, ""
	}
	return c.byTag(providers.KindVPC, whatVPC, func(*providers.Resource) bool { return true })
}

// byTag gives the only living resource of a kind that carries the cluster's
// ownership tag and passes the test.
func (c *clusterView) byTag(kind, what string, is func(*providers.Resource) bool) (id, why string) {
	if c.plan {
		return c.notCreated(kind, what)
	}
	if err, known := c.snap.Covered(kind, ""); err != nil || !known {
		return "", what + " not recorded, and not to be found by its tags: " + notRead(kind, err)
	}
	var ids []string
	for _, r := range ofKind(c.snap, kind) {
		if r.Gone == "" && ownedBy(r, c.name) && is(r) {
			ids = append(ids, r.ID.Name)
		}
	}
	switch len(ids) {
	case 0:
		return c.notCreated(kind, what)
	case 1:
		return ids[0], ""
	default:
		return "", fmt.Sprintf("%s not recorded, and the cluster's tags are on several: %s", what, strings.Join(ids, ", "))
	}
}

// notCreated gives the provisional id of what is planned, else why there is
// none.
func (c *clusterView) notCreated(kind, what string) (id, why string) {
	if c.plan {
		return providers.Provisional(kind, what).Name, ""
	}
	return "", what + " not created yet"
}

// inVPC is the test for resources of the cluster's VPC with a name.
func (c *clusterView) inVPC(name string) func(*providers.Resource) bool {
	return func(r *providers.Resource) bool {
		return c.vpcID != "" && textOf(r, pathVPCID) == c.vpcID && (name == "" || r.Name == name)
	}
}

// group gives the id of the group of a role: the override, the recorded one,
// else the group of CAPA's name in the cluster's VPC.
func (c *clusterView) group(role infrav1.SecurityGroupRole) (id, why string) {
	if id := c.spec.Spec.NetworkSpec.SecurityGroupOverrides[role]; id != "" {
		return id, ""
	}
	if id := c.spec.Status.Network.SecurityGroups[role].ID; id != "" {
		return id, ""
	}
	what := whatGroup(role)
	if c.vpcID == "" {
		return "", what + ": " + c.noVPC
	}
	return c.byTag(providers.KindSecurityGroup, what, c.inVPC(c.groupName(role)))
}

// groupName follows CAPA, which keeps names from looking like ids.
func (c *clusterView) groupName(role infrav1.SecurityGroupRole) string {
	if name := c.spec.Status.Network.SecurityGroups[role].Name; name != "" {
		return name
	}
	prefix := c.name
	if strings.HasPrefix(prefix, "sg-") {
		prefix = "@" + prefix
	}
	return prefix + "-" + string(role)
}

// apiServerPort is the port of the cluster's API at its load balancer. The
// API servers themselves listen on 6443 whatever it is.
func (c *clusterView) apiServerPort() int64 {
	if p := c.capi.Spec.ClusterNetwork.APIServerPort; p != 0 {
		return int64(p)
	}
	return infrav1.DefaultAPIServerPort
}

func (c *clusterView) seenVPC() *providers.Resource {
	return c.snap.Resources[providers.ID{Kind: providers.KindVPC, Name: c.vpcID}]
}
