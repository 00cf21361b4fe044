package ec2sim

import (
	"fmt"
	"net/http"
	"strings"
)

// apiError is an error that the caller sees. Codes and statuses are those of
// "Error codes for the Amazon EC2 API" and of each service's common errors.
type apiError struct {
	Code    string
	Message string
	Status  int
}

func (e *apiError) Error() string { return e.Code + ": " + e.Message }

func failf(code, format string, args ...any) *apiError {
	status := http.StatusBadRequest
	switch code {
	case "RequestLimitExceeded", "Unavailable", "ServiceUnavailable":
		status = http.StatusServiceUnavailable
	case "InternalError", "InternalFailure":
		status = http.StatusInternalServerError
	case "UnauthorizedOperation", "AccessDenied", "InvalidClientTokenId", "SignatureDoesNotMatch", "ExpiredToken",
		"MissingAuthenticationToken":
		status = http.StatusForbidden
	case "AuthFailure":
		status = http.StatusUnauthorized
	case "DryRunOperation":
		status = http.StatusPreconditionFailed
	case "NoSuchEntity":
		status = http.StatusNotFound
	case "EntityAlreadyExists", "DeleteConflict":
		status = http.StatusConflict
	}
	return &apiError{Code: code, Message: fmt.Sprintf(format, args...), Status: status}
}

func missing(parameter string) *apiError {
	return failf("MissingParameter", "The request must contain the parameter %s", parameter)
}

func invalid(parameter, value, expecting string) *apiError {
	return failf("InvalidParameterValue", "Value (%s) for parameter %s is invalid. %s", value, parameter, expecting)
}

func dependency(format string, args ...any) *apiError {
	return failf("DependencyViolation", format, args...)
}

// errorBody renders an error as the service's protocol has it.
func errorBody(service string, e *apiError, requestID string) []byte {
	var b []byte
	switch service {
	case serviceKMS, serviceSecrets:
		return fmt.Appendf(nil, `{"__type":%s,"message":%s}`, quoteJSON(e.Code), quoteJSON(e.Message))
	case serviceEC2, "":
		b = append(b, `<?xml version="1.0" encoding="UTF-8"?>`+"\n<Response><Errors><Error>"...)
		b = appendText(b, "Code", e.Code)
		b = appendText(b, "Message", e.Message)
		b = append(b, "</Error></Errors>"...)
		b = appendText(b, "RequestID", requestID)
		return append(b, "</Response>"...)
	}
	kind := "Sender"
	if e.Status >= http.StatusInternalServerError {
		kind = "Receiver"
	}
	b = append(b, `<ErrorResponse xmlns="`+namespaces[service]+`"><Error>`...)
	b = appendText(b, "Type", kind)
	b = appendText(b, "Code", e.Code)
	b = appendText(b, "Message", e.Message)
	b = append(b, "</Error>"...)
	b = appendText(b, "RequestId", requestID)
	return append(b, "</ErrorResponse>"...)
}

// quoted joins ids as EC2's messages do: 'a, b'.
func quoted(ids []string) string { return "'" + strings.Join(ids, ", ") + "'" }
