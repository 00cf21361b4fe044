package management

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudv1 "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/cloud/api/v1alpha1"
	inmemoryruntime "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/runtime"
	inmemoryserver "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/server"
	"sigs.k8s.io/cluster-api/util/certs"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/test/capi"
)

const loopback = "127.0.0.1"

// workloads are the API servers and etcds of all workload clusters: upstream's
// in-memory ones, one port a cluster.
type workloads struct {
	objects inmemoryruntime.Manager
	servers *inmemoryserver.WorkloadClustersMux
	// mu guards the ports: upstream takes a port that was free a moment ago.
	mu   sync.Mutex
	open map[types.NamespacedName]*workload
}

// workload is one cluster's side of it.
type workload struct {
	all  *workloads
	name types.NamespacedName
	// client reads and writes the objects behind the API server, whether one
	// runs or not.
	client inmemoryruntime.Client
	port   int32
	// mu keeps changes of the etcd cluster's members apart.
	mu sync.Mutex
}

func newWorkloads(ctx context.Context) (*workloads, error) {
	objects := inmemoryruntime.NewManager(capi.Scheme(
		cloudv1.AddToScheme, corev1.AddToScheme, appsv1.AddToScheme, rbacv1.AddToScheme,
		storagev1.AddToScheme, apiextensionsv1.AddToScheme, policyv1.AddToScheme,
	))
	if err := objects.Start(ctx); err != nil {
		return nil, err
	}
	// Port 0 has upstream's debugging server take a free one.
	servers, err := inmemoryserver.NewWorkloadClustersMux(objects, loopback, inmemoryserver.CustomPorts{})
	if err != nil {
		return nil, err
	}
	return &workloads{objects: objects, servers: servers, open: map[types.NamespacedName]*workload{}}, nil
}

// stop ends all servers. Upstream waits for watches to end, which they do not
// by themselves, so that its running out of time is no error.
func (w *workloads) stop() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var errs []error
	for name := range w.open {
		errs = append(errs, w.servers.DeleteWorkloadClusterListener(name.String()))
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := w.servers.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// of gives a cluster's workload, made if need be: an address that nobody
// answers at, for there is no control plane yet. Port 0 is any that is free.
func (w *workloads) of(ctx context.Context, cluster types.NamespacedName, port int32) (_ *workload, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l, ok := w.open[cluster]; ok {
		return l, nil
	}
	if port == 0 {
		if port, err = freePort(); err != nil {
			return nil, err
		}
	}
	group := cluster.String()
	w.objects.AddResourceGroup(group)
	l := &workload{all: w, name: cluster, client: w.objects.GetResourceGroup(group).GetClient(), port: port}
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespacePublic, metav1.NamespaceSystem} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}}
		if err := l.ensure(ctx, ns); err != nil {
			return nil, err
		}
	}
	if _, err := w.servers.InitWorkloadClusterListener(group, port); err != nil {
		return nil, err
	}
	if err := w.servers.RegisterResourceGroup(group, group); err != nil {
		return nil, err
	}
	w.open[cluster] = l
	return l, nil
}

// close forgets a cluster and all of its objects.
func (w *workloads) close(cluster types.NamespacedName) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, ok := w.open[cluster]; !ok {
		return nil
	}
	delete(w.open, cluster)
	w.objects.DeleteResourceGroup(cluster.String())
	return w.servers.DeleteWorkloadClusterListener(cluster.String())
}

// freePort gives a port that was free a moment ago.
func freePort() (int32, error) {
	l, err := net.Listen("tcp", loopback+":0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer func() { _ = l.Close() }()
	return int32(l.Addr().(*net.TCPAddr).Port), nil
}

// ensure makes an object unless there is one of its name.
func (l *workload) ensure(ctx context.Context, o client.Object) error {
	err := l.client.Create(ctx, o)
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %T %s in workload cluster %s: %w", o, o.GetName(), l.name, err)
	}
	return nil
}

// remove deletes an object, if there is one.
func (l *workload) remove(ctx context.Context, o client.Object) error {
	if err := l.client.Delete(ctx, o); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %T %s in workload cluster %s: %w", o, o.GetName(), l.name, err)
	}
	return nil
}

// edit reads an object, changes it and writes it back. An object that is not
// there stays away.
func (l *workload) edit(ctx context.Context, o client.Object, change func()) error {
	for {
		err := l.client.Get(ctx, client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil {
			change()
			err = l.client.Update(ctx, o)
		}
		if apierrors.IsConflict(err) {
			continue // Cluster API writes to Nodes as well
		}
		if err != nil {
			return fmt.Errorf("change %T %s in workload cluster %s: %w", o, o.GetName(), l.name, err)
		}
		return nil
	}
}

// authority reads one of the cluster's certificate authorities, which
// KubeadmControlPlane makes.
func authority(ctx context.Context, c client.Reader, cluster types.NamespacedName, purpose secret.Purpose) (*x509.Certificate, *rsa.PrivateKey, error) {
	s, err := secret.GetFromNamespacedName(ctx, c, cluster, purpose)
	if err != nil {
		return nil, nil, fmt.Errorf("read authority %s of cluster %s: %w", purpose, cluster, err)
	}
	cert, err := certs.DecodeCertPEM(s.Data[secret.TLSCrtDataName])
	if err != nil {
		return nil, nil, fmt.Errorf("authority %s of cluster %s: certificate: %w", purpose, cluster, err)
	}
	signer, err := certs.DecodePrivateKeyPEM(s.Data[secret.TLSKeyDataName])
	if err != nil {
		return nil, nil, fmt.Errorf("authority %s of cluster %s: key: %w", purpose, cluster, err)
	}
	key, ok := signer.(*rsa.PrivateKey)
	if !ok {
		return nil, nil, fmt.Errorf("authority %s of cluster %s: key is a %T, and upstream's servers take RSA", purpose, cluster, signer)
	}
	return cert, key, nil
}
