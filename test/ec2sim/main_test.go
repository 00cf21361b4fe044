package ec2sim_test

import (
	"errors"
	"flag"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	"go.uber.org/goleak"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// TestMain also checks, when all tests ran and passed, that each action
// succeeded at least once when an SDK client called it.
func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(all{m})
}

type all struct{ *testing.M }

func (m all) Run() int {
	code := m.M.Run()
	if code != 0 || flag.Lookup("test.run").Value.String() != "" || flag.Lookup("test.fuzz").Value.String() != "" {
		return code
	}
	for _, name := range ec2sim.ActionNames() {
		if !succeeded[name] {
			fmt.Println("no test called", name, "with success")
			code = 1
		}
	}
	return code
}

// succeeded are the actions of all tests' calls, by service:Action.
var succeeded = map[string]bool{}

const region = "us-west-2"

// world is a server with a clock that the test turns, and a client.
type world struct {
	*ec2sim.Server
	clock *clocktesting.FakePassiveClock
	ec2   *ec2.Client
}

func newWorld(t *testing.T, options ec2sim.Options) *world {
	t.Helper()
	w := &world{clock: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC))}
	options.Clock = w.clock
	w.Server = ec2sim.New(options)
	t.Cleanup(func() {
		for _, c := range w.Calls() {
			if c.Code == "" && c.Fate == "answered" {
				succeeded[c.Service+":"+c.Action] = true
			}
		}
		w.Close()
	})
	w.ec2 = ec2.NewFromConfig(w.config())
	return w
}

// config does not retry, so that each call and each error is seen as it is.
func (w *world) config() aws.Config { return once(w.Config(region)) }

func once(cfg aws.Config) aws.Config {
	cfg.Retryer = func() aws.Retryer { return aws.NopRetryer{} }
	return cfg
}

func (w *world) pass(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

// network is a VPC with one subnet, one group and one image.
type network struct{ vpc, subnet, group, image string }

func (w *world) network(t *testing.T) network {
	t.Helper()
	ctx := t.Context()
	v := must(w.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")}))(t)
	s := must(w.ec2.CreateSubnet(ctx, &ec2.CreateSubnetInput{VpcId: v.Vpc.VpcId, CidrBlock: aws.String("10.0.0.0/18")}))(t)
	g := must(w.ec2.CreateSecurityGroup(ctx, &ec2.CreateSecurityGroupInput{
		VpcId: v.Vpc.VpcId, GroupName: aws.String("nodes"), Description: aws.String("of nodes"),
	}))(t)
	image := must(w.AddImage(w.DefaultScope(region), ec2sim.Image{Name: "base"}))(t)
	return network{*v.Vpc.VpcId, *s.Subnet.SubnetId, *g.GroupId, image}
}

func (w *world) run(t *testing.T, n network, change ...func(*ec2.RunInstancesInput)) types.Instance {
	t.Helper()
	in := &ec2.RunInstancesInput{
		ImageId: &n.image, MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: &n.subnet,
		SecurityGroupIds: []string{n.group}, InstanceType: "m5.large",
	}
	for _, c := range change {
		c(in)
	}
	return must(w.ec2.RunInstances(t.Context(), in))(t).Instances[0]
}

func (w *world) instance(t *testing.T, id string) types.Instance {
	t.Helper()
	out := must(w.ec2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}}))(t)
	return out.Reservations[0].Instances[0]
}

// must gives the value or ends the test.
func must[T any](v T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// wantCode checks the code, and the HTTP status where it is not 0.
func wantCode(t *testing.T, err error, code string, status int) smithy.APIError {
	t.Helper()
	var problem smithy.APIError
	if !errors.As(err, &problem) {
		t.Fatalf("got %v, want an API error %s", err, code)
	}
	if problem.ErrorCode() != code {
		t.Fatalf("got %v, want code %s", err, code)
	}
	var answer interface{ HTTPStatusCode() int }
	if status != 0 && errors.As(err, &answer) && answer.HTTPStatusCode() != status {
		t.Errorf("%s has status %d, want %d (%s)", code, answer.HTTPStatusCode(), status, http.StatusText(status))
	}
	return problem
}
