package ec2sim

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"k8s.io/utils/clock"
)

// Server is one simulated cloud of several accounts and regions. It is safe
// for concurrent use; calls are served one at a time.
type Server struct {
	options Options
	delays  Delays
	clock   clock.PassiveClock
	http    *httptest.Server
	closed  chan struct{}
	once    sync.Once

	mu          sync.Mutex
	credentials map[string]Credential
	accounts    map[string]*account
	calls       []Call
	faults      []*faultState
	buckets     map[bucketKey]*bucket
	requests    uint64
	ids         uint64
	publicIPs   uint32
	emitted     uint64
	events      []Event        // that are not handed on yet
	sizes       map[string]int // of each action's last answer, to allocate the next one at once
}

// account is what is global to an AWS account.
type account struct {
	id       string
	regions  map[string]*region
	profiles map[string]*instanceProfile
}

// New starts a server on a free port of the loopback interface. Call Close.
func New(options Options) *Server {
	s := &Server{
		options: options, clock: options.Clock, closed: make(chan struct{}),
		credentials: map[string]Credential{}, accounts: map[string]*account{}, buckets: map[bucketKey]*bucket{},
		sizes: map[string]int{},
	}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	if len(s.options.Regions) == 0 {
		s.options.Regions = []string{"eu-west-1", "us-east-1", "us-west-2"}
	}
	s.delays = *DefaultDelays()
	if options.Delays != nil {
		s.delays = *options.Delays
	}
	if s.delays.TerminatedVisible == 0 {
		s.delays.TerminatedVisible = time.Hour
	}
	if s.delays.NATGatewayVisible == 0 {
		s.delays.NATGatewayVisible = time.Hour
	}
	if len(options.Credentials) == 0 {
		s.options.Credentials = []Credential{DefaultCredential()}
	}
	for _, credential := range s.options.Credentials {
		s.credentials[credential.AccessKeyID] = credential
	}
	s.http = httptest.NewServer(s)
	return s
}

// URL is the endpoint for every service, as AWS_ENDPOINT_URL wants it.
func (s *Server) URL() string { return s.http.URL }

// Close stops the listener and ends requests that a fault holds open.
// It may be called more than once.
func (s *Server) Close() {
	s.once.Do(func() {
		close(s.closed)
		s.http.CloseClientConnections()
		s.http.Close()
	})
}

// Credentials are those that the server was started with, in order.
func (s *Server) Credentials() []Credential {
	return append([]Credential(nil), s.options.Credentials...)
}

// AddCredential makes the server accept one more access key, or changes one:
// its rights, its expiry, its account.
func (s *Server) AddCredential(credential Credential) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.credentials[credential.AccessKeyID] = credential
}

// RevokeCredential makes the server refuse an access key from now on.
func (s *Server) RevokeCredential(accessKeyID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.credentials, accessKeyID)
}

// Config is an SDK configuration that reaches this server as its first
// credential, without any of the machine's own AWS settings.
func (s *Server) Config(region string) aws.Config {
	return s.ConfigFor(s.options.Credentials[0], region)
}

// ConfigFor is [Server.Config] for another credential.
func (s *Server) ConfigFor(credential Credential, region string) aws.Config {
	return aws.Config{
		Region: region,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{
				AccessKeyID: credential.AccessKeyID, SecretAccessKey: credential.SecretAccessKey,
				SessionToken: credential.SessionToken, Source: "ec2sim",
			}, nil
		}),
		BaseEndpoint: aws.String(s.URL()),
		HTTPClient:   &http.Client{Transport: Transport(s.http.Client().Transport)},
	}
}

// Scope names a region of an account for the Go-side helpers.
type Scope struct{ Account, Region string }

// DefaultScope is the first credential's account in the named region.
func (s *Server) DefaultScope(region string) Scope {
	return Scope{Account: s.options.Credentials[0].Account, Region: region}
}

// region gives the state of a region, made on its first use. The caller
// holds the lock.
func (s *Server) region(scope Scope) (*region, error) {
	known := false
	for _, name := range s.options.Regions {
		known = known || name == scope.Region
	}
	if !known {
		return nil, fmt.Errorf("region %q does not exist here; Options.Regions has %v", scope.Region, s.options.Regions)
	}
	acct := s.account(scope.Account)
	if acct.regions[scope.Region] == nil {
		acct.regions[scope.Region] = newRegion(s, acct, scope.Region)
	}
	return acct.regions[scope.Region], nil
}

func (s *Server) account(id string) *account {
	if s.accounts[id] == nil {
		s.accounts[id] = &account{id: id, regions: map[string]*region{}, profiles: map[string]*instanceProfile{}}
	}
	return s.accounts[id]
}

var _ http.Handler = (*Server)(nil)
