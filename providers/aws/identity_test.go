package aws

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

func selecting(labels map[string]string) infrav1.AWSClusterIdentitySpec {
	return infrav1.AWSClusterIdentitySpec{AllowedNamespaces: &infrav1.AllowedNamespaces{Selector: metav1.LabelSelector{MatchLabels: labels}}}
}

func listing(namespaces ...string) infrav1.AWSClusterIdentitySpec {
	return infrav1.AWSClusterIdentitySpec{AllowedNamespaces: &infrav1.AllowedNamespaces{NamespaceList: namespaces}}
}

// allowedNamespaces, by the words of CAPA's multi-tenancy documentation and
// of its API types.
func TestAllowedNamespaces(t *testing.T) {
	for name, tc := range map[string]struct {
		spec   infrav1.AWSClusterIdentitySpec
		denied bool
	}{
		"unset permits nobody":              {spec: infrav1.AWSClusterIdentitySpec{}, denied: true},
		"empty permits everybody":           {spec: everywhere()},
		"a literal empty list":              {spec: infrav1.AWSClusterIdentitySpec{AllowedNamespaces: &infrav1.AllowedNamespaces{NamespaceList: []string{}}}, denied: true},
		"listed":                            {spec: listing("dev", "prod")},
		"not listed":                        {spec: listing("dev"), denied: true},
		"selected":                          {spec: selecting(map[string]string{"tier": "gold"})},
		"not selected":                      {spec: selecting(map[string]string{"tier": "tin"}), denied: true},
		"an empty selector selects nothing": {spec: selecting(map[string]string{}), denied: true},
		"listed though not selected": {spec: infrav1.AWSClusterIdentitySpec{AllowedNamespaces: &infrav1.AllowedNamespaces{
			NamespaceList: []string{"prod"}, Selector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "tin"}}}}},
	} {
		t.Run(name, func(t *testing.T) {
			p := provider(t, namespace("prod", map[string]string{"tier": "gold"}))
			err := identities{reader: p.reader, namespace: "prod"}.permitted(t.Context(), "AWSClusterRoleIdentity/id", tc.spec.AllowedNamespaces)
			if tc.denied {
				wantScopeError(t, err, providers.ReasonForbidden, `does not permit namespace "prod"`)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// Each kind of identity asks for permission.
func TestIdentitiesAskForPermission(t *testing.T) {
	newFakeAWS(t)
	role := roleIdentity("id", "arn:aws:iam::123456789012:role/r", nil)
	role.Spec.AWSClusterIdentitySpec = listing("dev")
	p := provider(t, role, staticIdentity("id", "key", listing("dev")), keySecret("capa-system", "key", "AKIA1"),
		&infrav1.AWSClusterControllerIdentity{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: infrav1.AWSClusterControllerIdentitySpec{AWSClusterIdentitySpec: listing("dev")}})
	for kind, object := range map[infrav1.AWSIdentityKind]string{
		infrav1.ClusterRoleIdentityKind: "id", infrav1.ClusterStaticIdentityKind: "id", infrav1.ControllerIdentityKind: "default",
	} {
		_, err := p.Scope(t.Context(), observedCluster("c1", withIdentity(kind, object)))
		wantScopeError(t, err, providers.ReasonForbidden, string(kind)+"/"+object)
	}
}

func TestIdentityOfScope(t *testing.T) {
	for name, tc := range map[string]struct {
		kind  infrav1.AWSIdentityKind
		name  string
		want  string
		key   string
		space string
	}{
		"none":       {want: "", key: "AKIAIOSFODNN7EXAMPLE"},
		"controller": {kind: infrav1.ControllerIdentityKind, name: "default", want: "", key: "AKIAIOSFODNN7EXAMPLE"},
		"static":     {kind: infrav1.ClusterStaticIdentityKind, name: "ops", want: "AWSClusterStaticIdentity/ops", key: "AKIASTATIC"},
		"static, controllers elsewhere": {
			kind: infrav1.ClusterStaticIdentityKind, name: "ops", want: "AWSClusterStaticIdentity/ops", key: "AKIAELSEWHERE", space: "infra"},
		"role": {kind: infrav1.ClusterRoleIdentityKind, name: "lone", want: "AWSClusterRoleIdentity/lone", key: "ASIA222222222222"},
	} {
		t.Run(name, func(t *testing.T) {
			aws := newFakeAWS(t)
			t.Setenv(controllersNamespaceVariable, tc.space)
			p := provider(t,
				&infrav1.AWSClusterControllerIdentity{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: infrav1.AWSClusterControllerIdentitySpec{AWSClusterIdentitySpec: everywhere()}},
				staticIdentity("ops", "key", everywhere()), keySecret("capa-system", "key", "AKIASTATIC"), keySecret("infra", "key", "AKIAELSEWHERE"),
				roleIdentity("lone", "arn:aws:iam::222222222222:role/r", nil))
			owner := observedCluster("c1")
			if tc.kind != "" {
				owner = observedCluster("c1", withIdentity(tc.kind, tc.name))
			}
			scope, err := p.Scope(t.Context(), owner)
			if err != nil {
				t.Fatal(err)
			}
			account := "123456789012"
			if strings.HasPrefix(tc.key, "ASIA") {
				account = strings.TrimPrefix(tc.key, "ASIA")
			}
			want := providers.Scope{Provider: Name, Account: account, Region: "eu-central-1", Identity: tc.want}
			if diff := cmp.Diff(want, scope); diff != "" {
				t.Error(diff)
			}
			if calls := aws.of("sts.GetCallerIdentity"); len(calls) != 1 || calls[0].key != tc.key {
				t.Errorf("asked with %+v, want once with %s", calls, tc.key)
			}
			if _, err := p.Observe(t.Context(), scope); err != nil {
				t.Fatal(err)
			}
			if calls := aws.of("ec2.DescribeInstances"); len(calls) != 1 || calls[0].key != tc.key {
				t.Errorf("read with %+v, want %s", calls, tc.key)
			}
		})
	}
}

// A chain of roles is assumed from its far end, each with what its own object
// says.
func TestChainOfRoles(t *testing.T) {
	aws := newFakeAWS(t)
	far := roleIdentity("far", "arn:aws:iam::222222222222:role/hub", &infrav1.AWSIdentityReference{Kind: infrav1.ClusterStaticIdentityKind, Name: "ops"})
	near := roleIdentity("near", "arn:aws:iam::333333333333:role/spoke", &infrav1.AWSIdentityReference{Kind: infrav1.ClusterRoleIdentityKind, Name: "far"})
	near.Spec.ExternalID, near.Spec.SessionName, near.Spec.DurationSeconds = "ext", "sess", 1800
	near.Spec.InlinePolicy, near.Spec.PolicyARNs = `{"Version":"2012-10-17"}`, []string{"arn:aws:iam::aws:policy/ReadOnlyAccess"}
	p := provider(t, far, near, staticIdentity("ops", "key", everywhere()), keySecret("capa-system", "key", "AKIASTATIC"))
	scope, err := p.Scope(t.Context(), observedCluster("c1", withIdentity(infrav1.ClusterRoleIdentityKind, "near")))
	if err != nil {
		t.Fatal(err)
	}
	if scope.Account != "333333333333" {
		t.Errorf("account %s, want the last role's", scope.Account)
	}
	calls := aws.of("sts.AssumeRole")
	if len(calls) != 2 || calls[0].key != "AKIASTATIC" || calls[1].key != "ASIA222222222222" {
		t.Fatalf("assumed by %+v", calls)
	}
	got := map[string]string{}
	for _, key := range []string{"RoleArn", "ExternalId", "RoleSessionName", "DurationSeconds", "Policy", "PolicyArns.member.1.arn"} {
		got[key] = calls[1].form.Get(key)
	}
	want := map[string]string{
		"RoleArn": "arn:aws:iam::333333333333:role/spoke", "ExternalId": "ext", "RoleSessionName": "sess", "DurationSeconds": "1800",
		"Policy": `{"Version":"2012-10-17"}`, "PolicyArns.member.1.arn": "arn:aws:iam::aws:policy/ReadOnlyAccess",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestIdentityErrors(t *testing.T) {
	a, b := infrav1.AWSIdentityReference{Kind: infrav1.ClusterRoleIdentityKind, Name: "a"}, infrav1.AWSIdentityReference{Kind: infrav1.ClusterRoleIdentityKind, Name: "b"}
	half := keySecret("capa-system", "half", "AKIA1")
	delete(half.Data, "SecretAccessKey")
	for name, tc := range map[string]struct {
		ref     infrav1.AWSIdentityReference
		objects []client.Object
		reason  string
		text    string
	}{
		"not there":             {ref: a, reason: providers.ReasonCredentials, text: "read AWSClusterRoleIdentity/a"},
		"a circle":              {ref: a, objects: []client.Object{roleIdentity("a", "arn:aws:iam::1:role/r", &b), roleIdentity("b", "arn:aws:iam::1:role/r", &a)}, reason: providers.ReasonInvalidSpec, text: "its own source"},
		"no role":               {ref: a, objects: []client.Object{roleIdentity("a", "", nil)}, reason: providers.ReasonInvalidSpec, text: "spec.roleARN"},
		"an unknown kind":       {ref: infrav1.AWSIdentityReference{Kind: "AWSUser", Name: "x"}, reason: providers.ReasonInvalidSpec, text: `"AWSUser" is unknown`},
		"another controller":    {ref: infrav1.AWSIdentityReference{Kind: infrav1.ControllerIdentityKind, Name: "mine"}, reason: providers.ReasonInvalidSpec, text: `named "default"`},
		"no controller":         {ref: infrav1.AWSIdentityReference{Kind: infrav1.ControllerIdentityKind, Name: "default"}, reason: providers.ReasonCredentials, text: "add it to the objects"},
		"no Secret":             {ref: infrav1.AWSIdentityReference{Kind: infrav1.ClusterStaticIdentityKind, Name: "s"}, objects: []client.Object{staticIdentity("s", "none", everywhere())}, reason: providers.ReasonCredentials, text: "Secret capa-system/none"},
		"half a Secret":         {ref: infrav1.AWSIdentityReference{Kind: infrav1.ClusterStaticIdentityKind, Name: "s"}, objects: []client.Object{staticIdentity("s", "half", everywhere()), half}, reason: providers.ReasonCredentials, text: "no SecretAccessKey"},
		"a source that forbids": {ref: a, objects: []client.Object{roleIdentity("a", "arn:aws:iam::1:role/r", &infrav1.AWSIdentityReference{Kind: infrav1.ClusterStaticIdentityKind, Name: "s"}), staticIdentity("s", "key", listing("dev"))}, reason: providers.ReasonForbidden, text: "AWSClusterStaticIdentity/s does not permit"},
	} {
		t.Run(name, func(t *testing.T) {
			aws := newFakeAWS(t)
			_, err := provider(t, tc.objects...).Scope(t.Context(), observedCluster("c1", withIdentity(tc.ref.Kind, tc.ref.Name)))
			wantScopeError(t, err, tc.reason, tc.text)
			if len(aws.calls) != 0 {
				t.Errorf("AWS was called: %+v", aws.calls)
			}
		})
	}
}

func TestRoleThatMayNotBeAssumed(t *testing.T) {
	aws := newFakeAWS(t)
	aws.on("sts.AssumeRole", func(int, url.Values) (int, string) {
		return refuseQuery("AccessDenied", "not authorized to perform: sts:AssumeRole")
	})
	_, err := provider(t, roleIdentity("r", "arn:aws:iam::222222222222:role/r", nil)).Scope(t.Context(), observedCluster("c1", withIdentity(infrav1.ClusterRoleIdentityKind, "r")))
	wantScopeError(t, err, providers.ReasonCredentials, "trust policy")
}

// C49: cluster A's session never serves cluster B: not when the two use
// different identities, not when an identity of one name is made anew with
// another key. And clusters that share an identity cost one call.
func TestC49SessionsPerIdentity(t *testing.T) {
	aws := newFakeAWS(t)
	aws.accounts = map[string]string{"AKIAONE": "111111111111", "AKIATWO": "222222222222", "AKIATHREE": "333333333333"}
	secret := keySecret("capa-system", "key-two", "AKIATWO")
	p := provider(t, staticIdentity("one", "key-one", everywhere()), keySecret("capa-system", "key-one", "AKIAONE"),
		staticIdentity("two", "key-two", everywhere()), secret)
	account := func(cluster, identity string) string {
		t.Helper()
		scope, err := p.Scope(t.Context(), observedCluster(cluster, withIdentity(infrav1.ClusterStaticIdentityKind, identity)))
		if err != nil {
			t.Fatal(err)
		}
		return scope.Account
	}
	if got := []string{account("a", "one"), account("b", "two"), account("c", "one"), account("d", "two"), account("a", "one")}; !cmp.Equal(got, []string{"111111111111", "222222222222", "111111111111", "222222222222", "111111111111"}) {
		t.Errorf("accounts %v", got)
	}
	if n := aws.count("sts.GetCallerIdentity"); n != 2 {
		t.Errorf("%d calls to identify two identities, want 2", n)
	}
	changed := secret.DeepCopy()
	changed.Data["AccessKeyID"] = []byte("AKIATHREE")
	if err := p.reader.(client.Client).Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if got := account("b", "two"); got != "333333333333" {
		t.Errorf("after the Secret changed the account is %s", got)
	}
}

func TestWrongAccount(t *testing.T) {
	for name, tc := range map[string]struct {
		mod    func(*providers.Owner, *infrav1.AWSCluster)
		reason string
		text   string
	}{
		"annotation of the Cluster": {func(o *providers.Owner, _ *infrav1.AWSCluster) {
			o.Cluster.Annotations = map[string]string{AccountAnnotation: "222222222222"}
		}, providers.ReasonWrongAccount, "annotation"},
		"annotation of the AWSCluster": {func(_ *providers.Owner, c *infrav1.AWSCluster) {
			c.Annotations = map[string]string{AccountAnnotation: "222222222222"}
		}, providers.ReasonWrongAccount, "annotation"},
		"a malformed annotation": {func(_ *providers.Owner, c *infrav1.AWSCluster) {
			c.Annotations = map[string]string{AccountAnnotation: "prod"}
		}, providers.ReasonInvalidSpec, "12 digits"},
		"load balancer in the status": {func(_ *providers.Owner, c *infrav1.AWSCluster) {
			c.Status.Network.APIServerELB.ARN = "arn:aws:elasticloadbalancing:eu-central-1:222222222222:loadbalancer/net/c1/1"
		}, providers.ReasonWrongAccount, "apiServerElb"},
		"the right one": {func(_ *providers.Owner, c *infrav1.AWSCluster) {
			c.Annotations = map[string]string{AccountAnnotation: "123456789012"}
			c.Status.Network.APIServerELB.ARN = "arn:aws-us-gov:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/net/c1/1"
		}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			newFakeAWS(t)
			p := provider(t)
			owner := observedCluster("c1")
			tc.mod(owner, owner.Infra.(*infrav1.AWSCluster))
			_, err := p.Scope(t.Context(), owner)
			if tc.reason == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			wantScopeError(t, err, tc.reason, tc.text)
		})
	}
}

// One cluster in the wrong account stops itself alone.
func TestWrongAccountOfOneCluster(t *testing.T) {
	newFakeAWS(t)
	p := provider(t)
	bad := observedCluster("bad", func(c *infrav1.AWSCluster) { c.Annotations = map[string]string{AccountAnnotation: "222222222222"} })
	if _, err := p.Scope(t.Context(), bad); err == nil {
		t.Error("no error for the cluster of another account")
	}
	if _, err := p.Scope(t.Context(), observedCluster("good")); err != nil {
		t.Error(err)
	}
}

func TestPlaceOfOwner(t *testing.T) {
	newFakeAWS(t)
	p := provider(t)
	machine := &providers.Owner{Ref: providers.OwnerRef{Kind: "AWSMachine", Namespace: "prod", Name: "m"}, Cluster: observedCluster("c1").Cluster, Infra: &infrav1.AWSMachine{}}
	_, err := p.Scope(t.Context(), machine)
	wantScopeError(t, err, providers.ReasonInvalidSpec, "AWSMachine prod/m")
	managed := &infrav1.AWSManagedCluster{TypeMeta: metav1.TypeMeta{Kind: "AWSManagedCluster"}}
	machine.InfraCluster = managed
	_, err = p.Scope(t.Context(), machine)
	wantScopeError(t, err, providers.ReasonInvalidSpec, "AWSManagedCluster")

	t.Setenv("AWS_REGION", "")
	_, err = p.Scope(t.Context(), observedCluster("c1", func(c *infrav1.AWSCluster) { c.Spec.Region = "" }))
	wantScopeError(t, err, providers.ReasonInvalidSpec, "AWS_REGION")
	t.Setenv("AWS_REGION", "us-west-2")
	scope, err := provider(t).Scope(t.Context(), observedCluster("c1", func(c *infrav1.AWSCluster) { c.Spec.Region = "" }))
	if err != nil || scope.Region != "us-west-2" {
		t.Errorf("scope %+v and %v: want the environment's region", scope, err)
	}
}

func TestScopesThatWereNotResolved(t *testing.T) {
	newFakeAWS(t)
	p := provider(t)
	if _, err := p.Observe(t.Context(), providers.Scope{Provider: Name, Account: "123456789012", Region: "eu-central-1"}); err != nil {
		t.Errorf("the process's own scope: %v", err)
	}
	if _, err := p.Observe(t.Context(), providers.Scope{Provider: Name, Account: "1", Region: "eu-central-1", Identity: "AWSClusterRoleIdentity/x"}); err == nil || !strings.Contains(err.Error(), "call Scope") {
		t.Errorf("an identity's scope: %v", err)
	}
	_, err := provider(t).Observe(t.Context(), providers.Scope{Provider: Name, Account: "999999999999", Region: "eu-central-1"})
	wantScopeError(t, err, providers.ReasonWrongAccount, "999999999999")
	if _, err := p.Observe(t.Context(), providers.Scope{Provider: "vsphere"}); err == nil {
		t.Error("another provider's scope: no error")
	}
}

// Keys never show, however an identity is printed.
func TestKeysDoNotShow(t *testing.T) {
	newFakeAWS(t)
	p := provider(t, staticIdentity("ops", "key", everywhere()), keySecret("capa-system", "key", "AKIASTATIC"))
	who, err := identities{reader: p.reader, namespace: "prod"}.resolve(t.Context(), &infrav1.AWSIdentityReference{Kind: infrav1.ClusterStaticIdentityKind, Name: "ops"})
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		if out := fmt.Sprintf(format, *who.access); strings.Contains(out, "s3cr3t") || strings.Contains(out, "AKIASTATIC") {
			t.Errorf("%s prints %s", format, out)
		}
	}
}

// User data holds join tokens: no bulk read asks for it.
func TestNoUserData(t *testing.T) {
	aws := newFakeAWS(t)
	aws.on("ec2.DescribeInstances", func(int, url.Values) (int, string) {
		return http.StatusOK, ec2Answer("DescribeInstances", instanceItems("i-1", "i-2"), "")
	})
	p := provider(t)
	scope := scopeOf(t, p)
	if _, err := p.Observe(t.Context(), scope); err != nil {
		t.Fatal(err)
	}
	for _, c := range aws.calls {
		if _, action, _ := strings.Cut(c.action, "."); !strings.HasPrefix(action, "Describe") && action != "GetCallerIdentity" || action == "DescribeInstanceAttribute" {
			t.Errorf("a sweep calls %s", c.action)
		}
	}
}

// Whoever registered the provider stands for the process itself, also at the far
// end of a role; without a key the process does, and an error is neither.
func TestRegisteredKeys(t *testing.T) {
	p := provider(t)
	resolve := func(keys Keys, ref *infrav1.AWSIdentityReference) (*principal, error) {
		return identities{reader: p.reader, namespace: "prod", keys: keys}.resolve(t.Context(), ref)
	}
	given := func(id string) Keys {
		return func(context.Context) (string, string, string, bool, error) { return id, "s", "t", true, nil }
	}
	who, err := resolve(given("AKIA1"), nil)
	if err != nil || who == nil || *who.access != (accessKey{"AKIA1", "s", "t"}) {
		t.Fatalf("it is %+v, %v", who, err)
	}
	if other, err := resolve(given("AKIA2"), nil); err != nil || other.digest == who.digest {
		t.Errorf("another key has the same digest, %v", err)
	}
	none := func(context.Context) (string, string, string, bool, error) { return "", "", "", false, nil }
	if who, err := resolve(none, nil); err != nil || who != nil {
		t.Errorf("without a key it is %+v, %v", who, err)
	}
	bad := func(context.Context) (string, string, string, bool, error) {
		return "", "", "", false, errors.New("Secret aws-credentials not found")
	}
	var scope *providers.ScopeError
	if who, err := resolve(bad, nil); who != nil || !errors.As(err, &scope) || scope.Reason != providers.ReasonCredentials || !strings.Contains(err.Error(), "aws-credentials") {
		t.Errorf("with a key that cannot be read it is %+v, %v", who, err)
	}
}
