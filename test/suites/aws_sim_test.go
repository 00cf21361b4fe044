package suites_test

import (
	"testing"

	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/ec2sim"
)

const simRegion = "eu-central-1"

// newEC2Sim starts a simulator with an image whose states change at once.
func newEC2Sim(t *testing.T) (server *ec2sim.Server, image string) {
	t.Helper()
	server = ec2sim.New(ec2sim.Options{Regions: []string{simRegion}, Delays: &ec2sim.Delays{}})
	t.Cleanup(server.Close)
	image, err := server.AddImage(server.DefaultScope(simRegion), ec2sim.Image{Name: "node"})
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
}
