package ec2sim_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	elb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// "Error codes for the Amazon EC2 API", common errors, and the common errors
// of STS and ELB.
func TestCredentials(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	good := w.Credentials()[0]
	change := func(f func(*ec2sim.Credential)) aws.Config {
		c := good
		f(&c)
		return once(w.ConfigFor(c, region))
	}
	w.AddCredential(ec2sim.Credential{AccessKeyID: "ASIAOLD", SecretAccessKey: "s", SessionToken: "t", Account: good.Account, Expires: w.clock.Now()})
	expired := once(w.ConfigFor(ec2sim.Credential{AccessKeyID: "ASIAOLD", SecretAccessKey: "s", SessionToken: "t"}, region))
	for name, c := range map[string]struct {
		config    aws.Config
		ec2       string
		ec2Status int
		others    string
	}{
		"unknown key":     {change(func(c *ec2sim.Credential) { c.AccessKeyID = "AKIANOBODY" }), "AuthFailure", 401, "InvalidClientTokenId"},
		"wrong secret":    {change(func(c *ec2sim.Credential) { c.SecretAccessKey = "guess" }), "AuthFailure", 401, "SignatureDoesNotMatch"},
		"wrong session":   {change(func(c *ec2sim.Credential) { c.SessionToken = "guess" }), "AuthFailure", 401, "InvalidClientTokenId"},
		"expired session": {expired, "RequestExpired", 400, "ExpiredToken"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ec2.NewFromConfig(c.config).DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{})
			wantCode(t, err, c.ec2, c.ec2Status)
			_, err = sts.NewFromConfig(c.config).GetCallerIdentity(t.Context(), &sts.GetCallerIdentityInput{})
			wantCode(t, err, c.others, 403)
			_, err = elb.NewFromConfig(c.config).DescribeLoadBalancers(t.Context(), &elb.DescribeLoadBalancersInput{})
			wantCode(t, err, c.others, 403)
		})
	}
	w.RevokeCredential(good.AccessKeyID)
	_, err := w.ec2.DescribeVpcs(t.Context(), &ec2.DescribeVpcsInput{})
	wantCode(t, err, "AuthFailure", 401)
}

// AssumeRole and GetCallerIdentity (STS API reference): accounts are apart.
func TestAccounts(t *testing.T) {
	role := ec2sim.Role{ARN: "arn:aws:iam::210987654321:role/reader", ExternalID: "x", Deny: []string{"CreateVpc"}}
	w := newWorld(t, ec2sim.Options{Roles: []ec2sim.Role{role}})
	w.network(t)
	ctx := t.Context()
	client := sts.NewFromConfig(w.config())
	me := must(client.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{}))(t)
	if *me.Account != "123456789012" || *me.Arn != "arn:aws:iam::123456789012:user/ec2sim" {
		t.Errorf("caller %s of %s", *me.Arn, *me.Account)
	}
	_, err := client.AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: &role.ARN, RoleSessionName: aws.String("s")})
	wantCode(t, err, "AccessDenied", 403)
	out := must(client.AssumeRole(ctx, &sts.AssumeRoleInput{RoleArn: &role.ARN, RoleSessionName: aws.String("s"), ExternalId: aws.String("x")}))(t)
	session := once(w.ConfigFor(ec2sim.Credential{
		AccessKeyID: *out.Credentials.AccessKeyId, SecretAccessKey: *out.Credentials.SecretAccessKey, SessionToken: *out.Credentials.SessionToken,
	}, region))
	me = must(sts.NewFromConfig(session).GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{}))(t)
	if *me.Account != "210987654321" || *me.Arn != "arn:aws:sts::210987654321:assumed-role/reader/s" {
		t.Errorf("session %s of %s", *me.Arn, *me.Account)
	}
	other := ec2.NewFromConfig(session)
	if vpcs := must(other.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{}))(t); len(vpcs.Vpcs) != 0 {
		t.Error("one account sees the other's VPC")
	}
	_, err = other.CreateVpc(ctx, &ec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})
	wantCode(t, err, "UnauthorizedOperation", 403)
	w.pass(time.Hour)
	_, err = other.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{})
	wantCode(t, err, "RequestExpired", 400)
	web := must(client.AssumeRoleWithWebIdentity(ctx, &sts.AssumeRoleWithWebIdentityInput{
		RoleArn: &role.ARN, RoleSessionName: aws.String("pod"), WebIdentityToken: aws.String("a.b.c"),
	}))(t)
	if *web.AssumedRoleUser.Arn != "arn:aws:sts::210987654321:assumed-role/reader/pod" {
		t.Errorf("web identity is %s", *web.AssumedRoleUser.Arn)
	}
	elsewhere := w.Config("eu-west-1")
	if vpcs := must(ec2.NewFromConfig(elsewhere).DescribeVpcs(ctx, &ec2.DescribeVpcsInput{}))(t); len(vpcs.Vpcs) != 0 {
		t.Error("one region sees the other's VPC")
	}
	_, err = ec2.NewFromConfig(once(w.Config("mars-north-1"))).DescribeVpcs(ctx, &ec2.DescribeVpcsInput{})
	wantCode(t, err, "AuthFailure", 401)
}

// "Request throttling for the Amazon EC2 API" (EC2 developer guide) and "…
// for the Elastic Load Balancing API" (ELB user guide).
func TestThrottling(t *testing.T) {
	ctx := t.Context()
	// allowed counts calls until one is throttled.
	allowed := func(t *testing.T, call func() error, code string, status int) int {
		t.Helper()
		for n := range 500 {
			if err := call(); err != nil {
				wantCode(t, err, code, status)
				return n
			}
		}
		t.Fatal("500 calls and no throttling")
		return 0
	}
	w := newWorld(t, ec2sim.Options{Throttle: true})
	n := w.network(t)
	paged := func() error {
		return second(w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{MaxResults: aws.Int32(1000)}))
	}
	plain := func() error { return second(w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{})) }
	run := func() error {
		return second(w.ec2.RunInstances(ctx, &ec2.RunInstancesInput{ImageId: &n.image, MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: &n.subnet}))
	}
	balancers := elb.NewFromConfig(w.config())
	for _, c := range []struct {
		name         string
		call         func() error
		code         string
		status       int
		burst, later int
	}{
		{"paged", paged, "RequestLimitExceeded", 503, 100, 20},
		{"unfiltered and unpaged", plain, "RequestLimitExceeded", 503, 50, 10},
		{"launches", run, "RequestLimitExceeded", 503, 5, 2},
		{"load balancers", func() error {
			return second(balancers.DescribeLoadBalancers(ctx, &elb.DescribeLoadBalancersInput{}))
		}, "Throttling", 400, 40, 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			if n := allowed(t, c.call, c.code, c.status); n != c.burst {
				t.Errorf("%d calls at once, want %d", n, c.burst)
			}
			w.pass(time.Second)
			if n := allowed(t, c.call, c.code, c.status); n != c.later {
				t.Errorf("%d calls a second later, want %d", n, c.later)
			}
		})
	}
	w.pass(time.Hour)
	_, err := w.ec2.RunInstances(ctx, &ec2.RunInstancesInput{ImageId: &n.image, MinCount: aws.Int32(1), MaxCount: aws.Int32(999), SubnetId: &n.subnet})
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.ec2.RunInstances(ctx, &ec2.RunInstancesInput{ImageId: &n.image, MinCount: aws.Int32(1), MaxCount: aws.Int32(2), SubnetId: &n.subnet})
	wantCode(t, err, "RequestLimitExceeded", 503)
}
