package aws

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
)

func instanceIDs(names ...string) []providers.ID {
	var out []providers.ID
	for _, n := range names {
		out = append(out, providers.ID{Kind: providers.KindInstance, Name: n})
	}
	return out
}

// valuesOf gives the values of a numbered form parameter.
func valuesOf(form url.Values, prefix string) []string {
	var out []string
	for n := 1; ; n++ {
		v, ok := form[fmt.Sprintf("%s.%d", prefix, n)]
		if !ok {
			return out
		}
		out = append(out, v...)
	}
}

// ec2Instances answers DescribeInstances by id as EC2 does: any id that does
// not exist refuses the whole call.
func ec2Instances(naming func(missing []string) string, living ...string) answerFunc {
	return func(_ int, form url.Values) (int, string) {
		if filter := valuesOf(form, "Filter.1.Value"); len(filter) > 0 {
			found := slices.DeleteFunc(filter, func(id string) bool { return !slices.Contains(living, id) })
			return http.StatusOK, ec2Answer("DescribeInstances", instanceItems(found...), "")
		}
		var missing []string
		asked := valuesOf(form, "InstanceId")
		for _, id := range asked {
			if !strings.HasPrefix(id, "i-") {
				return refuse("InvalidInstanceID.Malformed", fmt.Sprintf("Invalid id: %q", id))
			}
			if !slices.Contains(living, id) {
				missing = append(missing, id)
			}
		}
		if len(missing) > 0 {
			return refuse("InvalidInstanceID.NotFound", naming(missing))
		}
		return http.StatusOK, ec2Answer("DescribeInstances", instanceItems(asked...), "")
	}
}

func TestConfirm(t *testing.T) {
	all := func(missing []string) string {
		return fmt.Sprintf("The instance IDs '%s' do not exist", strings.Join(missing, ", "))
	}
	one := func(missing []string) string { return fmt.Sprintf("The instance ID '%s' does not exist", missing[0]) }
	none := func([]string) string { return "some instance IDs do not exist" }
	for name, tc := range map[string]struct {
		answer answerFunc
		ask    []string
		exist  []string
		calls  int // at most
	}{
		"all exist":                 {ec2Instances(all, "i-1", "i-2"), []string{"i-1", "i-2"}, []string{"i-1", "i-2"}, 1},
		"none exists":               {ec2Instances(all), []string{"i-1", "i-2"}, nil, 3},
		"EC2 names those missing":   {ec2Instances(all, "i-1", "i-4"), []string{"i-1", "i-2", "i-3", "i-4"}, []string{"i-1", "i-4"}, 4},
		"EC2 names one at a time":   {ec2Instances(one, "i-1"), []string{"i-1", "i-2", "i-3"}, []string{"i-1"}, 5},
		"EC2 names none":            {ec2Instances(none, "i-1", "i-3"), []string{"i-1", "i-2", "i-3", "i-4"}, []string{"i-1", "i-3"}, 7},
		"EC2 names a living one":    {ec2Instances(func([]string) string { return "The instance ID 'i-1' does not exist" }, "i-1"), []string{"i-1", "i-2"}, []string{"i-1"}, 3},
		"an id that begins another": {ec2Instances(all, "i-1"), []string{"i-1", "i-12"}, []string{"i-1"}, 3},
		"a malformed id":            {ec2Instances(all, "i-1"), []string{"i-1", "host-7"}, []string{"i-1"}, 4},
		"asked for twice":           {ec2Instances(all, "i-1"), []string{"i-1", "i-1"}, []string{"i-1"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			aws := newFakeAWS(t)
			aws.on("ec2.DescribeInstances", tc.answer)
			p := provider(t)
			got, err := p.Confirm(t.Context(), scopeOf(t, p), instanceIDs(tc.ask...))
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for id := range got.Resources {
				found = append(found, id.Name)
			}
			slices.Sort(found)
			if diff := cmp.Diff(tc.exist, found); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
			if len(got.Unconfirmed) > 0 {
				t.Errorf("unconfirmed: %v", got.Unconfirmed)
			}
			if n := aws.count("ec2.DescribeInstances"); n > tc.calls {
				t.Errorf("%d calls, want at most %d", n, tc.calls)
			}
		})
	}
}

// Anything but NotFound proves nothing: such ids are neither found nor absent.
func TestConfirmThatFails(t *testing.T) {
	for _, code := range []string{"UnauthorizedOperation", "RequestLimitExceeded", "InternalError", "InvalidParameterCombination"} {
		t.Run(code, func(t *testing.T) {
			aws := newFakeAWS(t)
			aws.on("ec2.DescribeInstances", func(int, url.Values) (int, string) { return refuse(code, "i-1 and i-2") })
			aws.on("ec2.DescribeVpcs", func(int, url.Values) (int, string) {
				return refuse("InvalidVpcID.NotFound", "The vpc ID 'vpc-1' does not exist")
			})
			p := provider(t)
			got, err := p.Confirm(t.Context(), scopeOf(t, p), append(instanceIDs("i-1", "i-2"), providers.ID{Kind: providers.KindVPC, Name: "vpc-1"}))
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Resources) != 0 || len(got.Unconfirmed) != 2 {
				t.Fatalf("found %v, unconfirmed %v: want the two instances unconfirmed and the VPC absent", got.Resources, got.Unconfirmed)
			}
			for id, err := range got.Unconfirmed {
				if apiCode(err) != code || !strings.Contains(err.Error(), "confirm Instance "+id.Name) {
					t.Errorf("%s is unconfirmed because of %q", id, err)
				}
			}
		})
	}
}

func TestConfirmOfKindsThatAreNotModelled(t *testing.T) {
	newFakeAWS(t)
	p := provider(t)
	id := providers.ID{Kind: providers.KindVirtualMachine, Name: "x"}
	got, err := p.Confirm(t.Context(), scopeOf(t, p), []providers.ID{id})
	if err != nil {
		t.Fatal(err)
	}
	if got.Unconfirmed[id] == nil {
		t.Error("a kind that is not modelled is taken to be absent")
	}
}

// A filter's wildcards would find other resources than the one asked for.
func TestConfirmEscapesWildcards(t *testing.T) {
	aws := newFakeAWS(t)
	aws.on("ec2.DescribeInstances", ec2Instances(func([]string) string { return "" }, "i-1"))
	p := provider(t)
	if _, err := p.Confirm(t.Context(), scopeOf(t, p), instanceIDs(`*\?`)); err != nil {
		t.Fatal(err)
	}
	for _, c := range aws.of("ec2.DescribeInstances") {
		if v := valuesOf(c.form, "Filter.1.Value"); len(v) > 0 && v[0] != `\*\\\?` {
			t.Errorf("asked with the filter %q", v)
		}
	}
}

// Many ids cost few calls.
func TestConfirmInBatches(t *testing.T) {
	aws := newFakeAWS(t)
	var ids []string
	for n := range 250 {
		ids = append(ids, fmt.Sprintf("i-%d", n))
	}
	aws.on("ec2.DescribeInstances", ec2Instances(func(missing []string) string { return strings.Join(missing, ", ") }, ids...))
	p := provider(t)
	got, err := p.Confirm(t.Context(), scopeOf(t, p), instanceIDs(ids...))
	if err != nil || len(got.Resources) != 250 {
		t.Fatalf("%d found, %v", len(got.Resources), err)
	}
	if n := aws.count("ec2.DescribeInstances"); n != 3 {
		t.Errorf("%d calls for 250 ids, want 3", n)
	}
}

func FuzzMentions(f *testing.F) {
	f.Add("The instance IDs 'i-1, i-12' do not exist", "i-1")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, message, id string) {
		if id == "" {
			return
		}
		if mentions(message, id) && !strings.Contains(message, id) {
			t.Errorf("%q is not in %q", id, message)
		}
	})
}

// What is joined to a resource and could not be read stays open: it is neither
// there nor known to be absent, and the resource itself is confirmed.
func TestConfirmLeavesUnreadPartsOpen(t *testing.T) {
	const instance = `<reservationSet><item><instancesSet><item><instanceId>i-1</instanceId><instanceState><name>running</name></instanceState>` +
		`<vpcId>vpc-1</vpcId><rootDeviceName>/dev/xvda</rootDeviceName><rootDeviceType>ebs</rootDeviceType>` +
		`<blockDeviceMapping><item><deviceName>/dev/xvda</deviceName><ebs><volumeId>vol-1</volumeId></ebs></item></blockDeviceMapping>` +
		`</item></instancesSet></item></reservationSet>`
	const volume = `<volumeSet><item><volumeId>vol-1</volumeId><size>80</size><volumeType>gp3</volumeType></item></volumeSet>`
	for name, tc := range map[string]struct {
		refused string
		open    string
	}{
		"all read":          {"", ""},
		"no volumes":        {"ec2.DescribeVolumes", "/rootVolume/size"},
		"no events":         {"ec2.DescribeInstanceStatus", "/scheduledEvents"},
		"no load balancers": {"elbv2.DescribeLoadBalancers", ""},
	} {
		t.Run(name, func(t *testing.T) {
			aws := newFakeAWS(t)
			aws.on("ec2.DescribeInstances", func(int, url.Values) (int, string) {
				return http.StatusOK, ec2Answer("DescribeInstances", instance, "")
			})
			aws.on("ec2.DescribeVolumes", func(int, url.Values) (int, string) {
				return http.StatusOK, ec2Answer("DescribeVolumes", volume, "")
			})
			if tc.refused != "" {
				aws.on(tc.refused, func(int, url.Values) (int, string) { return refuse("UnauthorizedOperation", "no") })
			}
			p := provider(t)
			id := providers.ID{Kind: providers.KindInstance, Name: "i-1"}
			c, err := p.Confirm(t.Context(), scopeOf(t, p), []providers.ID{id})
			if err != nil || c.Resources[id] == nil || len(c.Unconfirmed) > 0 {
				t.Fatalf("confirmation %+v, %v", c, err)
			}
			for _, path := range []string{"/rootVolume/size", "/scheduledEvents"} {
				_, there := c.Resources[id].Fields.Lookup(path)
				closed := c.Resources[id].Closes(path)
				if want := path != tc.open; there != want || !want && closed {
					t.Errorf("%s is there: %v, closed: %v", path, there, closed)
				}
			}
			if c.Resources[id].Closes("/loadBalancers/x") {
				t.Error("registrations are closed without a load balancer that was read")
			}
		})
	}
}

// Half a set of targets must not pass for the whole: with one group's targets
// refused, none are told.
func TestConfirmTellsNoHalfOfTargets(t *testing.T) {
	const arn = "arn:aws:elasticloadbalancing:eu-west-1:123456789012:loadbalancer/net/lb/1"
	result := func(action, body string) answerFunc {
		return func(int, url.Values) (int, string) {
			return http.StatusOK, "<" + action + "Response><" + action + "Result>" + body + "</" + action + "Result></" + action + "Response>"
		}
	}
	aws := newFakeAWS(t)
	aws.on("elbv2.DescribeLoadBalancers", result("DescribeLoadBalancers",
		"<LoadBalancers><member><LoadBalancerArn>"+arn+"</LoadBalancerArn><LoadBalancerName>lb</LoadBalancerName><VpcId>vpc-1</VpcId><Type>network</Type></member></LoadBalancers>"))
	aws.on("elbv2.DescribeTargetGroups", result("DescribeTargetGroups",
		"<TargetGroups><member><TargetGroupArn>tg-1</TargetGroupArn><TargetGroupName>one</TargetGroupName><VpcId>vpc-1</VpcId><LoadBalancerArns><member>"+arn+"</member></LoadBalancerArns></member></TargetGroups>"))
	aws.on("elbv2.DescribeTargetHealth", func(int, url.Values) (int, string) { return refuseQuery("AccessDenied", "no") })
	p := provider(t)
	id := providers.ID{Kind: providers.KindLoadBalancer, Name: arn}
	c, err := p.Confirm(t.Context(), scopeOf(t, p), []providers.ID{id})
	if err != nil || c.Resources[id] == nil {
		t.Fatalf("confirmation %+v, %v", c, err)
	}
	r := c.Resources[id]
	if f, there := r.Fields.Lookup("/targets"); there || r.Closes("/targets") {
		t.Errorf("targets are told to be %q", f.Value.Text())
	}
	if _, there := r.Fields.Lookup("/listeners"); !there {
		t.Error("the listeners were read, and are not told")
	}
}

// The parts of a load balancer cost calls of a small bucket: none is read for a
// worker, and for a control-plane instance those of its own VPC alone.
func TestConfirmReadsTheLoadBalancersThatMatter(t *testing.T) {
	const arn = "arn:aws:elasticloadbalancing:eu-west-1:123456789012:loadbalancer/net/"
	instance := func(id, vpc, role string) string {
		return `<item><instancesSet><item><instanceId>` + id + `</instanceId><instanceState><name>running</name></instanceState><vpcId>` + vpc + `</vpcId><tagSet>` +
			`<item><key>sigs.k8s.io/cluster-api-provider-aws/role</key><value>` + role + `</value></item>` +
			`<item><key>sigs.k8s.io/cluster-api-provider-aws/cluster/c</key><value>owned</value></item></tagSet></item></instancesSet></item>`
	}
	balancer := func(name, vpc string) string {
		return "<member><LoadBalancerArn>" + arn + name + "</LoadBalancerArn><LoadBalancerName>" + name + "</LoadBalancerName><VpcId>" + vpc + "</VpcId><Type>network</Type></member>"
	}
	group := func(name, lb string) string {
		return "<member><TargetGroupArn>" + name + "</TargetGroupArn><TargetGroupName>" + name + "</TargetGroupName><LoadBalancerArns><member>" + arn + lb + "</member></LoadBalancerArns></member>"
	}
	tags := func(name string) string {
		return "<member><ResourceArn>" + arn + name + "</ResourceArn><Tags><member><Key>sigs.k8s.io/cluster-api-provider-aws/cluster/c</Key><Value>owned</Value></member></Tags></member>"
	}
	result := func(action, body string) answerFunc {
		return func(int, url.Values) (int, string) {
			return http.StatusOK, "<" + action + "Response><" + action + "Result>" + body + "</" + action + "Result></" + action + "Response>"
		}
	}
	for name, tc := range map[string]struct {
		instances string
		groups    []string // whose targets are read
	}{
		"a worker's":               {instance("i-1", "vpc-1", "node"), nil},
		"a control plane's":        {instance("i-1", "vpc-1", "control-plane"), []string{"tg-1"}},
		"both":                     {instance("i-1", "vpc-2", "control-plane") + instance("i-2", "vpc-1", "node"), []string{"tg-2"}},
		"one without a role's":     {instance("i-1", "vpc-1", ""), []string{"tg-1"}},
		"control planes' of two":   {instance("i-1", "vpc-2", "control-plane") + instance("i-2", "vpc-1", "control-plane"), []string{"tg-1", "tg-2"}},
		"one of another network's": {instance("i-1", "vpc-3", "control-plane"), nil},
		"one that says it is none": {instance("i-plane", "vpc-1", "node"), []string{"tg-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			aws := newFakeAWS(t)
			aws.on("ec2.DescribeInstances", func(int, url.Values) (int, string) {
				return http.StatusOK, ec2Answer("DescribeInstances", "<reservationSet>"+tc.instances+"</reservationSet>", "")
			})
			aws.on("elbv2.DescribeLoadBalancers", result("DescribeLoadBalancers", "<LoadBalancers>"+balancer("lb-1", "vpc-1")+balancer("lb-2", "vpc-2")+"</LoadBalancers>"))
			aws.on("elbv2.DescribeTags", result("DescribeTags", "<TagDescriptions>"+tags("lb-1")+tags("lb-2")+"</TagDescriptions>"))
			aws.on("elbv2.DescribeTargetGroups", result("DescribeTargetGroups", "<TargetGroups>"+group("tg-1", "lb-1")+group("tg-2", "lb-2")+"</TargetGroups>"))
			p := provider(t)
			plane := observedCluster("c1")
			plane.ControlPlane, plane.InfraCluster = true, plane.Infra
			plane.Infra = &infrav1.AWSMachine{Spec: infrav1.AWSMachineSpec{InstanceID: ptr("i-plane")}}
			if _, err := p.Scope(t.Context(), plane); err != nil {
				t.Fatal(err)
			}
			c, err := p.Confirm(t.Context(), scopeOf(t, p), instanceIDs("i-1", "i-2", "i-plane"))
			if err != nil || len(c.Resources) == 0 {
				t.Fatalf("confirmation %+v, %v", c, err)
			}
			var groups []string
			for _, call := range aws.of("elbv2.DescribeTargetHealth") {
				groups = append(groups, call.form.Get("TargetGroupArn"))
			}
			if slices.Sort(groups); !slices.Equal(groups, tc.groups) {
				t.Errorf("read the targets of %v, want %v", groups, tc.groups)
			}
			if n := aws.count("elbv2.DescribeLoadBalancers"); n > 0 && tc.groups == nil && strings.Contains(tc.instances, ">node<") {
				t.Errorf("%d lists of load balancers for a worker", n)
			}
		})
	}
}
