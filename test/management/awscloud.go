package management

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// Region is where AWS clusters of the ground are, unless a test starts AWS with
// regions of its own.
const Region = "eu-central-1"

// AWSCloud is one test's AWS: an ec2sim, on which three parties have keys of
// their own, so that the call log tells them apart.
type AWSCloud struct {
	Server *ec2sim.Server
	// Region is the first of those that there are.
	Region string
	// Image is what machines boot from.
	Image string
	// Daemon is whom the program under test acts as; CAPA whom the stand-in
	// does; Operator whom the test does when it tampers.
	Daemon, CAPA, Operator ec2sim.Credential
	// Notice, if above zero, is how often the stand-in looks at instances that
	// run, as the real CAPA does at each resync, to write what has become of
	// them into the AWSMachines. The default of the real one is ten minutes,
	// which no test lasts, so zero is never.
	Notice time.Duration
}

// quickDelays let the states of EC2 be seen without a test waiting for them.
func quickDelays() *ec2sim.Delays {
	const blink = 200 * time.Millisecond
	return &ec2sim.Delays{Pending: blink, Stopping: blink, ShuttingDown: blink}
}

// AWS gives the test's AWS, started by the first call.
func (g *Ground) AWS() *AWSCloud {
	g.t.Helper()
	return g.StartAWS(ec2sim.Options{})
}

// StartAWS is [Ground.AWS] with options of the simulator, for a test's first
// call. Credentials and, if there are none, regions and delays are the ground's.
func (g *Ground) StartAWS(o ec2sim.Options) *AWSCloud {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.aws != nil {
		return g.aws
	}
	key := func(id, user string) ec2sim.Credential {
		c := ec2sim.DefaultCredential()
		c.AccessKeyID, c.ARN = id, "arn:aws:iam::"+c.Account+":user/"+user
		return c
	}
	a := &AWSCloud{
		Daemon: key("AKIAHOLDFASTDAEMON00", "holdfast"), CAPA: key("AKIACAPACONTROLLER00", "capa"), Operator: key("AKIAOPERATOR00000000", "operator"),
	}
	if len(o.Regions) == 0 {
		o.Regions = []string{Region}
	}
	a.CAPA.Unthrottled, a.Operator.Unthrottled = true, true // buckets, where there are any, are the daemon's
	a.Region, o.Credentials = o.Regions[0], []ec2sim.Credential{a.Daemon, a.CAPA, a.Operator}
	if o.Delays == nil {
		o.Delays = quickDelays()
	}
	a.Server = ec2sim.New(o)
	var err error
	if a.Image, err = a.Server.AddImage(a.scope(), ec2sim.Image{Name: "node"}); err != nil {
		a.Server.Close()
		g.t.Fatalf("start AWS: %v", err)
	}
	g.aws = a
	return a
}

func (a *AWSCloud) scope() ec2sim.Scope {
	return ec2sim.Scope{Account: a.Daemon.Account, Region: a.Region}
}

// Clients are the APIs as one of the parties uses them.
func (a *AWSCloud) Clients(who ec2sim.Credential) awscluster.Clients {
	return awscluster.ClientsFrom(a.Server.ConfigFor(who, a.Region))
}

// Calls are those of the program under test, in order.
func (a *AWSCloud) Calls() []ec2sim.Call {
	return slices.DeleteFunc(a.Server.Calls(), func(c ec2sim.Call) bool { return c.AccessKeyID != a.Daemon.AccessKeyID })
}

// Mutations are those of its calls that can change something.
func (a *AWSCloud) Mutations() []ec2sim.Call {
	return slices.DeleteFunc(a.Calls(), func(c ec2sim.Call) bool { return !c.Mutating })
}

// environ leads the SDK to the simulator, away from all settings of the
// machine.
func (a *AWSCloud) environ() map[string]string {
	return map[string]string{
		"AWS_ENDPOINT_URL":            a.Server.URL(),
		"AWS_ACCESS_KEY_ID":           a.Daemon.AccessKeyID,
		"AWS_SECRET_ACCESS_KEY":       a.Daemon.SecretAccessKey,
		"AWS_SESSION_TOKEN":           "",
		"AWS_REGION":                  a.Region,
		"AWS_PROFILE":                 "",
		"AWS_CONFIG_FILE":             os.DevNull,
		"AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
		"AWS_EC2_METADATA_DISABLED":   "true",
	}
}

// powers implements [cloud].
func (a *AWSCloud) powers(context.Context) (map[string]power, error) {
	states, err := a.Server.InstanceStates(a.scope())
	if err != nil {
		return nil, err
	}
	out := make(map[string]power, len(states))
	for id, state := range states {
		switch state {
		case "running":
			out[id] = powerOn
		case "terminated", "shutting-down":
			out[id] = powerGone
		default:
			out[id] = powerOff
		}
	}
	return out, nil
}

// stop, start and end implement [cloud].
func (a *AWSCloud) stop(ctx context.Context, id string) error {
	_, err := a.Clients(a.Operator).EC2.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: []string{id}})
	return named(err, "stop", id)
}

func (a *AWSCloud) start(ctx context.Context, id string) error {
	c := a.Clients(a.Operator).EC2
	if err := ec2.NewInstanceStoppedWaiter(c, func(o *ec2.InstanceStoppedWaiterOptions) {
		o.MinDelay, o.MaxDelay = soon, soon
	}).Wait(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}}, time.Minute); err != nil {
		return named(err, "wait for the stop of", id)
	}
	_, err := c.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: []string{id}})
	return named(err, "start", id)
}

func (a *AWSCloud) end(ctx context.Context, id string) error {
	_, err := a.Clients(a.Operator).EC2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	return named(err, "terminate", id)
}

func named(err error, what, id string) error {
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, id, err)
	}
	return nil
}

// Instance reads an instance as the operator.
func (a *AWSCloud) Instance(ctx context.Context, id string) (*types.Instance, error) {
	out, err := a.Clients(a.Operator).EC2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if err != nil {
		return nil, fmt.Errorf("describe %s: %w", id, err)
	}
	for _, r := range out.Reservations {
		if len(r.Instances) > 0 {
			return &r.Instances[0], nil
		}
	}
	return nil, fmt.Errorf("describe %s: no such instance", id)
}

// Tag sets a tag of an instance as the operator; an empty value takes it away.
func (a *AWSCloud) Tag(ctx context.Context, id, key, value string) error {
	c := a.Clients(a.Operator).EC2
	tags := []types.Tag{{Key: aws.String(key), Value: aws.String(value)}}
	if value == "" {
		_, err := c.DeleteTags(ctx, &ec2.DeleteTagsInput{Resources: []string{id}, Tags: []types.Tag{{Key: aws.String(key)}}})
		return named(err, "untag", id)
	}
	_, err := c.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: tags})
	return named(err, "tag", id)
}
