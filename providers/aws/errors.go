package aws

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/holdfast-io/holdfast/providers"
)

// apiCode gives the service's error code, empty where the error did not come
// from a service.
func apiCode(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// isThrottle reports whether a service asked to be called less often. EC2 says
// RequestLimitExceeded, Elastic Load Balancing Throttling or
// ThrottlingException (their API references, "Throttling").
func isThrottle(err error) bool {
	_, ok := retry.DefaultThrottleErrorCodes[apiCode(err)]
	return ok
}

// isNotFound reports whether the service said, in so many words, that a named
// resource does not exist. Everything else proves nothing.
func isNotFound(err error) bool {
	code := apiCode(err)
	switch code {
	case "NatGatewayNotFound", "LoadBalancerNotFound", "AccessPointNotFound", "TargetGroupNotFound":
		return true
	}
	return strings.HasPrefix(code, "Invalid") && strings.HasSuffix(code, ".NotFound")
}

// isMalformed reports whether the service refused an id for its form.
func isMalformed(err error) bool {
	code := apiCode(err)
	return strings.HasPrefix(code, "Invalid") && strings.HasSuffix(code, ".Malformed") || code == "InvalidParameterValue" || code == "ValidationError"
}

// credentialHints are the codes by which AWS refuses a caller rather than a
// call, with what to do about each (AWS General Reference, "Common errors").
var credentialHints = map[string]string{
	"ExpiredToken":                "the session has expired: renew it (aws sso login, or a new session token)",
	"ExpiredTokenException":       "the session has expired: renew it (aws sso login, or a new session token)",
	"RequestExpired":              "the request was too old when it arrived: check this machine's clock",
	"InvalidClientTokenId":        "the access key is unknown to AWS: check the key and the partition of the region",
	"UnrecognizedClientException": "the access key is unknown to AWS: check the key and the partition of the region",
	"SignatureDoesNotMatch":       "the secret key does not belong to the access key, or this machine's clock is wrong",
	"IncompleteSignature":         "the credentials are incomplete: check the secret key and the session token",
	"AuthFailure":                 "AWS does not accept the credentials here: check the key, and whether the account has enabled the region",
	"OptInRequired":               "the account has not enabled this region or service",
	"Blocked":                     "AWS has blocked the account",
	"InvalidIdentityToken":        "the web identity token is not accepted: check the service account's role annotation and the OIDC provider",
	"IDPRejectedClaim":            "the web identity token is not accepted: check the service account's role annotation and the OIDC provider",
}

// scopeError sorts an error of the credential chain or of STS into the reasons
// that the contract knows.
func scopeError(err error) error {
	var known *providers.ScopeError
	switch code := apiCode(err); {
	case err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return err
	case credentialHints[code] != "":
		return &providers.ScopeError{Reason: providers.ReasonCredentials, Err: withHint(err, credentialHints[code])}
	case code == "AccessDenied" || code == "AccessDeniedException":
		return &providers.ScopeError{Reason: providers.ReasonCredentials, Err: withHint(err, "check the role's trust policy, its external id and the caller's permission to assume it")}
	case code == "" && isCredentialChain(err):
		return &providers.ScopeError{Reason: providers.ReasonCredentials, Err: withHint(err, "give credentials by AWS_PROFILE, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a service account role or the cluster's identityRef")}
	default:
		return &providers.ScopeError{Reason: providers.ReasonUnreachable, Err: err}
	}
}

// isCredentialChain tells "no credentials" from "no connection": the SDK has
// no type for the former. The chain's last resort is the instance metadata
// service, so its silence means that there are no credentials; silence of
// another service is its own.
func isCredentialChain(err error) bool {
	var unsent *smithyhttp.RequestSendError
	if errors.As(err, &unsent) && !strings.Contains(err.Error(), "ec2imds") {
		return false
	}
	for _, sign := range []string{"get credentials", "refresh cached credentials", "get identity", "static credentials are empty", "shared config profile"} {
		if strings.Contains(err.Error(), sign) {
			return true
		}
	}
	return false
}

// refusesCaller reports whether the error means that the caller's credentials
// are no good, so that every other call would meet the same.
func refusesCaller(err error) bool {
	var scope *providers.ScopeError
	return errors.As(scopeError(err), &scope) && scope.Reason == providers.ReasonCredentials && credentialHints[apiCode(err)] != ""
}

type hinted struct {
	err  error
	hint string
}

func withHint(err error, hint string) error { return &hinted{err: err, hint: hint} }

// Error says first what to do: what follows is often cut.
func (h *hinted) Error() string { return h.hint + ": " + h.err.Error() }
func (h *hinted) Unwrap() error { return h.err }
