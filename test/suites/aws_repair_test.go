package suites_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/aws"
	"github.com/holdfast-io/holdfast/providers/providertest"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// awsRepairable are the tampers whose damage Apply mends, all of it, without
// anybody's objects being edited. TestAWSApply plays all tampers, these too.
var awsRepairable = []string{
	"instance stopped by a person", "control-plane instance stopped by a person", "instance stopped by AWS",
	"instance type changed",
	"metadata tokens made optional", "metadata hop limit raised and tags shown", "metadata endpoint switched off",
	"tag changed", "tags removed", "name tag changed", "ownership tags removed",
	"tags of a subnet removed", "tags of gateways and route tables removed", "ownership tag of the VPC removed",
	"tag of a security group changed", "tags of the load balancer removed",
	"security group detached from an instance", "default security group attached to an instance",
	"instance profile replaced", "instance profile taken away",
	"control plane deregistered from its target group", "control plane registered on another port",
	"control plane deregistered from the classic load balancer",
	"root volume of another type", "root volume slowed down", "further volume of another type and slower",
	"DNS host names of the VPC switched off", "DNS support of the VPC switched off",
	"public subnet stops giving public addresses", "internet gateway detached",
	"subnet moved to another network ACL", "answers denied by the default network ACL", "traffic denied by the default network ACL",
	"default route of a private subnet deleted", "private subnet opened to the internet", "private route sent to an instance",
	"private subnet put into a public route table",
	"SSH opened to the world", "everything opened to one address", "etcd rule revoked", "node ports narrowed to one host",
	"rules given back to the default group",
	"listener deleted", "listener of the classic load balancer deleted",
	"health check of the target group changed", "health check of the target group sent elsewhere",
	"health check of the classic load balancer changed", "idle time of the classic load balancer shortened",
	"load balancer taken out of a zone", "cross-zone balancing switched off", "security group of the load balancer swapped",
}

// awsEdited are rows that drift only when an object is edited: TestAWSApply
// plays those.
const awsEdited = "drifts only when an object is edited: TestAWSApply"

var awsNotTampered = map[string]string{
	"Instance/iamInstanceProfileArn":              awsEdited,
	"Instance/rootVolume/size":                    awsEdited,
	"Instance/nonRootVolumes/DEVICE/size":         awsEdited,
	"VPC/cidrBlocks":                              awsEdited,
	"NetworkInterface/instanceId":                 awsEdited,
	"NetworkInterface/deviceIndex":                awsEdited,
	"LoadBalancer/healthCheck/target":             "of a classic load balancer",
	"LoadBalancer/healthCheck/interval":           "of a classic load balancer",
	"LoadBalancer/healthCheck/timeout":            "of a classic load balancer",
	"LoadBalancer/attributes/idleTimeout":         "of a classic load balancer",
	"InternetGateway/vpcId":                       "EC2 refuses it while NAT gateways stand; done on moto",
	"LoadBalancer/healthCheck/healthyThreshold":   "of a classic load balancer",
	"LoadBalancer/healthCheck/unhealthyThreshold": "of a classic load balancer",
}

// awsClassicTampered are the rows that the classic example drifts.
var awsClassicTampered = []string{
	"LoadBalancer/healthCheck/target", "LoadBalancer/healthCheck/interval", "LoadBalancer/healthCheck/timeout",
	"LoadBalancer/healthCheck/healthyThreshold", "LoadBalancer/healthCheck/unhealthyThreshold",
	"LoadBalancer/attributes/idleTimeout", "LoadBalancer/listeners", "Instance/loadBalancers/NAME",
}

func awsNotTamperedOf(manifest string) map[string]string {
	if manifest == awscluster.DefaultExample {
		return awsNotTampered
	}
	out := map[string]string{}
	for _, row := range aws.Registration().Catalog {
		if key := row.Kind + row.Path; !slices.Contains(awsClassicTampered, key) {
			out[key] = "tampered with in " + awscluster.DefaultExample
		}
	}
	return out
}

// awsVolatile change with every stop and start.
var awsVolatile = map[string]string{
	"Instance/launchTime":  "EC2 gives the time of the last start",
	"Instance/stateReason": "EC2 gives the reason of the last stop",
}

// awsTampers gives the repairable tampers of an example's cluster. skip says
// why one cannot be played here; settled is called after each.
func awsTampers(env *awscluster.Environment, manifest string, skip func(*awscluster.Tamper) string, settled func()) (out []providertest.Tamper) {
	for _, tamper := range awscluster.Tampers() {
		if tamper.On() != manifest || tamper.Variant != "" || !slices.Contains(awsRepairable, tamper.Name) || skip(&tamper) != "" {
			continue
		}
		out = append(out, providertest.Tamper{Name: tamper.Name, Do: func(t *testing.T) {
			t.Helper()
			if _, err := tamper.Do(t.Context(), env); err != nil {
				t.Fatalf("tamper %s: %v", tamper.Name, err)
			}
			settled()
		}})
	}
	return out
}

// simClock is the real time and what was skipped of it.
type simClock struct {
	mu      sync.Mutex
	skipped time.Duration
}

func (c *simClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.skipped)
}

func (c *simClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

func (c *simClock) skip(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.skipped += d
}

// hurriedClock runs faster than the world, so that a suite which reads a
// hundred times does not wait for AWS's quotas.
type hurriedClock struct {
	clock.RealClock
	start time.Time
}

const hurry = 100

func newHurriedClock() hurriedClock { return hurriedClock{start: time.Now()} }

func (c hurriedClock) Now() time.Time                       { return c.start.Add(hurry * time.Since(c.start)) }
func (c hurriedClock) Since(t time.Time) time.Duration      { return c.Now().Sub(t) }
func (c hurriedClock) NewTimer(d time.Duration) clock.Timer { return c.RealClock.NewTimer(d / hurry) }

// restUntilModified is longer than a volume must rest between modifications.
const restUntilModified = 7 * time.Hour

// newClockedEC2Sim is newEC2Sim on a clock that can be moved.
func newClockedEC2Sim(t *testing.T, delays *ec2sim.Delays) (server *ec2sim.Server, image string, clock *simClock) {
	t.Helper()
	clock = &simClock{}
	server, image = startEC2Sim(t, ec2sim.Options{Regions: []string{simRegion}, Delays: delays, Clock: clock})
	return server, image, clock
}

var _ providers.Applier = (*aws.Provider)(nil)

// What moto cannot show after a repair that is right for EC2.
const (
	motoForgets  = "moto forgets the metadata options that a call leaves out"
	motoHidesENI = "moto's DescribeInstances goes on showing the groups of the launch"
	motoNoPlay   = "moto cannot play it"
)

func notRepairedOnMoto(tamper *awscluster.Tamper) string {
	return cmp.Or(tamper.NotOnMoto, tamper.NotMendedOnMoto)
}

func awsNotTamperedOnMoto(manifest string) map[string]string {
	out := maps.Clone(awsNotTamperedOf(manifest))
	if manifest != awscluster.DefaultExample {
		return out
	}
	delete(out, "InternetGateway/vpcId")
	for _, name := range []string{"httpTokens", "httpEndpoint", "httpPutResponseHopLimit", "instanceMetadataTags"} {
		out["Instance/metadataOptions/"+name] = motoForgets
	}
	out["Instance/securityGroups"] = motoHidesENI
	for _, path := range []string{"rootVolume/iops", "rootVolume/throughput", "nonRootVolumes/DEVICE/type", "nonRootVolumes/DEVICE/iops", "nonRootVolumes/DEVICE/throughput"} {
		out["Instance/"+path] = motoNoPlay
	}
	return out
}

// documentedActions gives all actions of a documented IAM policy.
func documentedActions(t *testing.T, name string) (out []string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	var policy struct {
		Statement []struct{ Action []string }
	}
	if err := json.Unmarshal(data, &policy); err != nil {
		t.Fatal(err)
	}
	for _, s := range policy.Statement {
		out = append(out, s.Action...)
	}
	return out
}
