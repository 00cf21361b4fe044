package ec2sim

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// Transport wraps one that an SDK client uses, so that it bears a server that
// answers at once. The SDK (smithy-go 1.28.9) closes a request's body as soon
// as the response begins; net/http, which sends the SDK's own kind of body
// before it has seen its end, then reads from the closed body, gets io.EOF
// for an error and closes the connection under a response that is still being
// read. A body in memory is sent in one go with the header. Over a network
// the answer never comes that early.
//
// Clients made from [Server.Config] have it already.
func Transport(next http.RoundTripper) http.RoundTripper { return wholeBody{next} }

type wholeBody struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t wholeBody) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return t.next.RoundTrip(r)
	}
	body, err := io.ReadAll(r.Body)
	if closed := r.Body.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, fmt.Errorf("read request body: %w", err)
	}
	whole := r.Clone(r.Context())
	whole.Body = io.NopCloser(bytes.NewReader(body))
	return t.next.RoundTrip(whole)
}

// CloseIdleConnections lets http.Client do so.
func (t wholeBody) CloseIdleConnections() {
	if closer, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}
