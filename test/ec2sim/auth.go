package ec2sim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// authorization is a parsed Signature Version 4 header.
type authorization struct {
	accessKey, region, service string
	signedHeaders              []string
	signature                  string
}

func parseAuthorization(r *http.Request) (authorization, bool) {
	var a authorization
	rest, ok := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	if !ok {
		return a, false
	}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "Credential":
			scope := strings.Split(value, "/")
			if len(scope) != 5 {
				return a, false
			}
			a.accessKey, a.region, a.service = scope[0], scope[2], scope[3]
		case "SignedHeaders":
			a.signedHeaders = strings.Split(value, ";")
		case "Signature":
			a.signature = value
		}
	}
	return a, a.accessKey != ""
}

// scopedService tells the service by the credential's scope alone.
func scopedService(r *http.Request) string {
	a, _ := parseAuthorization(r)
	switch a.service {
	case serviceSTS, serviceIAM, serviceKMS, serviceSecrets:
		return a.service
	}
	return serviceEC2
}

// authenticate fills the call's credential and gives the region it is for.
func (s *Server) authenticate(r *http.Request, req request, c *call) (*region, *apiError) {
	if req.service == serviceSTS && req.action == "AssumeRoleWithWebIdentity" {
		return s.unsignedRegion()
	}
	auth, ok := parseAuthorization(r)
	if !ok {
		return nil, failf(pick(req.service, "AuthFailure", "MissingAuthenticationToken"), "Request is missing Authentication Token")
	}
	credential, known := s.credentials[auth.accessKey]
	session := r.Header.Get("X-Amz-Security-Token")
	switch {
	case !known || session != credential.SessionToken && !s.options.SkipSignatures:
		return nil, refusal(req.service, "InvalidClientTokenId", "The security token included in the request is invalid.")
	case !s.options.SkipSignatures && !validSignature(r, req.body, auth, credential):
		return nil, refusal(req.service, "SignatureDoesNotMatch", "The request signature we calculated does not match the signature you provided.")
	}
	c.credential = credential
	if !credential.Expires.IsZero() && !c.now.Before(credential.Expires) {
		if req.service == serviceEC2 {
			return nil, failf("RequestExpired", "Request has expired.")
		}
		return nil, failf("ExpiredToken", "The security token included in the request is expired")
	}
	scope := Scope{Account: credential.Account, Region: auth.region}
	if req.service == serviceSTS || req.service == serviceIAM {
		scope.Region = s.options.Regions[0] // global services are signed for a region that need not exist here
	}
	region, err := s.region(scope)
	if err != nil {
		return nil, failf("AuthFailure", "Credential should be scoped to a valid region: %s", err)
	}
	return region, nil
}

// refusal is of a key or signature that is wrong. EC2 does not tell which.
func refusal(service, code, message string) *apiError {
	if service == serviceEC2 {
		return failf("AuthFailure", "AWS was not able to validate the provided access credentials")
	}
	return failf(code, "%s", message)
}

// pick gives EC2's word or that of all other services.
func pick(service, ec2, others string) string {
	if service == serviceEC2 {
		return ec2
	}
	return others
}

// validSignature signs what the caller says it signed and compares.
func validSignature(r *http.Request, body []byte, auth authorization, credential Credential) bool {
	signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil {
		return false
	}
	target := *r.URL
	target.Host, target.Scheme = r.Host, "http"
	again := &http.Request{Method: r.Method, URL: &target, Host: r.Host, Header: http.Header{}}
	for _, name := range auth.signedHeaders {
		switch name {
		case "host", "x-amz-date":
		case "content-length":
			again.ContentLength, _ = strconv.ParseInt(r.Header.Get("Content-Length"), 10, 64)
			if again.ContentLength == 0 {
				again.ContentLength = r.ContentLength
			}
		case "x-amz-security-token": // the signer adds it
		default:
			again.Header[http.CanonicalHeaderKey(name)] = r.Header.Values(name)
		}
	}
	hash := sha256.Sum256(body)
	keys := aws.Credentials{
		AccessKeyID: credential.AccessKeyID, SecretAccessKey: credential.SecretAccessKey, SessionToken: credential.SessionToken,
	}
	err = v4.NewSigner().SignHTTP(context.Background(), keys, again, hex.EncodeToString(hash[:]), auth.service, auth.region, signed)
	if err != nil {
		return false
	}
	want, _ := parseAuthorization(again)
	return want.signature == auth.signature
}

// authorize applies the credential's Allow and Deny lists. EC2 and the other
// services name the refusal differently.
func (c *call) authorize() *apiError {
	full := iamService(c.service) + ":" + c.action.name
	lists := func(patterns []string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			return wildcard(pattern, full) || wildcard(pattern, c.action.name)
		})
	}
	if c.service == serviceSTS && c.action.name == "GetCallerIdentity" {
		return nil // its reference: no permissions are required
	}
	if !lists(c.credential.Deny) && (len(c.credential.Allow) == 0 || lists(c.credential.Allow)) {
		return nil
	}
	if c.service == serviceEC2 {
		return failf("UnauthorizedOperation", "You are not authorized to perform this operation. User: %s is not authorized "+
			"to perform: %s", c.credential.arn(), full)
	}
	return failf("AccessDenied", "User: %s is not authorized to perform: %s", c.credential.arn(), full)
}

// iamService is the prefix of a service's actions in IAM policies.
func iamService(service string) string {
	switch service {
	case serviceELB, serviceELBv2:
		return "elasticloadbalancing"
	}
	return service
}

func (c Credential) arn() string {
	if c.ARN != "" {
		return c.ARN
	}
	return "arn:aws:iam::" + c.Account + ":user/ec2sim"
}
