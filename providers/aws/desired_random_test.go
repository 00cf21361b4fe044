package aws

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// words are what specs hold, good and bad.
var words = []string{
	"", "c1", "c1-node", "a", "b", "eu-central-1a", "subnet-1", "subnet-2", "sg-1", "sg-2", "vpc-1", "vpc-2", "i-1", "aws:////i-1", "aws:///a/i-1",
	"rtb-1", "nat-1", "igw-1", "eigw-1", "eni-1", "10.0.0.0/16", "10.0.1.7/24", "0.0.0.0/0", "::/0", "2001:db8::/32", "10.0.0.0/99", "nonsense",
	"tcp", "udp", "icmp", "-1", "4", "58", "50", "TCP", "HTTPS", "HTTP", "nlb", "alb", "elb", "classic", "disabled", "internal", "internet-facing",
	"gp2", "gp3", "io1", "/dev/sda1", "sdf", "alias/x", "arn:aws:kms:e:1:key/k", "arn:aws:iam::1:instance-profile/p/n", "p/n", "tag:tier", "subnet-id",
	"group-name", "vpc-id", "owner-id", "*", "nodes*", "node", "controlplane", "lb", "bastion", "apiserver-lb", "host", "default", "dedicated", "Spot",
	"OnDemand", "required", "enabled", "public", "private", "kubernetes.io/cluster/c1", "kubernetes.io/cluster/c2", "aws:x", "Name", "MachineName",
	"sigs.k8s.io/cluster-api-provider-aws/cluster/c1", "sigs.k8s.io/cluster-api-provider-aws/role", "sigs.k8s.io/cluster-api-provider-aws/association",
	"owned", "shared", "secondary", "AMDEncryptedVirtualizationNestedPaging", "Disabled", "availability-zone", "local-zone", "wavelength-zone",
	"c1-subnet-private-a", "c1-subnet-public-a", "\x00", "<script>", strings.Repeat("long", 50),
}

// fill gives a value random contents of the words.
func fill(r *rand.Rand, v reflect.Value, depth int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(words[r.IntN(len(words))])
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 0)
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt([]int64{0, 1, 2, 80, 443, 6443, 8132, 65535, 70000, -1, -9}[r.IntN(11)])
	case reflect.Pointer:
		if depth > 0 && r.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(r, v.Elem(), depth-1)
		}
	case reflect.Slice:
		if depth > 0 {
			v.Set(reflect.MakeSlice(v.Type(), r.IntN(4), 4))
			for i := range v.Len() {
				fill(r, v.Index(i), depth-1)
			}
		}
	case reflect.Map:
		if depth > 0 && r.IntN(3) > 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for range r.IntN(4) {
				key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				fill(r, key, depth-1)
				fill(r, value, depth-1)
				v.SetMapIndex(key, value)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(r, v.Field(i), depth)
			}
		}
	default:
	}
}

// randomOwners makes a machine and a cluster of random specs.
func randomOwners(r *rand.Rand) []*providers.Owner {
	cluster := genAWSCluster()
	fill(r, reflect.ValueOf(&cluster.Spec).Elem(), 6)
	fill(r, reflect.ValueOf(&cluster.Status.Network).Elem(), 5)
	if r.IntN(2) == 0 { // as CAPA records a VPC that it made
		cluster.Spec.NetworkSpec.VPC.ID = "vpc-1"
		cluster.Spec.NetworkSpec.VPC.Tags = infrav1.Tags{infrav1.ClusterTagKey("c1"): "owned"}
		withNetwork(cluster)
		last := &cluster.Spec.NetworkSpec.Subnets[len(cluster.Spec.NetworkSpec.Subnets)-1]
		last.IPv6CidrBlock = words[r.IntN(len(words))]
	}
	if lb := cluster.Spec.ControlPlaneLoadBalancer; lb != nil && r.IntN(2) == 0 {
		lb.LoadBalancerType, lb.Name = infrav1.LoadBalancerTypeNLB, nil
		cluster.Status.Network.APIServerELB = infrav1.LoadBalancer{Name: "c1", ARN: "arn:1"}
	}
	machine := genAWSMachine()
	fill(r, reflect.ValueOf(&machine.Spec).Elem(), 6)
	if r.IntN(4) > 0 {
		machine.Spec.ProviderID, machine.Spec.InstanceID = pt("aws:////i-1"), nil
	}
	o := machineOwner(machine, inCluster(cluster))
	o.ControlPlane = r.IntN(2) == 0
	o.Machine.Spec.FailureDomain = words[r.IntN(6)]
	return []*providers.Owner{o, clusterOwner(cluster)}
}

// randomSnapshot makes resources with the ids that random specs name.
func randomSnapshot(r *rand.Rand) *providers.Snapshot {
	snap := genSnapshot()
	prefixes := map[string]string{
		providers.KindInstance: "i-", providers.KindSubnet: "subnet-", providers.KindSecurityGroup: "sg-", providers.KindVPC: "vpc-",
		providers.KindInternetGateway: "igw-", providers.KindNATGateway: "nat-", providers.KindRouteTable: "rtb-", providers.KindNetworkACL: "acl-",
		providers.KindLoadBalancer: "arn:",
	}
	for _, kind := range readKinds {
		for n := range r.IntN(3) {
			w := func() string { return words[r.IntN(len(words))] }
			res := seenResource(kind, fmt.Sprintf("%s%d", prefixes[kind], n+1), "name", w(), "/vpcId", "vpc-1", "/availabilityZone", w(), "/cidrBlock", "10.0.0.0/16",
				"/state", []string{"running", "stopped"}[r.IntN(2)], "/rootDeviceName", "/dev/sda1", "/default", true, "/egressOnly", n == 1, "/subnetId", w(),
				"/tags/Name", w(), "/tags/tier", w(), "/routes/0.0.0.0~10", w(), "/associations", []string{w()}, "/cpuOptions/amdSevSnp", w(), "/rootVolume/kmsKeyId", w(),
				"/targetGroups/apiserver-target-1/port", 6443, "/targetGroups/apiserver-target-1/protocol", "TCP")
			if r.IntN(2) == 0 {
				res.Set(providers.Pointer("tags", infrav1.ClusterTagKey("c1")), providers.Field{Value: providers.String("owned")})
			}
			snap.Resources[res.ID] = res
		}
	}
	return snap
}
