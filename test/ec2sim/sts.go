package ec2sim

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

var stsActions = []*action{
	read("GetCallerIdentity", (*call).callerIdentity),
	read("AssumeRole", (*call).assumeRole),
	read("AssumeRoleWithWebIdentity", (*call).assumeRoleWithWebIdentity),
}

type callerIdentity struct {
	UserID  string `wire:"UserId"`
	Account string
	ARN     string
}

func (c *call) callerIdentity(*empty) (callerIdentity, *apiError) {
	return callerIdentity{"AIDA" + strings.ToUpper(c.credential.AccessKeyID[4:]), c.credential.Account, c.credential.arn()}, nil
}

type assumeRoleIn struct {
	RoleARN          string `wire:"RoleArn,required"`
	RoleSessionName  string `wire:",required"`
	ExternalID       string
	DurationSeconds  int
	Policy           string
	WebIdentityToken string
	ProviderID       string
	SourceIdentity   string
}

type assumeRoleOut struct {
	Credentials     sessionCredentials
	AssumedRoleUser assumedRole
}

type sessionCredentials struct {
	AccessKeyID     string `wire:"AccessKeyId"`
	SecretAccessKey string
	SessionToken    string
	Expiration      time.Time
}

type assumedRole struct {
	AssumedRoleID string `wire:"AssumedRoleId"`
	ARN           string
}

func (c *call) assumeRole(in *assumeRoleIn) (out assumeRoleOut, err *apiError) {
	role, known := c.srv.role(in.RoleARN)
	trusted := known && (role.ExternalID == "" || role.ExternalID == in.ExternalID) &&
		(len(role.TrustedAccounts) == 0 || slices.Contains(role.TrustedAccounts, c.credential.Account))
	if !trusted {
		return out, failf("AccessDenied", "User: %s is not authorized to perform: sts:AssumeRole on resource: %s", c.credential.arn(), in.RoleARN)
	}
	return c.session(role, in)
}

func (c *call) assumeRoleWithWebIdentity(in *assumeRoleIn) (out assumeRoleOut, err *apiError) {
	role, known := c.srv.role(in.RoleARN)
	if !known {
		return out, failf("AccessDenied", "Not authorized to perform sts:AssumeRoleWithWebIdentity")
	}
	if strings.Count(in.WebIdentityToken, ".") != 2 {
		return out, failf("InvalidIdentityToken", "The ID Token provided is not a valid JWT.")
	}
	return c.session(role, in)
}

func (s *Server) role(arn string) (Role, bool) {
	at := slices.IndexFunc(s.options.Roles, func(r Role) bool { return r.ARN == arn })
	if at < 0 {
		return Role{}, false
	}
	return s.options.Roles[at], true
}

// session makes temporary credentials, which the server then accepts.
func (c *call) session(role Role, in *assumeRoleIn) (out assumeRoleOut, err *apiError) {
	parts := strings.Split(role.ARN, ":")
	if len(parts) != 6 || !strings.HasPrefix(parts[5], "role/") {
		return out, failf("ValidationError", "%s is invalid", role.ARN)
	}
	duration := role.Duration
	if duration == 0 {
		duration = time.Hour
	}
	if in.DurationSeconds > 0 {
		duration = time.Duration(in.DurationSeconds) * time.Second
	}
	c.srv.ids++
	n := c.srv.ids
	name := parts[5][strings.LastIndex(parts[5], "/")+1:]
	credential := Credential{
		AccessKeyID: fmt.Sprintf("ASIA%016X", mix(n)), SecretAccessKey: fmt.Sprintf("secret-%x", mix(n+1<<40)),
		SessionToken: fmt.Sprintf("session-%x", mix(n+1<<41)), Account: parts[4],
		ARN:     "arn:" + parts[1] + ":sts::" + parts[4] + ":assumed-role/" + name + "/" + in.RoleSessionName,
		Expires: c.now.Add(duration), Allow: role.Allow, Deny: role.Deny,
	}
	c.srv.credentials[credential.AccessKeyID] = credential
	return assumeRoleOut{
		sessionCredentials{credential.AccessKeyID, credential.SecretAccessKey, credential.SessionToken, credential.Expires},
		assumedRole{fmt.Sprintf("AROA%016X:%s", hash64(role.ARN), in.RoleSessionName), credential.ARN},
	}, nil
}

// unsignedRegion is where a request without credentials is served: STS's
// web identity calls are not signed.
func (s *Server) unsignedRegion() (*region, *apiError) {
	r, err := s.region(Scope{Account: s.options.Credentials[0].Account, Region: s.options.Regions[0]})
	if err != nil {
		return nil, failf("InternalFailure", "%s", err)
	}
	return r, nil
}
