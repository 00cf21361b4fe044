package aws

import (
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"testing"

	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

// region answers for a region of many instances, each as CAPA makes them: with
// tags, an interface and a volume.
func region(aws *fakeAWS, instances int) {
	paged := func(action string, item func(n int) string, wrap string) {
		aws.on("ec2."+action, func(_ int, form url.Values) (int, string) {
			from, _ := strconv.Atoi(form.Get("NextToken"))
			size, _ := strconv.Atoi(form.Get("MaxResults"))
			to := min(from+size, instances)
			var b strings.Builder
			for n := from; n < to; n++ {
				b.WriteString(item(n))
			}
			next := ""
			if to < instances {
				next = strconv.Itoa(to)
			}
			return http.StatusOK, ec2Answer(action, fmt.Sprintf("<%s>%s</%s>", wrap, b.String(), wrap), next)
		})
	}
	tags := func(n int) string {
		return fmt.Sprintf("<tagSet><item><key>Name</key><value>m-%d</value></item><item><key>sigs.k8s.io/cluster-api-provider-aws/cluster/c%d</key><value>owned</value></item><item><key>kubernetes.io/cluster/c%d</key><value>owned</value></item><item><key>sigs.k8s.io/cluster-api-provider-aws/role</key><value>node</value></item><item><key>MachineName</key><value>prod/m-%d</value></item><item><key>team</key><value>platform</value></item></tagSet>", n, n%100, n%100, n)
	}
	paged("DescribeInstances", func(n int) string {
		return fmt.Sprintf("<item><reservationId>r-%d</reservationId><instancesSet><item><instanceId>i-%017x</instanceId><imageId>ami-0abcdef1234567890</imageId><instanceState><name>running</name></instanceState><instanceType>m5.large</instanceType><keyName>ops</keyName><subnetId>subnet-%d</subnetId><vpcId>vpc-%d</vpcId><privateDnsName>ip-10-0-0-1.eu-central-1.compute.internal</privateDnsName><launchTime>2026-01-01T00:00:00Z</launchTime><placement><availabilityZone>eu-central-1a</availabilityZone><tenancy>default</tenancy></placement><rootDeviceType>ebs</rootDeviceType><rootDeviceName>/dev/sda1</rootDeviceName><blockDeviceMapping><item><deviceName>/dev/sda1</deviceName><ebs><volumeId>vol-%017x</volumeId></ebs></item></blockDeviceMapping><iamInstanceProfile><arn>arn:aws:iam::123456789012:instance-profile/nodes.cluster-api-provider-aws.sigs.k8s.io</arn></iamInstanceProfile><networkInterfaceSet><item><networkInterfaceId>eni-%017x</networkInterfaceId><attachment><deviceIndex>0</deviceIndex></attachment><groupSet><item><groupId>sg-%d</groupId></item><item><groupId>sg-lb%d</groupId></item></groupSet></item></networkInterfaceSet><metadataOptions><httpTokens>required</httpTokens><httpPutResponseHopLimit>2</httpPutResponseHopLimit><httpEndpoint>enabled</httpEndpoint><instanceMetadataTags>disabled</instanceMetadataTags></metadataOptions>%s</item></instancesSet></item>",
			n, n, n%300, n%100, n, n, n%100, n%100, tags(n))
	}, "reservationSet")
	paged("DescribeVolumes", func(n int) string {
		return fmt.Sprintf("<item><volumeId>vol-%017x</volumeId><size>80</size><volumeType>gp3</volumeType><iops>3000</iops><throughput>125</throughput><encrypted>true</encrypted><kmsKeyId>arn:aws:kms:eu-central-1:123456789012:key/k-1</kmsKeyId><status>in-use</status><attachmentSet><item><instanceId>i-%017x</instanceId><status>attached</status></item></attachmentSet>%s</item>", n, n, tags(n))
	}, "volumeSet")
	paged("DescribeNetworkInterfaces", func(n int) string {
		return fmt.Sprintf("<item><networkInterfaceId>eni-%017x</networkInterfaceId><subnetId>subnet-%d</subnetId><vpcId>vpc-%d</vpcId><interfaceType>interface</interfaceType><attachment><instanceId>i-%017x</instanceId><deviceIndex>0</deviceIndex><status>attached</status></attachment><groupSet><item><groupId>sg-%d</groupId></item></groupSet>%s</item>", n, n%300, n%100, n, n%100, tags(n))
	}, "networkInterfaceSet")
	paged("DescribeInstanceStatus", func(n int) string {
		return fmt.Sprintf("<item><instanceId>i-%017x</instanceId></item>", n)
	}, "instanceStatusSet")
}

// A region is read in pages of 1,000, and a few calls more whatever its size.
func TestCallsOfASweep(t *testing.T) {
	aws := newFakeAWS(t)
	region(aws, 3500)
	p := provider(t)
	snap, err := p.Observe(t.Context(), scopeOf(t, p))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(snap.OfKind(providers.KindInstance)); n != 3500 {
		t.Errorf("%d instances, want 3500", n)
	}
	for _, action := range []string{"ec2.DescribeInstances", "ec2.DescribeVolumes", "ec2.DescribeNetworkInterfaces", "ec2.DescribeInstanceStatus"} {
		if n := aws.count(action); n != 4 {
			t.Errorf("%d calls of %s, want 4", n, action)
		}
	}
	if n := len(aws.calls); n > 4*4+15 {
		t.Errorf("%d calls in all for a region of 3,500 instances", n)
	}
}

// Load balancers that have nothing to do with a cluster cost nothing, and
// those that an AWSCluster names are read although nobody tagged them.
func TestLoadBalancersOfInterest(t *testing.T) {
	aws := newFakeAWS(t)
	balancer := func(name, vpc string) string {
		return "<member><LoadBalancerArn>arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/net/" + name + "/1</LoadBalancerArn><LoadBalancerName>" + name + "</LoadBalancerName><Type>network</Type><VpcId>" + vpc + "</VpcId></member>"
	}
	aws.on("elbv2.DescribeLoadBalancers", func(int, url.Values) (int, string) {
		var b strings.Builder
		for n := range 100 {
			b.WriteString(balancer(fmt.Sprintf("other-%d", n), "vpc-other"))
		}
		b.WriteString(balancer("byo", "vpc-c1") + balancer("service", "vpc-c1"))
		return http.StatusOK, "<DescribeLoadBalancersResponse><DescribeLoadBalancersResult><LoadBalancers>" + b.String() + "</LoadBalancers></DescribeLoadBalancersResult></DescribeLoadBalancersResponse>"
	})
	p := provider(t)
	scope, err := p.Scope(t.Context(), observedCluster("c1", func(c *infrav1.AWSCluster) {
		c.Spec.NetworkSpec.VPC.ID = "vpc-c1"
		c.Spec.ControlPlaneLoadBalancer = &infrav1.AWSLoadBalancerSpec{Name: ptr("byo")}
	}))
	if err != nil {
		t.Fatal(err)
	}
	snap, err := p.Observe(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(snap.OfKind(providers.KindLoadBalancer)); n != 102 {
		t.Errorf("%d load balancers, want all 102", n)
	}
	if n := aws.count("elbv2.DescribeTags"); n != 1 {
		t.Errorf("%d calls for tags, want 1", n)
	}
	listeners := aws.of("elbv2.DescribeListeners")
	if len(listeners) != 1 || !strings.Contains(listeners[0].form.Get("LoadBalancerArn"), "/byo/") {
		t.Errorf("listeners read: %+v, want those of the load balancer that the spec names", listeners)
	}
	for _, r := range snap.OfKind(providers.KindLoadBalancer) {
		if _, has := r.Fields.Lookup("/listeners"); has != (r.Name == "byo") {
			t.Errorf("%s has listeners: %v", r.Name, has)
		}
	}
}

// A load balancer that is deleted in the middle of a sweep is unknown: the
// listing saw it and the next read did not.
func TestLoadBalancerDeletedMeanwhile(t *testing.T) {
	aws := newFakeAWS(t)
	aws.on("elb.DescribeLoadBalancers", func(int, url.Values) (int, string) {
		return http.StatusOK, "<DescribeLoadBalancersResponse><DescribeLoadBalancersResult><LoadBalancerDescriptions><member><LoadBalancerName>c1-apiserver</LoadBalancerName><VPCId>vpc-c1</VPCId></member></LoadBalancerDescriptions></DescribeLoadBalancersResult></DescribeLoadBalancersResponse>"
	})
	aws.on("elb.DescribeLoadBalancerAttributes", func(int, url.Values) (int, string) {
		return refuseQuery("LoadBalancerNotFound", "There is no ACTIVE Load Balancer named 'c1-apiserver'")
	})
	p := provider(t)
	scope, err := p.Scope(t.Context(), observedCluster("c1", func(c *infrav1.AWSCluster) { c.Status.Network.APIServerELB.Name = "c1-apiserver" }))
	if err != nil {
		t.Fatal(err)
	}
	snap, err := p.Observe(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	r := snap.Resources[providers.ID{Kind: providers.KindLoadBalancer, Name: "classic/c1-apiserver"}]
	if r == nil || r.Unknown == "" || snap.Coverage[partAttributes] != nil {
		t.Errorf("load balancer %+v with coverage %v: want it unknown, and the part covered for others", r, snap.Coverage[partAttributes])
	}
}

// C35's kind: a resource without an id would match every unset reference.
func TestC35ResourceWithoutID(t *testing.T) {
	aws := newFakeAWS(t)
	aws.on("ec2.DescribeInstances", func(int, url.Values) (int, string) {
		return http.StatusOK, ec2Answer("DescribeInstances", instanceItems("", "i-1"), "")
	})
	p := provider(t)
	snap, err := p.Observe(t.Context(), scopeOf(t, p))
	if err != nil {
		t.Fatal(err)
	}
	if snap.Resources[providers.ID{Kind: providers.KindInstance}] != nil || snap.Coverage[providers.KindInstance] == nil {
		t.Errorf("coverage %v: want an error and no resource without an id", snap.Coverage[providers.KindInstance])
	}
}

// C62: who manages the infrastructure cluster is no matter of reading it.
func TestC62ExternallyManagedIsRead(t *testing.T) {
	newFakeAWS(t)
	p := provider(t)
	scope, err := p.Scope(t.Context(), observedCluster("c1", func(c *infrav1.AWSCluster) {
		c.Annotations = map[string]string{"cluster.x-k8s.io/managed-by": "terraform"}
	}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Observe(t.Context(), scope); err != nil {
		t.Error(err)
	}
}

// The snapshot of 10,000 instances, with a volume and an interface each, has
// to leave room for everything else in 300 MB.
func BenchmarkObserve10000(b *testing.B) {
	aws := newFakeAWS(b)
	region(aws, 10_000)
	p := provider(b)
	scope, err := p.Scope(b.Context(), observedCluster("c1"))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		snap, err := p.Observe(b.Context(), scope)
		if err != nil {
			b.Fatal(err)
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		b.ReportMetric(float64(m.HeapAlloc)/1e6, "live-MB")
		b.ReportMetric(float64(len(snap.Resources)), "resources")
		runtime.KeepAlive(snap)
	}
}
