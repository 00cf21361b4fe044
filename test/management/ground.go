package management

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"strconv"
	"sync"

	"github.com/go-logr/logr"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc/grpclog"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crzap "sigs.k8s.io/controller-runtime/pkg/log/zap"
)

// Ground is one test's part of a management cluster: a namespace, and clouds of
// its own.
type Ground struct {
	// Config reaches the API server as an administrator; each user copies it.
	Config *rest.Config
	// Kubeconfig is a file that does the same for a program.
	Kubeconfig string
	// Client reads and writes the API server, without a cache, every kind that
	// there is in the ground's scheme.
	Client client.WithWatch
	// Namespace holds the test's clusters.
	Namespace string

	t       T
	plane   *plane
	ctx     context.Context
	running sync.WaitGroup

	// beside is a ground whose clouds are another's.
	beside bool

	mu      sync.Mutex
	aws     *AWSCloud
	vsphere *VSphereCloud
	faults  []error
}

// fault keeps an error of the ground itself for whoever waits in vain.
func (g *Ground) fault(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults = append(g.faults, err)
}

// T is what the ground asks of a test; [testing.TB] is one. Fatal and Fatalf must
// not return to their caller, and what Cleanup is given must run at the end, the
// last first.
type T interface {
	Name() string
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Option changes what Start gives.
type Option func(*options)

type options struct {
	alone     bool
	bare      bool
	boots     bool
	namespace string
	beside    *Ground
}

// Alone has a test use a control plane of its own, which it may stop, slow or
// break.
func Alone() Option { return func(o *options) { o.alone = true } }

// Bare has a test use a control plane of its own on which nothing of upstream's
// runs: its reconcilers, webhooks and conversions are for a program under test to
// run, where the API server asks for them ([Ground.Webhooks]). CRDs, webhook
// configurations and the stand-ins of infrastructure providers are there.
func Bare() Option { return func(o *options) { o.alone, o.bare = true, true } }

// Boots is Bare without the stand-ins of infrastructure providers: what Clusters
// and Machines declare is for a program under test to make. All that the ground
// does is to have an instance that runs boot into a node.
func Boots() Option { return func(o *options) { o.alone, o.bare, o.boots = true, true, true } }

// Beside is Boots on a second management cluster: its clouds, workload clusters and
// namespace are another ground's, whose clusters can be moved to it
// ([Cluster.MovedTo]). The other one is of Boots too.
func Beside(other *Ground) Option {
	return func(o *options) {
		o.alone, o.bare, o.boots, o.beside, o.namespace = true, true, true, other, other.Namespace
	}
}

// In has the ground be a namespace of that name, where a person is to type it. It
// must not exist yet, but for default.
func In(namespace string) Option { return func(o *options) { o.namespace = namespace } }

// shared is the plane of a package whose TestMain is [Main].
var shared struct {
	mu    sync.Mutex
	on    bool
	plane *plane
}

// Main runs a package's tests on one shared control plane, which starts with
// the first test that wants it. It gives the exit code:
//
//	func TestMain(m *testing.M) { os.Exit(management.Main(m)) }
func Main(m interface{ Run() int }) int {
	shared.mu.Lock()
	shared.on = true
	shared.mu.Unlock()
	code := m.Run()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.on = false
	if shared.plane == nil {
		return code
	}
	if err := shared.plane.stop(); err != nil {
		fmt.Fprintln(os.Stderr, "management:", err)
		code = max(code, 1)
	}
	shared.plane = nil
	return code
}

// LogVariable names a file that controller-runtime's logs of a package's tests
// go to, upstream's reconcilers' among them. Without it they go nowhere, unless a
// test sets a logger of its own first.
const LogVariable = "HOLDFAST_GROUND_LOG"

// quiet has libraries keep to themselves what is as it should be here:
// controller-runtime that it has no logger, and upstream's servers and its etcd
// client what they make of each other and of members that are dead.
var quiet = sync.OnceFunc(func() {
	logger := logr.Discard()
	if path := os.Getenv(LogVariable); path != "" {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			panic(fmt.Sprintf("%s: %v", LogVariable, err))
		}
		logger = crzap.New(crzap.WriteTo(file), crzap.Level(zapcore.Level(-4)))
	}
	ctrl.SetLogger(logger)
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, os.Stderr))
	log.SetOutput(without{log.Writer(), [][]byte{
		[]byte("superfluous response.WriteHeader call from github.com/emicklei/go-restful"),
		[]byte("http: TLS handshake error from " + loopback),
	}})
})

// without drops lines that have one of some texts in them.
type without struct {
	w     io.Writer
	texts [][]byte
}

func (o without) Write(line []byte) (int, error) {
	for _, text := range o.texts {
		if bytes.Contains(line, text) {
			return len(line), nil
		}
	}
	return o.w.Write(line)
}

// Start gives a test its ground, until it ends. It fails the test where the
// binaries are missing: hack/test.sh builds them.
func Start(t T, opts ...Option) *Ground {
	t.Helper()
	o := options{namespace: namespace()}
	for _, opt := range opts {
		opt(&o)
	}
	quiet()
	p, err := acquire(t, o)
	if err != nil {
		t.Fatalf("start a management cluster: %v", err)
	}
	ctx, cancel := context.WithCancel(p.ctx)
	g := &Ground{
		Config: rest.CopyConfig(p.control.Config), Kubeconfig: p.control.Kubeconfig, Client: p.client,
		Namespace: o.namespace, t: t, plane: p, ctx: ctx,
	}
	if other := o.beside; other != nil {
		other.mu.Lock()
		g.beside, g.aws, g.vsphere = true, other.aws, other.vsphere
		other.mu.Unlock()
	}
	if err := p.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: g.Namespace, Annotations: map[string]string{"test": t.Name()},
	}}); err != nil && g.Namespace != metav1.NamespaceDefault {
		cancel()
		t.Fatalf("start a management cluster: %v", err)
	}
	p.mu.Lock()
	p.grounds[g.Namespace] = g
	p.mu.Unlock()
	t.Cleanup(func() {
		if err := g.close(cancel); err != nil {
			t.Errorf("leave the management cluster: %v", err)
		}
	})
	return g
}

// acquire gives the shared plane, or one that ends with the test.
func acquire(t T, o options) (*plane, error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.on && !o.alone {
		if shared.plane == nil {
			p, err := newPlane(options{})
			if err != nil {
				return nil, err
			}
			shared.plane = p
		}
		return shared.plane, nil
	}
	p, err := newPlane(o)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := p.stop(); err != nil {
			t.Errorf("stop the management cluster: %v", err)
		}
	})
	return p, nil
}

// namespace gives a new name. It is short, since load balancers are named after
// namespace and cluster and must not have more than 32 letters.
func namespace() string { return "t-" + rand.String(5) }

// Webhooks gives where the API server asks for admission and conversion, and the
// folder with the certificate that it trusts there.
func (g *Ground) Webhooks() (address, folder string) {
	w := g.plane.control.Webhooks
	return net.JoinHostPort(w.LocalServingHost, strconv.Itoa(w.LocalServingPort)), w.LocalServingCertDir
}

// Scheme has every kind that the ground serves. Callers must not change it.
func (g *Ground) Scheme() *runtime.Scheme { return g.plane.manager.GetScheme() }

// close takes the test's clusters away without any of the ceremony that
// deleting a cluster is, and ends its clouds.
func (g *Ground) close(cancel context.CancelFunc) error {
	g.plane.mu.Lock()
	delete(g.plane.grounds, g.Namespace)
	g.plane.mu.Unlock()
	cancel()
	g.running.Wait()
	var err error
	if !g.plane.bare { // whoever serves a bare one's webhooks may have ended; it ends as a whole
		err = sweepAway(g.plane.ctx, g.plane.client, g.Namespace)
	}
	g.plane.mu.Lock()
	var clusters []client.ObjectKey
	for name := range g.plane.fleets {
		if name.Namespace == g.Namespace {
			clusters = append(clusters, name)
		}
	}
	g.plane.mu.Unlock()
	for _, name := range clusters {
		err = errors.Join(err, g.plane.closeFleet(name))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.beside {
		return err
	}
	if g.aws != nil {
		g.aws.Server.Close()
	}
	if g.vsphere != nil {
		g.vsphere.Close()
	}
	return err
}
