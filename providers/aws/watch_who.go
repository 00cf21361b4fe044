package aws

import (
	"strings"
)

// serviceRole begins the names of the roles that AWS services act by on their
// own (IAM user guide, "Service-linked roles").
const serviceRole = "AWSServiceRoleFor"

// whoDid names the caller of a CloudTrail record, as exactly as the record
// tells (AWS CloudTrail user guide, "CloudTrail userIdentity element"): the
// ARN, which for an assumed role ends in the session's name; the service where
// one acted of its own accord; and who it acted through where a person's call
// made a service call.
func whoDid(identity object) (by, arn string) {
	arn = identity.text("arn")
	through := identity.text("invokedBy")
	switch {
	case through != "" && (identity.text("type") == "AWSService" || strings.Contains(arn, "/"+serviceRole)):
		return through, arn
	case strings.Contains(arn, "/"+serviceRole):
		return arn, arn
	}
	by = arn
	if by == "" {
		by = unnamed(identity)
	}
	// A call through the console or CloudFormation is still the person's.
	if through != "" && by != "" {
		by += " through " + through
	} else if by == "" {
		by = through
	}
	return by, arn
}

// unnamed is for identities without an ARN: callers of other accounts, users
// of IAM Identity Center, SAML and web identities.
func unnamed(identity object) string {
	session := identity.object("sessionContext")
	principal := identity.text("principalId")
	switch issuer := session.object("sessionIssuer").text("arn"); {
	case issuer != "":
		if _, name, ok := strings.Cut(principal, ":"); ok {
			return issuer + "/" + name
		}
		return issuer
	case identity.text("userName") != "":
		return identity.text("userName")
	case identity.text("type") == "IdentityCenterUser":
		return "IAM Identity Center user " + identity.object("onBehalfOf").text("userId")
	case identity.text("accountId") != "" && principal != "":
		return "account " + identity.text("accountId") + ", principal " + principal
	case principal != "":
		return principal
	default:
		return ""
	}
}

// agentMark is how the SDK spells the application id that every session sets,
// in the user agent of each call.
const agentMark = "app/holdfast"

// isOwn reports whether a call was made by Holdfast: by the same principal as
// this process's, whatever its session is named, and with Holdfast's mark in
// the user agent. Neither suffices alone: CAPA may use the same role, and a
// user agent can say anything.
func isOwn(own, principal, agent string) bool {
	return own != "" && withoutSession(own) == withoutSession(principal) &&
		strings.Contains(" "+agent+" ", " "+agentMark+" ")
}

// withoutSession gives arn:aws:sts::ACCOUNT:assumed-role/ROLE of a session of
// it. The session's name changes with each start of a pod.
func withoutSession(arn string) string {
	if role, ok := strings.CutPrefix(resourcePart(arn), "assumed-role/"); ok {
		if at := strings.LastIndexByte(role, '/'); at >= 0 {
			return strings.TrimSuffix(arn, role[at:])
		}
	}
	return arn
}

// resourcePart is what follows the fifth colon of an ARN.
func resourcePart(arn string) string {
	for range 5 {
		_, rest, ok := strings.Cut(arn, ":")
		if !ok {
			return ""
		}
		arn = rest
	}
	return arn
}
