package main

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/reconcilers/core"
)

// What managed mode is told in a file and by flags comes out as one.
func TestManagedConfiguration(t *testing.T) {
	certificates := filepath.Dir(write(t, "tls.crt", "x"))
	path := write(t, "config.yaml", header+"reconcilers: [core, kubeadm]\nreconcilersConcurrency: {machine: 7}\nfeatureGates: {ClusterTopology: true}\n"+
		"reconcilersBackoffLimit: 2m\nwebhookBindAddress: 127.0.0.1:9444\nwebhookCertDir: "+certificates+"\n")
	c, flags := defaultControllerConfig(), &cobra.Command{}
	c.register(flags)
	if err := flags.ParseFlags([]string{"--reconcilers=kubeadm", "--reconcilers-sync-period=3m"}); err != nil {
		t.Fatal(err)
	}
	if err := c.load(path, flags); err != nil {
		t.Fatal(err)
	}
	if _, err := c.managed(); err == nil || !strings.Contains(err.Error(), "tls.key") {
		t.Errorf("without a key: %v", err)
	}
	if err := os.WriteFile(filepath.Join(certificates, "tls.key"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	o, err := c.managed()
	if err != nil {
		t.Fatal(err)
	}
	if len(o.Parts) != 1 || o.Parts[0] != core.Kubeadm || o.Workers["machine"] != 7 || !o.Gates["ClusterTopology"] || o.SyncPeriod != 3*time.Minute ||
		o.Backoff != (core.Backoff{First: 5 * time.Second, Most: 2 * time.Minute}) || o.Webhooks.Host != "127.0.0.1" || o.Webhooks.Port != 9444 {
		t.Errorf("it comes out as %+v", o)
	}
	served := &tls.Config{NextProtos: []string{"h2"}} // controller-runtime's own
	for _, set := range o.Webhooks.TLSOpts {
		set(served)
	}
	if slices.Contains(served.NextProtos, "h2") {
		t.Errorf("webhooks are served by %q, want HTTP/1 alone", served.NextProtos)
	}
	for _, address := range []string{"", "9443", ":0", ":x", "a:70000"} {
		c.WebhookBindAddress = address
		if _, err := c.managed(); err == nil || !strings.Contains(err.Error(), "--webhook-bind-address") {
			t.Errorf("address %q: %v", address, err)
		}
	}
	plain := defaultControllerConfig()
	if o, err := plain.managed(); o != nil || err != nil {
		t.Errorf("beside an installed Cluster API it is %+v, %v", o, err)
	}
}

// The certificate may be in a Secret, and what about it cannot be is refused.
func TestManagedCertificate(t *testing.T) {
	with := func(edit func(*controllerConfig)) *controllerConfig {
		c := defaultControllerConfig()
		c.Reconcilers = []string{"kubeadm"}
		c.WebhookCertSecret, c.WebhookService, c.WebhookCertRotate = "ns/secret", "ns/service", true
		c.WebhookConfigurations = []string{"hooks"}
		edit(&c)
		return &c
	}
	c := with(func(*controllerConfig) {})
	o, err := c.managed()
	if err != nil {
		t.Fatal(err)
	}
	k, err := c.keeper(o)
	if err != nil {
		t.Fatal(err)
	}
	if k.Secret.String() != "ns/secret" || k.Service.String() != "ns/service" || !k.Make || !slices.Equal(k.Configurations, []string{"hooks"}) ||
		!slices.Equal(k.Definitions, core.Definitions(core.Kubeadm)) {
		t.Errorf("it comes out as %+v", k)
	}
	for say, edit := range map[string]func(*controllerConfig){
		`--webhook-cert-secret "secret": want NAMESPACE/NAME`:                                                         func(c *controllerConfig) { c.WebhookCertSecret = "secret" },
		`--webhook-service "": want NAMESPACE/NAME`:                                                                   func(c *controllerConfig) { c.WebhookService = "" },
		`--webhook-service "a/b/c": want NAMESPACE/NAME`:                                                              func(c *controllerConfig) { c.WebhookService = "a/b/c" },
		"--webhook-cert-secret, which is not given":                                                                   func(c *controllerConfig) { c.WebhookCertSecret = "" },
		"--webhook-cert-rotate, --webhook-cert-secret, --webhook-configurations, --webhook-service: there is nothing": func(c *controllerConfig) { c.Reconcilers = nil },
	} {
		if _, err := with(edit).managed(); err == nil || !strings.Contains(err.Error(), say) {
			t.Errorf("the error is %v, want one that says %q", err, say)
		}
	}
}
