package node

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// userAgent names this program to workload clusters.
const userAgent = "holdfast"

// RESTConfig gives access to a workload cluster by the kubeconfig Secret that
// Cluster API keeps of it: CLUSTER-kubeconfig, key value (Cluster API, contract of
// control planes, "Cluster kubeconfig management"). Its errors hold nothing of
// the Secret's contents.
//
// Whoever may write that Secret is not thereby let into this process: a
// kubeconfig that names a program to run or files of this machine is refused.
func RESTConfig(ctx context.Context, reader client.Reader, cluster types.NamespacedName) (*rest.Config, error) {
	data, err := kubeconfigOf(ctx, reader, cluster)
	if err != nil {
		return nil, err
	}
	return restConfig(data, cluster)
}

func kubeconfigOf(ctx context.Context, reader client.Reader, cluster types.NamespacedName) ([]byte, error) {
	data, err := kubeconfig.FromSecret(ctx, reader, cluster)
	name := secretName(cluster)
	var status apierrors.APIStatus
	switch {
	case err == nil:
		return data, nil
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("there is no Secret %s with its kubeconfig", name)
	case errors.As(err, &status), ctx.Err() != nil:
		return nil, fmt.Errorf("get Secret %s with its kubeconfig: %w", name, err)
	default:
		return nil, fmt.Errorf("the Secret %s holds no kubeconfig under the key %s: %w", name, secret.KubeconfigDataName, err)
	}
}

func secretName(cluster types.NamespacedName) string {
	return cluster.Namespace + "/" + secret.Name(cluster.Name, secret.Kubeconfig)
}

func restConfig(data []byte, cluster types.NamespacedName) (*rest.Config, error) {
	raw, err := clientcmd.Load(data)
	if err != nil {
		return nil, fmt.Errorf("the Secret %s holds no kubeconfig that can be read", secretName(cluster)) // the cause may quote it
	}
	if what := reachesOut(raw); what != "" {
		return nil, fmt.Errorf("the kubeconfig in Secret %s names %s, which is not followed: it has to hold its credentials itself", secretName(cluster), what)
	}
	cfg, err := clientcmd.NewDefaultClientConfig(*raw, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("the kubeconfig in Secret %s is not complete: want a server, and a user with credentials, in its current context", secretName(cluster))
	}
	cfg.UserAgent = userAgent
	cfg.QPS = -1 // a few calls a sweep, and the server's own fairness protects it
	return cfg, nil
}

// reachesOut says what a kubeconfig takes from outside of itself.
func reachesOut(raw *clientcmdapi.Config) string {
	for _, user := range raw.AuthInfos {
		switch {
		case user.Exec != nil:
			return "a program to run"
		case user.AuthProvider != nil:
			return "an auth provider"
		case user.TokenFile != "", user.ClientCertificate != "", user.ClientKey != "":
			return "a file of credentials"
		}
	}
	for _, c := range raw.Clusters {
		if c.CertificateAuthority != "" {
			return "a file of certificates"
		}
	}
	return ""
}

// connection is a client made from one content of a Secret.
type connection struct {
	digest [sha256.Size]byte
	client client.Client
	http   *http.Client
}

func (c *connection) close() { c.http.CloseIdleConnections() }
