package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/holdfast-io/holdfast/providers"
)

func unsupported(format string, args ...any) error {
	return &providers.ApplyError{Reason: providers.ReasonUnsupported, Err: fmt.Errorf(format, args...)}
}

func refused(format string, args ...any) error {
	return &providers.ApplyError{Reason: providers.ReasonRefused, Err: fmt.Errorf(format, args...)}
}

func moved(format string, args ...any) error {
	return &providers.ApplyError{Reason: providers.ReasonMoved, Err: fmt.Errorf(format, args...)}
}

// Codes whose meaning does not follow from their form (EC2 API reference,
// "Error codes"; Elastic Load Balancing, "Common errors").
var applyReasons = map[string]string{
	"UnauthorizedOperation": providers.ReasonNotPermitted,
	"AccessDenied":          providers.ReasonNotPermitted,
	"AccessDeniedException": providers.ReasonNotPermitted,
	// What termination and stop protection answer, and deletion protection.
	"OperationNotPermitted":          providers.ReasonProtected,
	"OperationNotPermittedException": providers.ReasonProtected,
}

// applyError sorts what AWS said to a changing call. What may pass by itself
// stays a plain error: no answer, throttling, failures of the service's own,
// credentials that can be renewed. Everything else that AWS refuses it will
// refuse again.
//
// The text is the same each time the same happens: it has neither the request's
// id nor the blob that EC2 encodes the failed authorization in.
func applyError(err error, what string) error {
	code := apiCode(err)
	switch {
	case code == "" || isThrottle(err) || refusesCaller(err) || isPassing(err, code):
		return fmt.Errorf("%s: %w", what, err)
	case applyReasons[code] != "":
		return &providers.ApplyError{Reason: applyReasons[code], Err: &answer{what, code, err}}
	case isNotFound(err) || strings.HasSuffix(code, "NotFound"):
		return &providers.ApplyError{Reason: providers.ReasonMoved, Err: &answer{what, code, err}}
	default:
		return &providers.ApplyError{Reason: providers.ReasonRefused, Err: &answer{what, code, err}}
	}
}

// isPassing reports failures on the service's side (status 5xx, which covers
// InsufficientInstanceCapacity too) and codes that the SDK retries.
func isPassing(err error, code string) bool {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return true
	}
	var response *smithyhttp.ResponseError
	if errors.As(err, &response) && response.HTTPStatusCode() >= http.StatusInternalServerError {
		return true
	}
	_, retried := retry.DefaultRetryableErrorCodes[code]
	return retried
}

// answer is an error of the API in words that do not change from call to call.
type answer struct {
	what, code string
	err        error
}

// longestMessage bounds what is taken over of a message.
const longestMessage = 300

func (a *answer) Error() string {
	message := ""
	if api := (smithy.APIError)(nil); errors.As(a.err, &api) {
		message, _, _ = strings.Cut(api.ErrorMessage(), "Encoded authorization failure message")
	}
	message = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, message))
	if len(message) > longestMessage {
		message = strings.ToValidUTF8(providers.RedactWithin(message, longestMessage), "") + "…"
	}
	if message == "" {
		return a.what + ": " + a.code
	}
	return a.what + ": " + a.code + ": " + message
}

// Unwrap gives the SDK's error.
func (a *answer) Unwrap() error { return a.err }
