package ec2sim_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// "Eventual consistency in the Amazon EC2 API" (EC2 developer guide).
func TestEventualConsistency(t *testing.T) {
	ctx := t.Context()
	describe := func(w *world, id string) error {
		return second(w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{InstanceIds: []string{id}}))
	}
	t.Run("for some reads", func(t *testing.T) {
		w := newWorld(t, ec2sim.Options{Consistency: ec2sim.Consistency{HideReads: 2}})
		id := *w.run(t, w.network(t)).InstanceId
		wantCode(t, describe(w, id), "InvalidInstanceID.NotFound", 400)
		if _, ids := w.pages(t, ec2.DescribeInstancesInput{}); len(ids) != 0 {
			t.Errorf("the second read lists %v", ids)
		}
		must(w.ec2.CreateTags(ctx, &ec2.CreateTagsInput{Resources: []string{id}, Tags: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}))(t)
		if err := describe(w, id); err != nil {
			t.Errorf("the third read misses it too: %v", err)
		}
	})
	t.Run("for some time, its tags for longer", func(t *testing.T) {
		w := newWorld(t, ec2sim.Options{Consistency: ec2sim.Consistency{HideFor: time.Second, TagsFor: time.Minute}})
		n := w.network(t)
		id := *w.run(t, n, func(in *ec2.RunInstancesInput) {
			in.TagSpecifications = []types.TagSpecification{{ResourceType: "instance", Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String("a")}}}}
		}).InstanceId
		wantCode(t, describe(w, id), "InvalidInstanceID.NotFound", 400)
		w.pass(time.Second)
		if tags := w.instance(t, id).Tags; len(tags) != 0 {
			t.Errorf("tags %v after a second", tags)
		}
		named := ec2.DescribeInstancesInput{Filters: []types.Filter{{Name: aws.String("tag:Name"), Values: []string{"a"}}}}
		if _, ids := w.pages(t, named); len(ids) != 0 {
			t.Errorf("a filter sees tags that the instance does not show")
		}
		w.pass(time.Minute)
		if _, ids := w.pages(t, named); len(ids) != 1 {
			t.Errorf("the tags are missing after a minute")
		}
	})
}

// "Ensuring idempotency in Amazon EC2 API requests" (EC2 developer guide).
func TestClientTokens(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	n := w.network(t)
	ctx := t.Context()
	token := func(in *ec2.RunInstancesInput) { in.ClientToken = aws.String("t-1") }
	a := w.run(t, n, token)
	w.pass(time.Minute)
	b := w.run(t, n, token)
	if *a.InstanceId != *b.InstanceId || b.State.Name != "running" {
		t.Errorf("the same request gives %s, and %s (%s) again", *a.InstanceId, *b.InstanceId, b.State.Name)
	}
	if got := w.instance(t, *a.InstanceId); got.ClientToken == nil || *got.ClientToken != "t-1" {
		t.Errorf("client token %v", got.ClientToken)
	}
	_, err := w.ec2.RunInstances(ctx, &ec2.RunInstancesInput{
		ImageId: &n.image, MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: &n.subnet, ClientToken: aws.String("t-1"),
	})
	wantCode(t, err, "IdempotentParameterMismatch", 400)
	must(w.ec2.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: []string{*a.InstanceId}}))(t)
	_, err = w.ec2.RunInstances(ctx, &ec2.RunInstancesInput{
		ImageId: &n.image, MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: &n.subnet,
		SecurityGroupIds: []string{n.group}, InstanceType: "m5.large", ClientToken: aws.String("t-1"),
	})
	wantCode(t, err, "IdempotentInstanceTerminated", 400)

	nat := &ec2.CreateNatGatewayInput{SubnetId: &n.subnet, ConnectivityType: "private", ClientToken: aws.String("t-1")}
	first, again := must(w.ec2.CreateNatGateway(ctx, nat))(t), must(w.ec2.CreateNatGateway(ctx, nat))(t)
	if *first.NatGateway.NatGatewayId != *again.NatGateway.NatGatewayId {
		t.Error("the same token gives two NAT gateways")
	}
}

// "DryRun" of every EC2 action (common query parameters).
func TestDryRun(t *testing.T) {
	readOnly := ec2sim.Credential{AccessKeyID: "AKIAREADONLY", SecretAccessKey: "s", Account: "123456789012", Allow: []string{"ec2:Describe*"}}
	w := newWorld(t, ec2sim.Options{Credentials: []ec2sim.Credential{ec2sim.DefaultCredential(), readOnly}})
	n := w.network(t)
	reader := ec2.NewFromConfig(once(w.ConfigFor(readOnly, region)))
	in := &ec2.CreateSubnetInput{VpcId: &n.vpc, CidrBlock: aws.String("10.0.64.0/18"), DryRun: aws.Bool(true)}
	_, err := w.ec2.CreateSubnet(t.Context(), in)
	wantCode(t, err, "DryRunOperation", 412)
	_, err = reader.CreateSubnet(t.Context(), in)
	wantCode(t, err, "UnauthorizedOperation", 403)
	in.DryRun = nil
	_, err = reader.CreateSubnet(t.Context(), in)
	wantCode(t, err, "UnauthorizedOperation", 403)
	if out := must(reader.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{}))(t); len(out.Subnets) != 1 {
		t.Errorf("%d subnets, want the first only", len(out.Subnets))
	}
}
