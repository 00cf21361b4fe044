package vsphere

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	infrav1 "sigs.k8s.io/cluster-api-provider-vsphere/api/govmomi/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

// Keys of a credentials Secret (CAPV, package identity).
const (
	usernameKey = "username"
	passwordKey = "password"
)

// credentialsLast is how long credentials are taken for current without
// reading their Secret again: one sweep asks for each of a cluster's owners.
const credentialsLast = 30 * time.Second

type credentials struct {
	// identity names where they come from, for the scope.
	identity           string
	username, password string
}

type cachedCredentials struct {
	credentials
	until time.Time
}

// credentialsFor gives a cluster's credentials. Answers are kept for a moment,
// by cluster and identity so that none serves another cluster; failures are
// not kept.
func (p *Provider) credentialsFor(ctx context.Context, cluster *infrav1.VSphereCluster, server *url.URL) (credentials, error) {
	ref := cluster.Spec.IdentityRef
	if !ref.IsDefined() {
		return p.ambient(server)
	}
	key := strings.Join([]string{cluster.Namespace, cluster.Name, string(cluster.UID), string(ref.Kind), ref.Name}, "\x00")
	now := p.now()
	p.mu.Lock()
	cached, ok := p.creds[key]
	p.mu.Unlock()
	if ok && now.Before(cached.until) {
		return cached.credentials, nil
	}
	creds, err := p.readIdentity(ctx, cluster)
	if err != nil {
		return credentials{}, err
	}
	p.mu.Lock()
	p.creds[key] = cachedCredentials{credentials: creds, until: now.Add(credentialsLast)}
	p.mu.Unlock()
	return creds, nil
}

// ambient gives the process's own credentials. They are for the one server
// that they were given with: any author of a VSphereCluster could otherwise
// have them sent to a server of his own.
func (p *Provider) ambient(server *url.URL) (credentials, error) {
	env := p.env
	if env.server == "" || env.username == "" || env.password == "" {
		return credentials{}, unavailable(errors.New(
			"the VSphereCluster has no spec.identityRef, and VSPHERE_SERVER, VSPHERE_USERNAME and VSPHERE_PASSWORD are not all set"))
	}
	own, err := parseServer(env.server)
	if err != nil {
		return credentials{}, unavailable(fmt.Errorf("VSPHERE_SERVER: %w", err))
	}
	if hostOf(own) != hostOf(server) {
		return credentials{}, unavailable(fmt.Errorf(
			"the credentials in the environment are for VSPHERE_SERVER %s and are not sent to %s: give the VSphereCluster a spec.identityRef",
			hostOf(own), hostOf(server)))
	}
	return credentials{username: env.username, password: env.password}, nil
}

func unavailable(err error) error {
	return &providers.ScopeError{Reason: providers.ReasonCredentials, Err: err}
}

func forbidden(err error) error {
	return &providers.ScopeError{Reason: providers.ReasonForbidden, Err: err}
}

// readIdentity follows the identity reference under the rules of CAPV's
// package identity: a Secret lies in the cluster's namespace; a
// VSphereClusterIdentity names a Secret in the controller's, and its
// allowedNamespaces must select the cluster's.
func (p *Provider) readIdentity(ctx context.Context, cluster *infrav1.VSphereCluster) (credentials, error) {
	ref := cluster.Spec.IdentityRef
	switch ref.Kind {
	case infrav1.SecretKind:
		key := client.ObjectKey{Namespace: cluster.Namespace, Name: ref.Name}
		secret, err := p.readSecret(ctx, key)
		if err != nil {
			return credentials{}, err
		}
		if owner := otherOwner(secret, "VSphereCluster", cluster.Name); owner != "" {
			return credentials{}, forbidden(fmt.Errorf("the Secret %s belongs to %s", key, owner))
		}
		return secretCredentials(secret, "Secret/"+key.String())
	case infrav1.VSphereClusterIdentityKind:
		return p.readClusterIdentity(ctx, cluster)
	default:
		return credentials{}, invalidSpec(fmt.Errorf("VSphereCluster %s/%s: spec.identityRef.kind %q is neither Secret nor VSphereClusterIdentity",
			cluster.Namespace, cluster.Name, ref.Kind))
	}
}

func (p *Provider) readClusterIdentity(ctx context.Context, cluster *infrav1.VSphereCluster) (credentials, error) {
	name := cluster.Spec.IdentityRef.Name
	identity := &infrav1.VSphereClusterIdentity{}
	if err := p.reader.Get(ctx, client.ObjectKey{Name: name}, identity); err != nil {
		return credentials{}, unavailable(fmt.Errorf("read VSphereClusterIdentity %s: %w", name, err))
	}
	if ready := identity.Status.Ready; ready != nil && !*ready {
		return credentials{}, unavailable(fmt.Errorf("VSphereClusterIdentity %s is not ready: %s", name, notReady(identity)))
	}
	if err := p.allowed(ctx, identity, cluster.Namespace); err != nil {
		return credentials{}, err
	}
	key := client.ObjectKey{Namespace: p.env.controllerNamespace, Name: identity.Spec.SecretName}
	secret, err := p.readSecret(ctx, key)
	if err != nil {
		return credentials{}, err
	}
	if owner := otherOwner(secret, "VSphereClusterIdentity", name); owner != "" {
		return credentials{}, forbidden(fmt.Errorf("the Secret %s of VSphereClusterIdentity %s belongs to %s", key, name, owner))
	}
	return secretCredentials(secret, "VSphereClusterIdentity/"+name)
}

// allowed checks allowedNamespaces: none given allows no namespace, an empty
// selector every one.
func (p *Provider) allowed(ctx context.Context, identity *infrav1.VSphereClusterIdentity, namespace string) error {
	if identity.Spec.AllowedNamespaces == nil {
		return forbidden(fmt.Errorf("VSphereClusterIdentity %s has no spec.allowedNamespaces: no namespace may use it", identity.Name))
	}
	selector, err := metav1.LabelSelectorAsSelector(&identity.Spec.AllowedNamespaces.Selector)
	if err != nil {
		return invalidSpec(fmt.Errorf("VSphereClusterIdentity %s: spec.allowedNamespaces.selector: %w", identity.Name, err))
	}
	if selector.Empty() {
		return nil
	}
	ns := &corev1.Namespace{}
	if err := p.reader.Get(ctx, client.ObjectKey{Name: namespace}, ns); err != nil {
		return forbidden(fmt.Errorf("read Namespace %s, on whose labels VSphereClusterIdentity %s decides: %w", namespace, identity.Name, err))
	}
	if !selector.Matches(labels.Set(ns.Labels)) {
		return forbidden(fmt.Errorf("VSphereClusterIdentity %s does not allow namespace %s: its selector is %q", identity.Name, namespace, selector))
	}
	return nil
}

func notReady(identity *infrav1.VSphereClusterIdentity) string {
	for _, c := range identity.Status.Conditions {
		if c.Type == infrav1.VSphereClusterIdentityAvailableCondition && c.Status != metav1.ConditionTrue {
			return strings.TrimSpace(c.Reason + " " + c.Message)
		}
	}
	return "CAPV gives no reason"
}

func (p *Provider) readSecret(ctx context.Context, key client.ObjectKey) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	err := p.reader.Get(ctx, key, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, unavailable(fmt.Errorf("the Secret %s with the vCenter credentials does not exist", key))
	case err != nil:
		return nil, unavailable(fmt.Errorf("read Secret %s with the vCenter credentials: %w", key, err))
	default:
		return secret, nil
	}
}

// otherOwner gives the VSphereCluster or VSphereClusterIdentity that owns a
// Secret, if it is another one than the user: CAPV lets only one use it.
func otherOwner(secret *corev1.Secret, kind, name string) string {
	other := ""
	for _, o := range secret.OwnerReferences {
		if !strings.HasPrefix(o.APIVersion, infrav1.GroupName+"/") || o.Kind != "VSphereCluster" && o.Kind != "VSphereClusterIdentity" {
			continue
		}
		if o.Kind == kind && o.Name == name {
			return ""
		}
		other = o.Kind + " " + o.Name
	}
	return other
}

// secretCredentials reads data, and stringData too, which a Secret that comes
// from a file still has.
func secretCredentials(secret *corev1.Secret, identity string) (credentials, error) {
	value := func(key string) string {
		if v, ok := secret.StringData[key]; ok {
			return v
		}
		return string(secret.Data[key])
	}
	creds := credentials{identity: identity, username: value(usernameKey), password: value(passwordKey)}
	if creds.username == "" || creds.password == "" {
		return credentials{}, unavailable(fmt.Errorf("the Secret %s/%s has no %s and %s", secret.Namespace, secret.Name, usernameKey, passwordKey))
	}
	return creds, nil
}
