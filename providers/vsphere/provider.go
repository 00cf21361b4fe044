package vsphere

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

// Provider reads vCenters, changes virtual machines where [Provider.Apply] is
// asked to, and watches them. It is safe for concurrent use.
type Provider struct {
	reader client.Reader
	env    environment
	now    func() time.Time
	secret secret
	index  indexCache
	count  callCounter

	mu      sync.Mutex
	conns   map[providers.Scope]*connection
	creds   map[string]cachedCredentials
	started startedTasks
	own     ownChains
	lapsed  map[providers.Scope]bool
	// shutdownPatience is how long a guest may take to shut down.
	shutdownPatience time.Duration
}

// environment is what the process was started with.
type environment struct {
	server, username, password string
	// caFile holds PEM certificates of authorities that are trusted besides
	// the system's.
	caFile string
	// controllerNamespace is where CAPV runs, and where it looks for the
	// Secrets of VSphereClusterIdentities.
	controllerNamespace string
}

// defaultControllerNamespace is where clusterctl installs CAPV.
const defaultControllerNamespace = "capv-system"

func readEnvironment(get func(string) string) environment {
	env := environment{
		server:              get("VSPHERE_SERVER"),
		username:            get("VSPHERE_USERNAME"),
		password:            get("VSPHERE_PASSWORD"),
		caFile:              get("VSPHERE_CA_FILE"),
		controllerNamespace: get("VSPHERE_CONTROLLER_NAMESPACE"),
	}
	if env.controllerNamespace == "" {
		env.controllerNamespace = defaultControllerNamespace
	}
	return env
}

func newProvider(reader client.Reader) (providers.Provider, error) {
	return New(reader, os.Getenv), nil
}

// New makes a provider that reads identity objects and Secrets through the
// reader, and VSPHERE_SERVER, VSPHERE_USERNAME, VSPHERE_PASSWORD,
// VSPHERE_CA_FILE and VSPHERE_CONTROLLER_NAMESPACE through getenv. Callers
// end it with [Provider.Close].
func New(reader client.Reader, getenv func(string) string) *Provider {
	return &Provider{
		reader: reader,
		env:    readEnvironment(getenv),
		now:    time.Now,
		secret: newSecret(),
		conns:  map[providers.Scope]*connection{},
		creds:  map[string]cachedCredentials{},

		shutdownPatience: defaultShutdownPatience,
	}
}

// Close ends all sessions. vCenter keeps few sessions for one account, and
// forgets one only after half an hour.
func (p *Provider) Close() error {
	const patience = 10 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	p.mu.Lock()
	conns := p.conns
	p.conns = map[providers.Scope]*connection{}
	p.mu.Unlock()
	var errs []error
	for _, c := range conns {
		errs = append(errs, c.close(ctx))
	}
	return errors.Join(errs...)
}
