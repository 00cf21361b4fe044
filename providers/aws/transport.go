package aws

import (
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
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
