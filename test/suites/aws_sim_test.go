package suites_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/aws"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/ec2sim"
)

const simRegion = "eu-central-1"

// newEC2Sim starts a simulator whose states change at once. Its image calls the
// root device by another name than moto does (C22).
func newEC2Sim(t *testing.T) (server *ec2sim.Server, image string) {
	t.Helper()
	return startEC2Sim(t, ec2sim.Options{Regions: []string{simRegion}, Delays: &ec2sim.Delays{}})
}

func startEC2Sim(t *testing.T, options ec2sim.Options) (server *ec2sim.Server, image string) {
	t.Helper()
	server = ec2sim.New(options)
	t.Cleanup(server.Close)
	image, err := server.AddImage(server.DefaultScope(simRegion), ec2sim.Image{Name: "node", RootDevice: "/dev/xvda"})
	if err != nil {
		t.Fatal(err)
	}
	pointAWSAt(t, server.URL())
	credential := server.Credentials()[0]
	t.Setenv("AWS_ACCESS_KEY_ID", credential.AccessKeyID)
	t.Setenv("AWS_SECRET_ACCESS_KEY", credential.SecretAccessKey)
	return server, image
}

// TestAWSTampersOnSimulator does on ec2sim what TestAWSTampersOnMoto does on
// moto, and what moto cannot express besides. The simulator's log proves that
// no scan writes anything.
func TestAWSTampersOnSimulator(t *testing.T) {
	server, image := newEC2Sim(t)
	cloud := &awsCloud{
		options: awscluster.Options{Simulator: server, Image: image},
		clients: func(region string) awscluster.Clients { return awscluster.ClientsFrom(server.Config(region)) },
		skip:    func(tamper *awscluster.Tamper) string { return tamper.NotOnSim },
		scanned: func(t *testing.T, scan func()) {
			server.ResetCalls()
			scan()
			if len(server.Calls()) == 0 {
				t.Error("the simulator was not asked anything")
			}
			for _, call := range server.Mutations() {
				t.Errorf("a scan made the mutating call %s:%s", call.Service, call.Action)
			}
		},
	}
	cloud.run(t)
	if !t.Failed() && cloud.playedAll() { // a part that -run selects says nothing
		cloud.checkCatalog(t)
	}
}

// playedAll reports whether every tamper that can be done here was done.
func (c *awsCloud) playedAll() bool {
	tampers := awscluster.Tampers()
	can := slices.DeleteFunc(tampers, func(tamper awscluster.Tamper) bool { return c.skip(&tamper) != "" })
	return c.played == len(can)
}

// untampered are the catalog's fields that no tamper touches, with the reason.
// Whatever else the catalog promises must have drifted before our eyes.
var untampered = map[[2]string]string{
	{"Instance", "/cpuOptions/amdSevSnp"}:            "EC2 reports it for some instance types only",
	{"Instance", "/cpuOptions/nestedVirtualization"}: "EC2 reports it for some instance types only",
	{"Instance", "/userData"}:                        "not compared: informational after boot",
	{"LoadBalancer", "/type"}:                        "immutable: another type is another load balancer",
	{"LoadBalancer", "/vpcId"}:                       "immutable",
	{"LoadBalancer", "/targetGroups/NAME/protocol"}:  "immutable",
	{"LoadBalancer", "/targetGroups/NAME/port"}:      "immutable",
	{"VPC", "/state"}:                                "EC2 refuses to delete a VPC with a cluster in it",
	{"Subnet", "/vpcId"}:                             "immutable",
	{"Subnet", "/availabilityZone"}:                  "immutable",
	{"InternetGateway", "/vpcId"}:                    "EC2 refuses it while NAT gateways stand; done on moto",
	{"InternetGateway", "/egressOnly"}:               "immutable: the two kinds have ids of their own",
	{"NATGateway", "/vpcId"}:                         "immutable",
	{"NATGateway", "/subnetId"}:                      "immutable",
	{"RouteTable", "/vpcId"}:                         "immutable",
	{"NetworkACL", "/state"}:                         "EC2 refuses to delete a default network ACL",
	{"SecurityGroup", "/vpcId"}:                      "immutable",
}

// checkCatalog fails for every field of the provider's catalog that neither
// drifted in this run nor has a reason.
func (c *awsCloud) checkCatalog(t *testing.T) {
	t.Helper()
	for _, row := range aws.Registration().Catalog {
		_, excused := untampered[[2]string{row.Kind, row.Path}]
		drifted := false
		for at := range c.drifted {
			drifted = drifted || at[0] == row.Kind && matchesRow(row.Path, at[1])
		}
		switch {
		case !drifted && !excused:
			t.Errorf("catalog row %s %s: no tamper makes it drift, and no reason is given", row.Kind, row.Path)
		case drifted && excused:
			t.Errorf("catalog row %s %s: excused, and drifts all the same", row.Kind, row.Path)
		}
	}
}

// matchesRow matches a pointer with a row's, in which an upper-case segment
// stands for any.
func matchesRow(row, path string) bool {
	want, have := providers.Segments(row), providers.Segments(path)
	return slices.EqualFunc(want, have, func(w, h string) bool { return w == h || w == strings.ToUpper(w) })
}
