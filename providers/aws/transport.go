package aws

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// Times that one attempt of one call may take: in all (a page of 1,000
// instances is some megabytes), and without a byte.
const (
	attemptTimeout = 60 * time.Second
	silenceTimeout = 20 * time.Second
)

// newHTTPClient makes the client to load a configuration with, which adds
// AWS_CA_BUNDLE to it.
func newHTTPClient() *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().WithTimeout(attemptTimeout).WithReadTimeout(silenceTimeout)
}

// plainBodies hides that a request's body can write itself. The SDK closes the
// body as soon as the answer's head is there; net/http may then still be
// looking for the body's end, and smithy-go's (1.28.9) WriteTo answers that
// with io.EOF as an error, upon which net/http closes the connection under the
// answer. Read, which remains, does it right. Without this a fast endpoint on
// a busy machine costs a second attempt now and then.
type plainBodies struct{ client aws.HTTPClient }

// Do implements aws.HTTPClient.
func (p plainBodies) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		r.Body = plainBody{r.Body}
	}
	return p.client.Do(r)
}

type plainBody struct{ io.ReadCloser }

// headSize is how much of an answer is looked at: its root element, after an
// XML declaration and a namespace.
const headSize = 512

// wrongAnswerError is success by its status, from something that is not the service
// that was asked: a failing front end, a proxy's page.
type wrongAnswerError struct {
	operation string
	status    int
	head      []byte
}

func (e *wrongAnswerError) Error() string {
	what := "an empty body"
	if len(e.head) > 0 {
		what = fmt.Sprintf("%.60q", e.head)
	}
	return fmt.Sprintf("status %d with %s is no answer to %s: something other than AWS answered, or AWS is failing", e.status, what, e.operation)
}

// RetryableError makes the SDK try again.
func (*wrongAnswerError) RetryableError() bool { return true }

// demandAnswers refuses successes that do not hold the operation's answer. The
// SDK reads an empty body, or any other XML, as a listing of nothing: a region
// that fails in that way would look as if all in it were gone.
func demandAnswers(stack *middleware.Stack) error {
	return stack.Deserialize.Add(middleware.DeserializeMiddlewareFunc("HoldfastAnswers", func(
		ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler,
	) (middleware.DeserializeOutput, middleware.Metadata, error) {
		out, meta, err := next.HandleDeserialize(ctx, in)
		response, ok := out.RawResponse.(*smithyhttp.Response)
		if err != nil || !ok || response.StatusCode < 200 || response.StatusCode >= 300 {
			return out, meta, err
		}
		operation := awsmiddleware.GetOperationName(ctx)
		body := bufio.NewReaderSize(response.Body, headSize)
		head, err := body.Peek(headSize)
		if err != nil && err != io.EOF { //nolint:errorlint // Peek gives the reader's own error
			return out, meta, fmt.Errorf("read the answer to %s: %w", operation, err)
		}
		if !bytes.Contains(head, []byte("<"+operation+"Response")) {
			return out, meta, &wrongAnswerError{operation: operation, status: response.StatusCode, head: bytes.Clone(head)}
		}
		response.Body = readCloser{body, response.Body}
		return out, meta, nil
	}), middleware.After)
}

type readCloser struct {
	io.Reader
	io.Closer
}
