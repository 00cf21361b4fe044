package vsphere

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/session"
	"github.com/vmware/govmomi/session/keepalive"
	"github.com/vmware/govmomi/vapi/rest"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/holdfast-io/holdfast/providers"
)

const (
	// loginPatience bounds connecting and logging in where the caller's
	// context has no nearer end: an address that swallows packets would
	// otherwise hold a sweep for minutes.
	loginPatience = 30 * time.Second
	// keepAliveEvery is well below vCenter's idle limit of 30 minutes
	// (vpxd's session timeout).
	keepAliveEvery = 5 * time.Minute
)

// endpoint is how to reach one vCenter as somebody.
type endpoint struct {
	url        *url.URL
	user       *url.Userinfo
	thumbprint string
	caFile     string
}

func (e endpoint) same(o endpoint) bool {
	return e.url.String() == o.url.String() && e.thumbprint == o.thumbprint && e.caFile == o.caFile &&
		e.user.String() == o.user.String()
}

// connection holds at most one session at one vCenter under one identity.
type connection struct {
	mu       sync.Mutex
	endpoint endpoint
	live     *liveSession
	names    tagNames
	// count counts calls; it may be nil.
	count *callCounter
}

// liveSession is one login. Both clients share cookies and transport.
type liveSession struct {
	vim     *vim25.Client
	manager *session.Manager
	rest    *rest.Client
	// restErr says why there is no REST session: the rest is still read.
	restErr error
}

// use sets the endpoint, and drops the session when it is another one than
// before: a renewed password, a new thumbprint.
func (c *connection) use(ctx context.Context, e endpoint) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.endpoint.url != nil && c.endpoint.same(e) {
		return
	}
	if c.live != nil {
		// The old session ends by itself if this fails.
		_ = c.live.logout(ctx)
		c.live = nil
	}
	c.endpoint = e
}

// session gives the live session, logging in if there is none. A failure is
// returned and not remembered.
func (c *connection) session(ctx context.Context) (*liveSession, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live != nil {
		return c.live, nil
	}
	ctx, cancel := context.WithTimeout(ctx, loginPatience)
	defer cancel()
	live, err := login(ctx, c.endpoint, c.count)
	if err != nil {
		return nil, loginError(c.endpoint, err)
	}
	c.live = live
	return live, nil
}

// drop forgets a session that vCenter does not know any more.
func (c *connection) drop(live *liveSession) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == live {
		live.stop()
		c.live = nil
	}
}

func (c *connection) close(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil {
		return nil
	}
	err := c.live.logout(ctx)
	c.live = nil
	return err
}

// do runs work in the session, and once more in a new one if vCenter has
// forgotten the first.
func (c *connection) do(ctx context.Context, work func(*liveSession) error) error {
	live, err := c.session(ctx)
	if err != nil {
		return err
	}
	err = work(live)
	if !sessionLost(err) {
		return err
	}
	c.drop(live)
	if live, err = c.session(ctx); err != nil {
		return err
	}
	return work(live)
}

// sessionLost reports whether vCenter does not accept the session any more:
// it expired, or somebody ended it.
func sessionLost(err error) bool {
	if err == nil {
		return false
	}
	var status interface{ StatusCode() int }
	if errors.As(err, &status) && status.StatusCode() == http.StatusUnauthorized {
		return true
	}
	return fault.Is(err, &types.NotAuthenticated{}) || rest.IsStatusError(err, http.StatusUnauthorized)
}

func login(ctx context.Context, e endpoint, count *callCounter) (_ *liveSession, err error) {
	sc := soap.NewClient(e.url, false)
	sc.UserAgent = "holdfast"
	if err := trust(sc.DefaultTransport(), e); err != nil {
		return nil, err
	}
	vc, err := vim25.NewClient(ctx, sc)
	if err != nil {
		return nil, err
	}
	live := &liveSession{vim: vc, manager: session.NewManager(vc)}
	vc.RoundTripper = keepalive.NewHandlerSOAP(countedSOAP{vc.RoundTripper, count}, keepAliveEvery, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), loginPatience)
		defer cancel()
		_, err := methods.GetCurrentTime(ctx, vc.Client)
		return err
	})
	if err := live.manager.Login(ctx, e.user); err != nil {
		return nil, err
	}
	live.rest = rest.NewClient(vc)
	live.rest.Transport = countedREST{live.rest.Transport, count}
	live.rest.Transport = keepalive.NewHandlerREST(live.rest, keepAliveEvery, nil)
	if live.restErr = live.rest.Login(ctx, e.user); live.restErr != nil {
		live.restErr = fmt.Errorf("log in to the REST API of %s: %w", e.url.Host, live.restErr)
	}
	return live, nil
}

// stop ends the keep-alive without a call to vCenter.
func (s *liveSession) stop() {
	if h, ok := s.vim.RoundTripper.(*keepalive.HandlerSOAP); ok {
		h.Stop()
	}
	if h, ok := s.rest.Transport.(*keepalive.HandlerREST); ok {
		h.Stop()
	}
	s.vim.CloseIdleConnections()
	s.rest.CloseIdleConnections()
}

func (s *liveSession) logout(ctx context.Context) error {
	var errs []error
	if s.restErr == nil {
		errs = append(errs, s.rest.Logout(ctx))
	}
	errs = append(errs, s.manager.Logout(ctx))
	s.stop()
	for i, err := range errs {
		if sessionLost(err) {
			errs[i] = nil // gone already, which is what was wanted
		}
	}
	return errors.Join(errs...)
}

// loginError says who is at fault: wrong credentials, or the way there.
func loginError(e endpoint, err error) error {
	reason := providers.ReasonUnreachable
	what := "reach vCenter " + e.url.Host
	if fault.Is(err, &types.InvalidLogin{}) || fault.Is(err, &types.NoPermission{}) {
		reason = providers.ReasonCredentials
		what = fmt.Sprintf("log in to vCenter %s as %q", e.url.Host, e.user.Username())
	}
	var invalid *trustError
	if errors.As(err, &invalid) && invalid.ours {
		reason = providers.ReasonInvalidSpec
	}
	return &providers.ScopeError{Reason: reason, Err: fmt.Errorf("%s: %w", what, err)}
}
