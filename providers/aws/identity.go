package aws

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

// controllersNamespaceVariable names the environment variable that says where
// CAPA's controllers run. CAPA looks for the Secret of an
// AWSClusterStaticIdentity in its own namespace, which is this one unless CAPA
// was installed elsewhere.
const (
	controllersNamespaceVariable = "HOLDFAST_CAPA_NAMESPACE"
	controllersNamespace         = "capa-system"
)

// principal is who reads: one of CAPA's identity objects, resolved. A nil
// principal is the process itself, by the SDK's standard chain.
type principal struct {
	// name is kind/name of the identity object.
	name string
	// role and source are set for an AWSClusterRoleIdentity: the source
	// assumes the role.
	role   *infrav1.AWSClusterRoleIdentity
	source *principal
	// access is set for an AWSClusterStaticIdentity.
	access *accessKey
	// digest covers everything that the credentials depend on. It is only
	// ever compared, inside this process.
	digest string
}

type accessKey struct{ id, secret, token string }

// String keeps keys out of logs and errors.
func (accessKey) String() string { return "access key (hidden)" }

// GoString keeps keys out of logs and errors.
func (accessKey) GoString() string { return "access key (hidden)" }

// identities resolves CAPA's identity objects for clusters of one namespace,
// by the rules of CAPA's documentation on multi-tenancy. Nothing is cached, so
// that a permission that was withdrawn ends at once.
type identities struct {
	reader client.Reader
	// namespace is that of the clusters.
	namespace string
	// keys are those of whoever registered the provider; see [WithKeys].
	keys Keys
}

// Keys gives the access key that stands for the process itself, and whether there
// is one: without, the SDK's standard chain does. An error means neither.
type Keys func(context.Context) (id, secret, token string, ok bool, err error)

// WithKeys has clusters that name no identity of their own be read and built with
// a key of somebody's who registered the provider. It is asked each time.
func WithKeys(keys Keys) Option {
	return func(p *Provider) { p.keys = keys }
}

// registeredName is what scopes call the identity of whoever registered the
// provider.
const registeredName = "Provider/" + Name

// process is the principal of clusters without an identity of their own.
func (i identities) process(ctx context.Context) (*principal, error) {
	if i.keys == nil {
		return nil, nil //nolint:nilnil // no principal is the process itself
	}
	id, secret, token, ok, err := i.keys(ctx)
	switch {
	case err != nil:
		return nil, &providers.ScopeError{Reason: providers.ReasonCredentials, Err: fmt.Errorf("credentials of the registered provider: %w", err)}
	case !ok:
		return nil, nil //nolint:nilnil // no principal is the process itself
	}
	return &principal{name: registeredName, access: &accessKey{id, secret, token}, digest: digestOf(registeredName, id, secret, token)}, nil
}

// resolve follows the reference and its sources. A reference that is not
// permitted, not found or circular is a ScopeError.
func (i identities) resolve(ctx context.Context, ref *infrav1.AWSIdentityReference, path ...string) (*principal, error) {
	if ref == nil {
		return i.process(ctx)
	}
	name := string(ref.Kind) + "/" + ref.Name
	if slices.Contains(path, name) {
		return nil, invalidSpec("identity %s is its own source, through %q", name, path)
	}
	path = append(path, name)
	switch ref.Kind {
	case infrav1.ControllerIdentityKind:
		if err := i.controller(ctx, name, ref.Name); err != nil {
			return nil, err
		}
		return i.process(ctx)
	case infrav1.ClusterStaticIdentityKind:
		return i.static(ctx, name, ref.Name)
	case infrav1.ClusterRoleIdentityKind:
		return i.roleOf(ctx, name, ref.Name, path)
	default:
		return nil, invalidSpec("identity kind %q is unknown: want AWSClusterControllerIdentity, AWSClusterRoleIdentity or AWSClusterStaticIdentity", ref.Kind)
	}
}

func (i identities) controller(ctx context.Context, name, object string) error {
	if object != infrav1.AWSClusterControllerIdentityName {
		return invalidSpec("identity %s does not exist: the only AWSClusterControllerIdentity is named %q", name, infrav1.AWSClusterControllerIdentityName)
	}
	var identity infrav1.AWSClusterControllerIdentity
	if err := i.get(ctx, name, client.ObjectKey{Name: object}, &identity); err != nil {
		return err
	}
	return i.permitted(ctx, name, identity.Spec.AllowedNamespaces)
}

func (i identities) static(ctx context.Context, name, object string) (*principal, error) {
	var identity infrav1.AWSClusterStaticIdentity
	if err := i.get(ctx, name, client.ObjectKey{Name: object}, &identity); err != nil {
		return nil, err
	}
	if err := i.permitted(ctx, name, identity.Spec.AllowedNamespaces); err != nil {
		return nil, err
	}
	key := client.ObjectKey{Namespace: controllersNamespace, Name: identity.Spec.SecretRef}
	if ns := os.Getenv(controllersNamespaceVariable); ns != "" {
		key.Namespace = ns
	}
	what := fmt.Sprintf("Secret %s of %s", key, name)
	var secret corev1.Secret
	if err := i.get(ctx, what, key, &secret); err != nil {
		return nil, err
	}
	access := &accessKey{
		id:     secretText(&secret, "AccessKeyID"),
		secret: secretText(&secret, "SecretAccessKey"),
		token:  secretText(&secret, "SessionToken"),
	}
	if access.id == "" || access.secret == "" {
		return nil, &providers.ScopeError{Reason: providers.ReasonCredentials, Err: fmt.Errorf("%s has no AccessKeyID or no SecretAccessKey", what)}
	}
	return &principal{name: name, access: access, digest: digestOf(name, identity.UID, access.id, access.secret, access.token)}, nil
}

// secretText also reads stringData, which Secrets in files may hold and an API
// server never serves.
func secretText(s *corev1.Secret, key string) string {
	if text, ok := s.StringData[key]; ok {
		return text
	}
	return string(s.Data[key])
}

func (i identities) roleOf(ctx context.Context, name, object string, path []string) (*principal, error) {
	var identity infrav1.AWSClusterRoleIdentity
	if err := i.get(ctx, name, client.ObjectKey{Name: object}, &identity); err != nil {
		return nil, err
	}
	if err := i.permitted(ctx, name, identity.Spec.AllowedNamespaces); err != nil {
		return nil, err
	}
	if identity.Spec.RoleArn == "" {
		return nil, invalidSpec("identity %s sets no spec.roleARN", name)
	}
	source, err := i.resolve(ctx, identity.Spec.SourceIdentityRef, path...)
	if err != nil {
		return nil, err
	}
	p := &principal{name: name, role: &identity, source: source, digest: digestOf(name, identity.UID, identity.Spec)}
	if source != nil {
		p.digest = digestOf(p.digest, source.digest)
	}
	return p, nil
}

func (i identities) get(ctx context.Context, what string, key client.ObjectKey, into client.Object) error {
	err := i.reader.Get(ctx, key, into)
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return &providers.ScopeError{Reason: providers.ReasonCredentials, Err: withHint(fmt.Errorf("read %s: %w", what, err), "create it, or add it to the objects that are read")}
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return &providers.ScopeError{Reason: providers.ReasonCredentials, Err: withHint(fmt.Errorf("read %s: %w", what, err), "allow Holdfast to get it")}
	default:
		return fmt.Errorf("read %s: %w", what, err)
	}
}

// permitted applies allowedNamespaces as CAPA does: nil permits nobody, an
// empty object everybody, and else the namespace must be listed or selected;
// an empty list or selector picks none.
func (i identities) permitted(ctx context.Context, name string, allowed *infrav1.AllowedNamespaces) error {
	denied := &providers.ScopeError{Reason: providers.ReasonForbidden, Err: fmt.Errorf("identity %s does not permit namespace %q: see its spec.allowedNamespaces", name, i.namespace)}
	if allowed == nil {
		return denied
	}
	selects := allowed.Selector.MatchLabels != nil || allowed.Selector.MatchExpressions != nil
	if allowed.NamespaceList == nil && !selects || slices.Contains(allowed.NamespaceList, i.namespace) {
		return nil
	}
	selector, err := metav1.LabelSelectorAsSelector(&allowed.Selector)
	if err != nil {
		return invalidSpec("identity %s: spec.allowedNamespaces.selector: %w", name, err)
	}
	if selector.Empty() {
		return denied
	}
	var namespace corev1.Namespace
	if err := i.get(ctx, "Namespace "+i.namespace, client.ObjectKey{Name: i.namespace}, &namespace); err != nil {
		return err
	}
	if !selector.Matches(labels.Set(namespace.Labels)) {
		return denied
	}
	return nil
}

func invalidSpec(format string, args ...any) error {
	return &providers.ScopeError{Reason: providers.ReasonInvalidSpec, Err: fmt.Errorf(format, args...)}
}

func digestOf(parts ...any) string {
	h := sha256.New()
	_ = json.NewEncoder(h).Encode(parts) // strings and API types always encode
	return hex.EncodeToString(h.Sum(nil))
}
