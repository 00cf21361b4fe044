// Package requestfuzz_test fuzzes what the simulator makes of requests. It is
// a package of its own because fuzzing rebuilds all that a package imports,
// and the simulator's other tests import the AWS SDK's largest clients.
package requestfuzz_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/holdfast-io/holdfast/test/ec2sim"
)

func FuzzRequest(f *testing.F) {
	f.Add("Action=RunInstances&Version=2016-11-15&ImageId=ami-1&MinCount=1&MaxCount=1&BlockDeviceMapping.1.Ebs.VolumeSize=8")
	f.Add("Action=DescribeInstances&Version=2016-11-15&Filter.1.Name=vpc-id&Filter.1.Value.1=x&Filter.2.=&NextToken=e30")
	f.Add("Action=AddTags&Version=2012-06-01&LoadBalancerNames.member.1=a&Tags.member.1.Key=k")
	f.Add("Action=AuthorizeSecurityGroupIngress&Version=2016-11-15&GroupId=sg-1&IpPermissions.1.IpProtocol=-1&IpPermissions.1.IpRanges.1.CidrIp=::/0")
	f.Add("Action=ModifyVolume&Version=2016-11-15&Size.1=2&Size=-9223372036854775808")
	s := ec2sim.New(ec2sim.Options{SkipSignatures: true})
	f.Cleanup(s.Close)
	f.Fuzz(func(t *testing.T, body string) {
		if form, err := url.ParseQuery(body); err == nil && form.Get("Action") == "" {
			body += "&Action=DescribeInstances&Version=2016-11-15"
		}
		if status := serve(s, body); status < 200 || status > 599 {
			t.Errorf("status %d for %q", status, body)
		}
	})
}

func serve(s *ec2sim.Server, body string) int {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+s.Credentials()[0].AccessKeyID+"/20261130/us-west-2/ec2/aws4_request")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code
}
