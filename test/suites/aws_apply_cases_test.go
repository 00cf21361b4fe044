package suites_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// newAWSApplyOn makes the default example's cluster with the given delays.
func newAWSApplyOn(t *testing.T, delays *ec2sim.Delays) *awsApplyCase {
	t.Helper()
	variants := awscluster.Variants()
	at := slices.IndexFunc(variants, func(v awscluster.Variant) bool { return v.Name == "" && v.Manifest == awscluster.DefaultExample })
	return newAWSApplyCase(t, &variants[at], delays)
}

// play does a tamper by its name.
func (c *awsApplyCase) play(t *testing.T, name string) {
	t.Helper()
	tampers := awscluster.Tampers()
	at := slices.IndexFunc(tampers, func(tamper awscluster.Tamper) bool { return tamper.Name == name })
	if at < 0 {
		t.Fatalf("no tamper is called %q", name)
	}
	if _, err := tampers[at].Do(t.Context(), c.env); err != nil {
		t.Fatal(err)
	}
}

// apply makes the one change that is due of a kind, with one call.
func (c *awsApplyCase) apply(t *testing.T, change *providers.Change) error {
	t.Helper()
	provider, owners := c.load(t) // another process each time
	scope, err := provider.Scope(t.Context(), owners[0])
	if err != nil {
		t.Fatal(err)
	}
	return provider.Apply(t.Context(), scope, *change)
}

// due gives the change that the first drifted resource of a kind needs.
func (c *awsApplyCase) due(t *testing.T, kind string) *providers.Change {
	t.Helper()
	for _, f := range c.scan(t) {
		if change, ok := changeOf(&f); ok && change.Resource.Kind == kind {
			return &change
		}
	}
	t.Fatalf("no %s needs a change", kind)
	return nil
}

// drifted fails for whatever is not in sync.
func (c *awsApplyCase) expectInSync(t *testing.T) {
	t.Helper()
	for _, f := range c.scan(t) {
		if f.Status != detector.InSync && f.Status != detector.Foreign {
			t.Errorf("left: %s", awscluster.FindingOf(&f))
		}
	}
}

func (c *awsApplyCase) instance(t *testing.T, id string) *ec2types.Instance {
	t.Helper()
	out, err := c.env.EC2.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{InstanceIds: []string{id}})
	if err != nil {
		t.Fatal(err)
	}
	return &out.Reservations[0].Instances[0]
}

func reasonOf(err error) string {
	var refusal *providers.ApplyError
	switch {
	case errors.As(err, &refusal):
		return refusal.Reason
	case errors.Is(err, providers.ErrPending):
		return "pending"
	case err != nil:
		return "again"
	default:
		return ""
	}
}

const startAgain = "drift.holdfast.io/start-again"

func marked(in *ec2types.Instance) bool {
	return slices.ContainsFunc(in.Tags, func(tag ec2types.Tag) bool { return sdk.ToString(tag.Key) == startAgain })
}

// declareType wants another type of the first worker.
func (c *awsApplyCase) declareType(t *testing.T) (id string) {
	t.Helper()
	m := c.env.AWSMachines[len(c.env.AWSMachines)-1]
	m.Spec.InstanceType = "m6i.2xlarge"
	return *m.Spec.InstanceID
}

// The type changes in steps, each by another process: nothing but the cloud
// says how far the one before has come.
func TestAWSApplyChangesTypeAcrossCrashes(t *testing.T) {
	c := newAWSApplyOn(t, &ec2sim.Delays{Stopping: 30 * time.Second})
	id := c.declareType(t)
	change := c.due(t, providers.KindInstance)
	c.server.ResetCalls()
	for range 2 {
		if got := reasonOf(c.apply(t, change)); got != "pending" {
			t.Fatalf("while it stops: %q", got)
		}
	}
	if in := c.instance(t, id); in.State.Name != ec2types.InstanceStateNameStopping || !marked(in) {
		t.Fatalf("instance is %s, marked %v", in.State.Name, marked(in))
	}
	c.clock.skip(time.Minute)
	if err := c.apply(t, change); err != nil {
		t.Fatal(err)
	}
	in := c.instance(t, id)
	if in.State.Name != ec2types.InstanceStateNameRunning || string(in.InstanceType) != "m6i.2xlarge" || marked(in) {
		t.Errorf("instance is %s, of type %s, marked %v", in.State.Name, in.InstanceType, marked(in))
	}
	counts := c.server.CallCounts()
	for _, action := range []string{"StopInstances", "ModifyInstanceAttribute", "StartInstances", "CreateTags", "DeleteTags"} {
		if n := counts["ec2:"+action]; n != 1 {
			t.Errorf("%d calls of %s, want 1", n, action)
		}
	}
	c.expectInSync(t)
}

// Killed between the change of the type and the start: the next call starts
// what was stopped, although nothing else is due.
func TestAWSApplyStartsWhatItStopped(t *testing.T) {
	c := newAWSApplyOn(t, &ec2sim.Delays{})
	id := c.declareType(t)
	change := c.due(t, providers.KindInstance)
	broken := c.server.InjectFault(ec2sim.Fault{Action: "StartInstances", Kind: ec2sim.FaultError, Code: "InsufficientInstanceCapacity", Status: 500})
	if got := reasonOf(c.apply(t, change)); got != "pending" {
		t.Fatalf("first: %q", got)
	}
	if got := reasonOf(c.apply(t, change)); got != "again" {
		t.Fatalf("without capacity: %q", got)
	}
	if in := c.instance(t, id); in.State.Name != ec2types.InstanceStateNameStopped || string(in.InstanceType) != "m6i.2xlarge" {
		t.Fatalf("instance is %s, of type %s", in.State.Name, in.InstanceType)
	}
	broken()
	if err := c.apply(t, change); err != nil {
		t.Fatal(err)
	}
	if in := c.instance(t, id); in.State.Name != ec2types.InstanceStateNameRunning || marked(in) {
		t.Errorf("instance is %s, marked %v", in.State.Name, marked(in))
	}
}

// A type that EC2 refuses leaves the instance running.
func TestAWSApplyRefusedTypeLeavesItRunning(t *testing.T) {
	c := newAWSApplyOn(t, &ec2sim.Delays{})
	id := c.declareType(t)
	change := c.due(t, providers.KindInstance)
	c.server.InjectFault(ec2sim.Fault{Action: "ModifyInstanceAttribute", Kind: ec2sim.FaultError, Code: "InvalidInstanceAttributeValue", Status: 400})
	_ = c.apply(t, change)
	if got := reasonOf(c.apply(t, change)); got != providers.ReasonRefused {
		t.Errorf("got %q", got)
	}
	if in := c.instance(t, id); in.State.Name != ec2types.InstanceStateNameRunning || marked(in) {
		t.Errorf("instance is %s, marked %v", in.State.Name, marked(in))
	}
}

// What a person has stopped is changed and stays stopped: starting it is
// another field, and may be against the policy.
func TestAWSApplyLeavesStoppedWhatOthersStopped(t *testing.T) {
	c := newAWSApplyOn(t, &ec2sim.Delays{})
	id := c.declareType(t)
	if _, err := c.env.EC2.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}}); err != nil {
		t.Fatal(err)
	}
	change := c.due(t, providers.KindInstance)
	change.Fields = slices.DeleteFunc(change.Fields, func(f providers.FieldChange) bool { return f.Path != "/instanceType" })
	if err := c.apply(t, change); err != nil {
		t.Fatal(err)
	}
	if in := c.instance(t, id); in.State.Name != ec2types.InstanceStateNameStopped || string(in.InstanceType) != "m6i.2xlarge" {
		t.Errorf("instance is %s, of type %s", in.State.Name, in.InstanceType)
	}
}

// C60: protection stands, the repair says so, and nothing is left of the
// attempt.
func TestC60StopProtectionIsNotTakenOff(t *testing.T) {
	c := newAWSApplyOn(t, &ec2sim.Delays{})
	id := c.declareType(t)
	if _, err := c.env.EC2.ModifyInstanceAttribute(t.Context(), &ec2.ModifyInstanceAttributeInput{
		InstanceId: &id, DisableApiStop: &ec2types.AttributeBooleanValue{Value: sdk.Bool(true)},
	}); err != nil {
		t.Fatal(err)
	}
	if got := reasonOf(c.apply(t, c.due(t, providers.KindInstance))); got != providers.ReasonProtected {
		t.Errorf("got %q", got)
	}
	if in := c.instance(t, id); in.State.Name != ec2types.InstanceStateNameRunning || marked(in) {
		t.Errorf("instance is %s, marked %v", in.State.Name, marked(in))
	}
}

// TestAWSApplyErrors sorts what AWS answers to a changing call.
func TestAWSApplyErrors(t *testing.T) {
	c := newAWSApplyOn(t, &ec2sim.Delays{})
	c.play(t, "tag changed")
	change := c.due(t, providers.KindInstance)
	for code, want := range map[string]struct {
		status int
		reason string
	}{
		"UnauthorizedOperation":       {403, providers.ReasonNotPermitted},
		"OperationNotPermitted":       {400, providers.ReasonProtected},
		"InvalidParameterValue":       {400, providers.ReasonRefused},
		"InvalidParameterCombination": {400, providers.ReasonRefused},
		"IncorrectInstanceState":      {400, providers.ReasonRefused},
		"TagLimitExceeded":            {400, providers.ReasonRefused},
		"InvalidInstanceID.NotFound":  {400, providers.ReasonMoved},
		"RequestLimitExceeded":        {503, "again"},
		"InternalError":               {500, "again"},
		"Unavailable":                 {503, "again"},
		"RequestExpired":              {400, "again"},
	} {
		t.Run(code, func(t *testing.T) {
			message := "refused\x1b[31m\n" + strings.Repeat("x", 1000) + " Encoded authorization failure message: " + strings.Repeat("y", 50)
			defer c.server.InjectFault(ec2sim.Fault{Action: "CreateTags", Kind: ec2sim.FaultError, Code: code, Status: want.status, Message: message})()
			first, second := c.apply(t, change), c.apply(t, change)
			if got := reasonOf(first); got != want.reason {
				t.Errorf("got %q, %v", got, first)
			}
			if want.reason != "again" && (first.Error() != second.Error() || len(first.Error()) > 500 || strings.ContainsAny(first.Error(), "\x1b\n") || strings.Contains(first.Error(), "Encoded")) {
				t.Errorf("not fit for a condition: %q, then %q", first, second)
			}
		})
	}
	if err := c.apply(t, change); err != nil {
		t.Error(err)
	}
	c.expectInSync(t)
}

// An answer is lost after the cloud has acted, for each changing call once. The
// SDK asks again, AWS says that it is so already, and that is success.
func TestAWSApplySurvivesLostAnswers(t *testing.T) {
	for _, tamper := range awscluster.Tampers() {
		if !slices.Contains(awsRepairable, tamper.Name) || tamper.NotOnSim != "" {
			continue
		}
		t.Run(tamper.Name, func(t *testing.T) {
			variants := awscluster.Variants()
			at := slices.IndexFunc(variants, func(v awscluster.Variant) bool { return v.Name == tamper.Variant && v.Manifest == tamper.On() })
			c := newAWSApplyCase(t, &variants[at], &ec2sim.Delays{})
			if _, err := tamper.Do(t.Context(), c.env); err != nil {
				t.Fatal(err)
			}
			c.clock.skip(restUntilModified)
			for _, verb := range []string{"Create*", "Delete*", "Modify*", "Replace*", "Associate*", "Attach*", "Authorize*", "Revoke*", "Start*", "Stop*", "Register*", "Deregister*", "Set*", "Add*", "Configure*"} {
				c.server.InjectFault(ec2sim.Fault{Action: verb, Kind: ec2sim.FaultDrop, AfterSuccess: true, Times: 1})
			}
			provider, owners := c.load(t)
			findings, err := scanOwners(t.Context(), provider, owners)
			if err != nil {
				t.Fatal(err)
			}
			scope, err := provider.Scope(t.Context(), owners[0])
			if err != nil {
				t.Fatal(err)
			}
			for i := range findings {
				if change, ok := changeOf(&findings[i]); ok {
					if err := applyAll(t.Context(), provider, scope, change); err != nil {
						t.Errorf("apply to %s: %v", change.Resource, err)
					}
				}
			}
			c.server.ClearFaults()
			c.expectInSync(t)
		})
	}
}
