package suites_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"

	awsexamples "github.com/holdfast-io/holdfast/examples/aws"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/aws"
	"github.com/holdfast-io/holdfast/providers/providertest"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/moto"
)

// awsReads names the call that a kind, or a part of one, is read with.
var awsReads = map[string]string{
	"Instance": "DescribeInstances", "Instance/scheduledEvents": "DescribeInstanceStatus", "Instance/rootVolume": "DescribeVolumes",
	"Instance/loadBalancers": "DescribeTargetHealth", "Volume": "DescribeVolumes", "NetworkInterface": "DescribeNetworkInterfaces",
	"SecurityGroup": "DescribeSecurityGroups", "VPC": "DescribeVpcs", "VPC/enableDnsSupport": "DescribeVpcAttribute",
	"Subnet": "DescribeSubnets", "Subnet/routeTableId": "DescribeRouteTables", "Subnet/networkAclId": "DescribeNetworkAcls",
	"InternetGateway": "DescribeInternetGateways", "NATGateway": "DescribeNatGateways", "RouteTable": "DescribeRouteTables",
	"NetworkACL": "DescribeNetworkAcls", "LoadBalancer": "DescribeLoadBalancers",
}

// awsFailKinds gives the kinds that can be made to fail. A cluster behind a
// classic load balancer has no target groups to read.
func awsFailKinds(env *awscluster.Environment) []string {
	kinds := make([]string, 0, len(awsReads))
	for kind, action := range awsReads {
		if action != "DescribeTargetHealth" || len(env.TargetGroups) > 0 {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// TestAWSContractOnSimulator holds the provider to the contract suite.
func TestAWSContractOnSimulator(t *testing.T) {
	for _, manifest := range []string{"prod-eu.yaml", "dev-classic.yaml"} {
		t.Run(manifest, func(t *testing.T) {
			providertest.Run(t, providertest.Harness{
				Registration: aws.Registration(), NotTampered: awsNotTamperedOf(manifest), Volatile: awsVolatile,
				New: func(t *testing.T) *providertest.Environment {
					server, image, clock := newClockedEC2Sim(t, &ec2sim.Delays{})
					env, cluster := awsContract(t, manifest, awscluster.ClientsFrom(server.Config(simRegion)), awscluster.Options{Simulator: server, Image: image})
					env.Tampers = awsTampers(cluster, manifest, func(tamper *awscluster.Tamper) string { return tamper.NotOnSim },
						func() { clock.skip(restUntilModified) })
					env.Mutations = func() int { return len(server.Mutations()) }
					env.FailKind = func(_ *testing.T, kind string) func() {
						return server.InjectFault(ec2sim.Fault{Action: awsReads[kind], Kind: ec2sim.FaultError, Code: "UnauthorizedOperation", Status: http.StatusForbidden})
					}
					return env
				},
			})
		})
	}
}

// TestAWSContractOnMoto holds the provider to the same suite on moto.
func TestAWSContractOnMoto(t *testing.T) {
	for _, manifest := range []string{"prod-eu.yaml", "dev-classic.yaml"} {
		t.Run(manifest, func(t *testing.T) {
			providertest.Run(t, providertest.Harness{
				Registration: aws.Registration(), NotTampered: awsNotTamperedOnMoto(manifest), Volatile: awsVolatile,
				New: func(t *testing.T) *providertest.Environment {
					server, err := moto.Start(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = server.Close() })
					gate := newAWSGate(t, server.URL)
					pointAWSAt(t, gate.url)
					env, cluster := awsContract(t, manifest, awscluster.NewClients(gate.url, simRegion), awscluster.Options{OnMoto: true})
					env.Tampers = awsTampers(cluster, manifest, notRepairedOnMoto, func() {})
					env.Mutations, env.FailKind = gate.mutations, gate.refuse
					return env
				},
			})
		})
	}
}

// awsContract makes an example's cluster and what the suite asks about it.
func awsContract(t *testing.T, manifest string, clients awscluster.Clients, options awscluster.Options) (*providertest.Environment, *awscluster.Environment) {
	t.Helper()
	m, err := awscluster.Load(awsexamples.Files, manifest)
	if err != nil {
		t.Fatal(err)
	}
	options.Manifest = m
	env, err := awscluster.Build(t.Context(), clients, options)
	if err != nil {
		t.Fatal(err)
	}
	provider, owners := loadAWS(t, env, aws.WithClock(newHurriedClock()))
	return &providertest.Environment{
		Provider: provider, Owners: owners, FailKinds: awsFailKinds(env),
		Absent: []providers.ID{
			{Kind: "Instance", Name: "i-0fffffffffffffff0"}, {Kind: "Volume", Name: "vol-0fffffffffffffff0"},
			{Kind: "NetworkInterface", Name: "eni-0fffffffffffffff0"}, {Kind: "SecurityGroup", Name: "sg-0fffffffffffffff0"},
			{Kind: "VPC", Name: "vpc-0fffffffffffffff0"}, {Kind: "Subnet", Name: "subnet-0fffffffffffffff0"},
			{Kind: "InternetGateway", Name: "igw-0fffffffffffffff0"}, {Kind: "InternetGateway", Name: "eigw-0fffffffffffffff0"},
			{Kind: "NATGateway", Name: "nat-0fffffffffffffff0"}, {Kind: "RouteTable", Name: "rtb-0fffffffffffffff0"},
			{Kind: "NetworkACL", Name: "acl-0fffffffffffffff0"}, {Kind: "LoadBalancer", Name: "classic/none"},
			{Kind: "LoadBalancer", Name: "arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/net/none/0123456789abcdef"},
		},
		Remove: func(t *testing.T) providers.ID {
			t.Helper()
			id := sdk.ToString(env.AWSMachines[len(env.AWSMachines)-1].Spec.InstanceID)
			if _, err := env.EC2.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}}); err != nil {
				t.Fatal(err)
			}
			return providers.ID{Kind: "Instance", Name: id}
		},
	}, env
}

// awsGate stands before an endpoint that keeps no log and takes no faults: it
// counts the mutating calls that pass, and can refuse others.
type awsGate struct {
	url string

	mu      sync.Mutex
	mutated int
	refused map[string]bool
}

func newAWSGate(t *testing.T, endpoint string) *awsGate {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	g := &awsGate{refused: map[string]bool{}}
	proxy := httputil.NewSingleHostReverseProxy(target)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		form, _ := url.ParseQuery(string(body))
		if g.pass(form.Get("Action")) {
			r.Body = io.NopCloser(bytes.NewReader(body))
			proxy.ServeHTTP(w, r)
			return
		}
		const inner = "<Error><Code>UnauthorizedOperation</Code><Message>refused by the test</Message></Error>"
		w.WriteHeader(http.StatusForbidden)
		if strings.Contains(r.Header.Get("Authorization"), "/ec2/aws4_request") {
			_, _ = fmt.Fprintf(w, "<Response><Errors>%s</Errors><RequestID>1</RequestID></Response>", inner)
			return
		}
		_, _ = fmt.Fprintf(w, "<ErrorResponse>%s<RequestId>1</RequestId></ErrorResponse>", inner)
	}))
	t.Cleanup(server.Close)
	g.url = server.URL
	return g
}

// pass counts a call and says whether it may go on.
func (g *awsGate) pass(action string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.refused[action] {
		return false
	}
	if !strings.HasPrefix(action, "Describe") && !strings.HasPrefix(action, "Get") && !strings.HasPrefix(action, "List") {
		g.mutated++
	}
	return true
}

func (g *awsGate) mutations() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mutated
}

func (g *awsGate) refuse(_ *testing.T, kind string) (restore func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	action := awsReads[kind]
	g.refused[action] = true
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.refused, action)
	}
}
