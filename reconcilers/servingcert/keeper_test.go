package servingcert

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

const host = "holdfast-webhook.holdfast-system.svc"

var (
	noon    = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	secret  = types.NamespacedName{Namespace: "holdfast-system", Name: "holdfast-webhook"}
	service = types.NamespacedName{Namespace: "holdfast-system", Name: "holdfast-webhook"}
)

// clock may be moved while others read it.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// world has what points at the Service, and what points elsewhere.
type world struct {
	client.Client
	clock *clock
}

func newWorld(t *testing.T, data map[string][]byte) *world {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(s), admissionv1.AddToScheme(s), apiextensionsv1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	ours := &admissionv1.ServiceReference{Namespace: service.Namespace, Name: service.Name}
	other := &admissionv1.ServiceReference{Namespace: "capi-system", Name: "capi-webhook-service"}
	crd := func(name, ns, service string) *apiextensionsv1.CustomResourceDefinition {
		out := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
		out.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.WebhookConverter, Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig: &apiextensionsv1.WebhookClientConfig{Service: &apiextensionsv1.ServiceReference{Namespace: ns, Name: service}}}}
		return out
	}
	return &world{clock: &clock{at: noon}, Client: fake.NewClientBuilder().WithScheme(s).WithObjects(
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name}, Data: data},
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Webhooks: []admissionv1.MutatingWebhook{
			{Name: "a.example.com", ClientConfig: admissionv1.WebhookClientConfig{Service: ours}}}},
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Webhooks: []admissionv1.ValidatingWebhook{
			{Name: "a.example.com", ClientConfig: admissionv1.WebhookClientConfig{Service: ours}},
			{Name: "b.example.com", ClientConfig: admissionv1.WebhookClientConfig{Service: other, CABundle: []byte("other")}}}},
		crd("clusters.example.com", service.Namespace, service.Name),
		crd("machines.example.com", service.Namespace, service.Name),
		crd("others.example.com", other.Namespace, other.Name),
		crd("unnamed.example.com", service.Namespace, service.Name),
		&apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "plain.example.com"}},
	).Build()}
}

func (w *world) keeper(makes bool) *Keeper {
	return &Keeper{
		Client: w.Client, Secret: secret, Service: service, Make: makes, Now: w.clock.now, Configurations: []string{"mine", "not-there"},
		Definitions: []string{"clusters.example.com", "machines.example.com", "others.example.com", "plain.example.com", "not.there.example.com"},
	}
}

// bundles are the CAs in each place, by its name.
func (w *world) bundles(t *testing.T) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	mutating, validating := &admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}
	for _, o := range []client.Object{mutating, validating} {
		if err := w.Get(t.Context(), client.ObjectKey{Name: "mine"}, o); err != nil {
			t.Fatal(err)
		}
	}
	for _, h := range mutating.Webhooks {
		out["mutating "+h.Name] = h.ClientConfig.CABundle
	}
	for _, h := range validating.Webhooks {
		out["validating "+h.Name] = h.ClientConfig.CABundle
	}
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := w.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if c := list.Items[i].Spec.Conversion; c != nil {
			out["crd "+list.Items[i].Name] = c.Webhook.ClientConfig.CABundle
		}
	}
	return out
}

// mine are the places that point at the Service and are named.
var mine = []string{"mutating a.example.com", "validating a.example.com", "crd clusters.example.com", "crd machines.example.com"}

// believed wants each of the places to believe what each replica serves now.
func (w *world) believed(t *testing.T, replicas ...*Keeper) {
	t.Helper()
	bundles := w.bundles(t)
	for n, k := range replicas {
		pair, err := k.GetCertificate(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, place := range mine {
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(bundles[place])
			if _, err := pair.Leaf.Verify(x509.VerifyOptions{DNSName: host, Roots: roots, CurrentTime: w.clock.now()}); err != nil {
				t.Fatalf("%s: %s does not believe replica %d: %v", w.clock.now(), place, n, err)
			}
		}
	}
}

func (w *world) data(t *testing.T) map[string][]byte {
	t.Helper()
	s := &corev1.Secret{}
	if err := w.Get(t.Context(), secret, s); err != nil {
		t.Fatal(err)
	}
	return s.Data
}

func pass(t *testing.T, k *Keeper) {
	t.Helper()
	if err := k.Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Through years and renewals of certificate and CA, whichever replica looks when,
// there is no moment at which something that is served is not believed.
func TestRenewalsAreNotNoticed(t *testing.T) {
	w := newWorld(t, nil)
	replicas := []*Keeper{w.keeper(true), w.keeper(true)}
	for _, k := range replicas {
		if err := k.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.believed(t, replicas...)
	certs, cas := map[string]bool{}, map[string]bool{}
	const days = 7 // between looks at the calendar
	for day := 0; day < 5*365; day += days {
		for step := range 6 {
			k := replicas[(day+step/2)%2] // twice the same, then the other, and each before the time passes
			pass(t, k)
			w.believed(t, replicas...)
		}
		if day%(29*days) == 0 { // one is new now and then
			replicas[day/(29*days)%2] = w.keeper(true)
			pass(t, replicas[day/(29*days)%2])
			w.believed(t, replicas...)
		}
		data := w.data(t)
		certs[string(data[keyCert])] = true
		list := parseCAs(data[keyCA])
		cas[string(list[0].Raw)] = true
		if len(list) > 2 {
			t.Fatalf("day %d: %d CAs are believed", day, len(list))
		}
		w.clock.pass(days * 24 * time.Hour)
	}
	// 5 years: a certificate each 60 days, a CA each year and a half.
	if len(certs) < 27 || len(certs) > 36 || len(cas) != 4 {
		t.Errorf("there have been %d certificates and %d CAs, want about 31 and 4", len(certs), len(cas))
	}
	if n := len(parseCAs(w.data(t)[keyCA])); n != 1 {
		t.Errorf("%d CAs are believed in the end", n)
	}
}

// A new CA signs nothing for as long as it has not reached every place, whoever
// looks.
func TestNewCAWaits(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.keeper(true), w.keeper(true)
	pass(t, a)
	pass(t, b)
	stuck := interceptor.NewClient(w.Client.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if o.GetName() == "machines.example.com" {
				return errors.New("stuck")
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	for range (caLife - caRenew) / (certRenew / 2) {
		w.clock.pass(certRenew / 2)
		pass(t, a)
		pass(t, a) // the first has to see that all believe it
		pass(t, b)
	}
	before := w.data(t)
	a.Client, b.Client = stuck, stuck
	w.clock.pass(certRenew / 2)
	for range 3 {
		for _, k := range []*Keeper{a, b} {
			if err := k.Pass(t.Context()); err == nil || !strings.Contains(err.Error(), "machines.example.com: stuck") {
				t.Errorf("it ends with %v", err)
			}
			if n := len(parseCAs(w.data(t)[keyCA])); n != 2 {
				t.Fatalf("there are %d CAs", n)
			}
		}
	}
	if leaf := readLeaf(w.data(t)); leaf.CheckSignatureFrom(parseCAs(before[keyCA])[0]) != nil {
		t.Error("the new CA has signed")
	}
	a.Client, b.Client = w.Client, w.Client
	for range 3 { // it writes, sees that it is there, signs
		pass(t, a)
		w.believed(t, a)
	}
	if leaf := readLeaf(w.data(t)); leaf.CheckSignatureFrom(parseCAs(before[keyCA])[0]) == nil {
		t.Error("the new CA has not signed")
	}
}

// The CA goes where something points at the Service and is named, and nowhere
// else; and comes back where somebody has taken it away.
func TestWhereTheCAGoes(t *testing.T) {
	w := newWorld(t, nil)
	k := w.keeper(true)
	pass(t, k)
	for name, ca := range w.bundles(t) {
		want := w.data(t)[keyCA]
		switch name {
		case "validating b.example.com":
			want = []byte("other")
		case "crd others.example.com", "crd unnamed.example.com":
			want = nil
		}
		if !bytes.Equal(ca, want) {
			t.Errorf("%s has %q, want %q", name, ca, want)
		}
	}
	hooks, crd := &admissionv1.ValidatingWebhookConfiguration{}, &apiextensionsv1.CustomResourceDefinition{}
	for name, o := range map[string]client.Object{"mine": hooks, "machines.example.com": crd} {
		if err := w.Get(t.Context(), client.ObjectKey{Name: name}, o); err != nil {
			t.Fatal(err)
		}
	}
	hooks.Webhooks[0].ClientConfig.CABundle = nil
	crd.Spec.Conversion.Webhook.ClientConfig.CABundle = []byte("another's")
	if err := errors.Join(w.Update(t.Context(), hooks), w.Update(t.Context(), crd)); err != nil {
		t.Fatal(err)
	}
	pass(t, k)
	w.believed(t, k)
}

// Whoever empties the Secret has new keys, and replicas that still serve by the
// old ones are believed until they have read it.
func TestEmptied(t *testing.T) {
	w := newWorld(t, nil)
	a, b := w.keeper(true), w.keeper(true)
	pass(t, a)
	pass(t, b)
	old := w.data(t)
	s := &corev1.Secret{}
	if err := w.Get(t.Context(), secret, s); err != nil {
		t.Fatal(err)
	}
	s.Data = nil
	if err := w.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	pass(t, a)
	w.believed(t, a, b)
	pass(t, b)
	w.believed(t, a, b)
	now := w.data(t)
	for _, key := range []string{keyCert, keyKey, keyCAKey} {
		if bytes.Equal(now[key], old[key]) || len(now[key]) == 0 {
			t.Errorf("%s is %q, what it was or nothing", key, now[key])
		}
	}
	w.clock.pass(2 * time.Hour)
	pass(t, a)
	if strings.Contains(string(w.data(t)[keyCA]), string(old[keyCA])) {
		t.Error("the old CA is believed for good")
	}
}

// What is broken is made anew.
func TestBroken(t *testing.T) {
	for name, spoil := range map[string]func(data map[string][]byte){
		"no key":         func(d map[string][]byte) { d[keyKey] = nil },
		"another's key":  func(d map[string][]byte) { d[keyKey] = d[keyCAKey] },
		"no CA":          func(d map[string][]byte) { d[keyCA] = nil },
		"no key of a CA": func(d map[string][]byte) { d[keyCAKey] = nil },
		"not its CA":     func(d map[string][]byte) { d[keyCA] = d[keyCert] },
		"garbage":        func(d map[string][]byte) { d[keyCA], d[keyCert] = []byte("-----BEGIN CERTIFICATE-----"), []byte("x") },
		"another service": func(d map[string][]byte) {
			a, _ := newAuthority(noon)
			d[keyCert], d[keyKey], _ = a.issue("other.svc", noon)
		},
	} {
		t.Run(name, func(t *testing.T) {
			first := newWorld(t, nil)
			pass(t, first.keeper(true))
			data := first.data(t)
			spoil(data)
			w := newWorld(t, data)
			k := w.keeper(true)
			pass(t, k)
			w.believed(t, k)
		})
	}
}

// Replicas that start at the same moment serve the same in the end.
func TestAtOnce(t *testing.T) {
	w := newWorld(t, nil)
	var all []*Keeper
	var started sync.WaitGroup
	for range 6 {
		k := w.keeper(true)
		all = append(all, k)
		started.Go(func() { _ = k.Pass(t.Context()) }) // it may have been the last of many to write
	}
	started.Wait()
	for _, k := range all {
		pass(t, k)
	}
	w.believed(t, all...)
	for _, k := range all {
		if !bytes.Equal(k.pair.Load().Certificate[0], all[0].pair.Load().Certificate[0]) {
			t.Error("two replicas serve different certificates")
		}
	}
}

// What somebody else keeps in the Secret is served as it is, and never written.
func TestElsewhere(t *testing.T) {
	a, err := newAuthority(noon)
	if err != nil {
		t.Fatal(err)
	}
	data := map[string][]byte{keyCA: encodeCAs([]*x509.Certificate{a.cert}, noon)}
	if data[keyCert], data[keyKey], err = a.issue(host, noon); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, data)
	k := w.keeper(false)
	w.clock.pass(certLife - time.Hour)
	pass(t, k)
	w.believed(t, k)
	if fmt.Sprint(w.data(t)) != fmt.Sprint(data) {
		t.Error("the Secret has been written")
	}
	delete(data, keyCA) // one that everybody believes has none
	w = newWorld(t, data)
	k = w.keeper(false)
	pass(t, k)
	if got := w.bundles(t)[mine[0]]; got != nil {
		t.Errorf("a CA has been put in: %q", got)
	}
}

// Without a Secret, or rights, the reason is told.
func TestPrepareFails(t *testing.T) {
	w := newWorld(t, nil)
	k := w.keeper(true)
	k.Secret.Name = "gone"
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := k.Prepare(ctx); err == nil || !strings.Contains(err.Error(), "holdfast-system/gone") {
		t.Errorf("it ends with %v", err)
	}
	if _, err := k.GetCertificate(nil); err == nil {
		t.Error("there is a certificate")
	}
}
