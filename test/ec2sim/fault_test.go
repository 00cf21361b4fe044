package ec2sim_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/holdfast-io/holdfast/test/ec2sim"
)

func TestFaults(t *testing.T) {
	ctx := t.Context()
	paged := ec2.DescribeInstancesInput{MaxResults: aws.Int32(5)}
	setUp := func(t *testing.T, f ec2sim.Fault) *world {
		w := newWorld(t, ec2sim.Options{})
		w.run(t, w.network(t), func(in *ec2.RunInstancesInput) { in.MinCount, in.MaxCount = aws.Int32(12), aws.Int32(12) })
		w.InjectFault(f)
		return w
	}
	t.Run("an error on the second page", func(t *testing.T) {
		w := setUp(t, ec2sim.Fault{Action: "DescribeInstances", Page: 2, Code: "RequestLimitExceeded", Times: 1})
		out := must(w.ec2.DescribeInstances(ctx, &paged))(t)
		next := ec2.DescribeInstancesInput{MaxResults: aws.Int32(5), NextToken: out.NextToken}
		_, err := w.ec2.DescribeInstances(ctx, &next)
		wantCode(t, err, "RequestLimitExceeded", 503)
		must(w.ec2.DescribeInstances(ctx, &next))(t)
	})
	t.Run("the nth call", func(t *testing.T) {
		w := setUp(t, ec2sim.Fault{Action: "Describe*", From: 2, Times: 2, Code: "Unavailable", Status: 500})
		var got []bool
		for range 4 {
			_, err := w.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{})
			got = append(got, err == nil)
		}
		if diff := cmp.Diff([]bool{true, false, false, true}, got); diff != "" {
			t.Error(diff)
		}
	})
	for name, c := range map[string]struct {
		fault ec2sim.Fault
		want  []int
	}{
		"an empty page with a token": {ec2sim.Fault{Kind: ec2sim.FaultEmptyPage, Page: 2}, []int{5, 0, 5, 2}},
		"a short page":               {ec2sim.Fault{Kind: ec2sim.FaultShortPage, Page: 2, Items: 1}, []int{5, 1, 5, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			sizes, ids := setUp(t, c.fault).pages(t, paged)
			if diff := cmp.Diff(c.want, sizes); diff != "" || len(ids) != 12 {
				t.Errorf("%d instances in pages (-want +got):\n%s", len(ids), diff)
			}
		})
	}
	t.Run("a repeated token", func(t *testing.T) {
		w := setUp(t, ec2sim.Fault{Kind: ec2sim.FaultRepeatToken, Page: 2})
		out := must(w.ec2.DescribeInstances(ctx, &paged))(t)
		again := must(w.ec2.DescribeInstances(ctx, &ec2.DescribeInstancesInput{MaxResults: aws.Int32(5), NextToken: out.NextToken}))(t)
		if *again.NextToken != *out.NextToken {
			t.Errorf("the token changes")
		}
	})
	t.Run("malformed XML", func(t *testing.T) {
		w := setUp(t, ec2sim.Fault{Kind: ec2sim.FaultMalformed})
		if _, err := w.ec2.DescribeInstances(ctx, &paged); err == nil {
			t.Error("half an answer is read as a whole one")
		}
	})
	t.Run("a dropped connection", func(t *testing.T) {
		w := setUp(t, ec2sim.Fault{Kind: ec2sim.FaultDrop, Times: 1})
		_, err := w.ec2.DescribeInstances(ctx, &paged)
		if !errors.Is(err, io.EOF) {
			t.Errorf("got %v, want the end of the connection", err)
		}
	})
	t.Run("no answer", func(t *testing.T) {
		w := setUp(t, ec2sim.Fault{Kind: ec2sim.FaultHang, Times: 1})
		short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		defer cancel()
		_, err := w.ec2.DescribeInstances(short, &paged)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
	})
	t.Run("removed", func(t *testing.T) {
		w := setUp(t, ec2sim.Fault{})
		w.ClearFaults()
		remove := w.InjectFault(ec2sim.Fault{Service: "ec2"})
		_, err := w.ec2.DescribeInstances(ctx, &paged)
		wantCode(t, err, "InternalError", 500)
		remove()
		must(w.ec2.DescribeInstances(ctx, &paged))(t)
	})
}

// A launch that succeeds and whose answer is lost: the SDK's retry has the
// same client token, so there is one instance.
func TestTimeoutAfterSuccess(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	n := w.network(t)
	w.InjectFault(ec2sim.Fault{Action: "RunInstances", Kind: ec2sim.FaultDrop, AfterSuccess: true, Times: 1})
	cfg := w.Config(region)
	cfg.Retryer = func() aws.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) { o.Backoff = retry.NewExponentialJitterBackoff(time.Millisecond) })
	}
	must(ec2.NewFromConfig(cfg).RunInstances(t.Context(), &ec2.RunInstancesInput{
		ImageId: &n.image, MinCount: aws.Int32(1), MaxCount: aws.Int32(1), SubnetId: &n.subnet,
	}))(t)
	if _, ids := w.pages(t, ec2.DescribeInstancesInput{}); len(ids) != 1 || w.CallCounts()["ec2:RunInstances"] != 2 {
		t.Errorf("%d instances after %d launches, want 1 after 2", len(ids), w.CallCounts()["ec2:RunInstances"])
	}
}

// The log tells mutations, and takes what it does not know for one.
func TestCallLog(t *testing.T) {
	w := newWorld(t, ec2sim.Options{})
	w.network(t)
	w.ResetCalls()
	ctx := t.Context()
	must(w.ec2.DescribeVpcs(ctx, &ec2.DescribeVpcsInput{}))(t)
	_, err := w.ec2.CreateVpc(ctx, &ec2.CreateVpcInput{DryRun: aws.Bool(true)})
	wantCode(t, err, "DryRunOperation", 412)
	_, err = w.ec2.CreateCustomerGateway(ctx, &ec2.CreateCustomerGatewayInput{Type: "ipsec.1"})
	wantCode(t, err, "InvalidAction", 400)
	_, err = w.ec2.DescribeSpotPriceHistory(ctx, &ec2.DescribeSpotPriceHistoryInput{})
	wantCode(t, err, "InvalidAction", 400)
	want := []ec2sim.Call{
		{Service: "ec2", Action: "DescribeVpcs", Status: 200},
		{Service: "ec2", Action: "CreateVpc", Status: 412, Code: "DryRunOperation", Mutating: true, DryRun: true},
		{Service: "ec2", Action: "CreateCustomerGateway", Status: 400, Code: "InvalidAction", Mutating: true},
		{Service: "ec2", Action: "DescribeSpotPriceHistory", Status: 400, Code: "InvalidAction", Mutating: true},
	}
	for i := range want {
		want[i].Account, want[i].Region, want[i].AccessKeyID = "123456789012", region, w.Credentials()[0].AccessKeyID
		want[i].Page, want[i].Fate, want[i].Time = 1, "answered", w.clock.Now()
	}
	if diff := cmp.Diff(want, w.Calls(), cmpopts.IgnoreFields(ec2sim.Call{}, "Digest")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want[1:], w.Mutations(), cmpopts.IgnoreFields(ec2sim.Call{}, "Digest")); diff != "" {
		t.Errorf("mutations (-want +got):\n%s", diff)
	}
}

// Requests that no SDK makes get an error of the protocol, and parameters
// that are not modelled are refused by name.
func TestBadRequests(t *testing.T) {
	w := newWorld(t, ec2sim.Options{SkipSignatures: true})
	key := w.Credentials()[0].AccessKeyID
	for name, c := range map[string]struct{ body, want string }{
		"no action":         {"Version=2016-11-15", "MissingAction"},
		"unknown version":   {"Action=DescribeVpcs&Version=1999-01-01", "InvalidParameterValue"},
		"syntax":            {"Action=%zz", "MalformedQueryString"},
		"unknown parameter": {"Action=DescribeVpcs&Version=2016-11-15&Colour=blue", "The parameter Colour is not recognized"},
		"unknown member":    {"Action=DescribeVpcs&Version=2016-11-15&Filter.1.Nme=x", "Filter.1.Nme"},
		"not a number":      {"Action=DescribeVpcs&Version=2016-11-15&MaxResults=many", "Value (many) for parameter MaxResults"},
		"not a list":        {"Action=DescribeVpcs&Version=2016-11-15&VpcId.one=vpc-1", "VpcId.one"},
		"twice":             {"Action=DescribeVpcs&Version=2016-11-15&MaxResults=5&MaxResults=6", "InvalidParameterCombination"},
		"missing parameter": {"Action=CreateTags&Version=2016-11-15", "MissingParameter"},
		"elb's form":        {"Action=DescribeLoadBalancers&Version=2012-06-01&Colour=blue", "<ErrorResponse"},
	} {
		t.Run(name, func(t *testing.T) {
			r := must(http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL(), strings.NewReader(c.body)))(t)
			r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+key+"/20261130/us-west-2/ec2/aws4_request, SignedHeaders=host, Signature=0")
			out := must(w.Config(region).HTTPClient.(*http.Client).Do(r))(t)
			defer out.Body.Close()
			text := string(must(io.ReadAll(out.Body))(t))
			if out.StatusCode != http.StatusBadRequest || !strings.Contains(text, c.want) {
				t.Errorf("%s gives %d %s, want %q in it", c.body, out.StatusCode, text, c.want)
			}
		})
	}
}
