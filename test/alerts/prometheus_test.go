package alerts

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/holdfast-io/holdfast/test/running"
)

// prometheus is one that runs.
type prometheus struct {
	address string
	log     *bytes.Buffer
}

// startPrometheus runs a real one until the test ends. It scrapes the target each
// second by HTTPS, with a token, and believes the certificate of that authority
// alone.
func startPrometheus(t *testing.T, target, token, authority string, files map[string]*ruleFile) *prometheus {
	t.Helper()
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var ruleNames []string
	for path, f := range files {
		data, err := yaml.Marshal(f)
		if err != nil {
			t.Fatal(err)
		}
		ruleNames = append(ruleNames, write(filepath.Base(path), data))
	}
	config, err := yaml.Marshal(map[string]any{
		"global":     map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s", "scrape_timeout": "1s"},
		"rule_files": ruleNames,
		"scrape_configs": []any{map[string]any{
			"job_name": "holdfast", "scheme": "https",
			"authorization":  map[string]any{"credentials_file": write("token", []byte(token))},
			"tls_config":     map[string]any{"ca_file": authority},
			"static_configs": []any{map[string]any{"targets": []string{target}}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &prometheus{address: freeAddress(t), log: &bytes.Buffer{}}
	cmd := exec.Command(tool(t, "prometheus"), "--config.file", write("prometheus.yaml", config), "--storage.tsdb.path", filepath.Join(dir, "data"),
		"--web.listen-address", p.address, "--log.level", "warn")
	cmd.Stdout, cmd.Stderr = p.log, p.log
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed; nothing writes the log after this
		if t.Failed() {
			t.Logf("Prometheus:\n%s", p.log)
		}
	})
	running.Eventually(t, time.Minute, "ready", func() error {
		_, err := p.query(t.Context(), "1")
		return err
	})
	return p
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// get reads an answer of the API into out.
func (p *prometheus) get(ctx context.Context, path string, values url.Values, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+path+"?"+values.Encode(), http.NoBody)
	if err != nil {
		return err
	}
	r, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = r.Body.Close() }()
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.NewDecoder(r.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: %s: %w", path, r.Status, err)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s: %s", path, answer.Error)
	}
	return json.Unmarshal(answer.Data, out)
}

// query counts the series that an expression gives now.
func (p *prometheus) query(ctx context.Context, expr string) (int, error) {
	var out struct {
		ResultType string
		Result     []json.RawMessage
	}
	err := p.get(ctx, "/api/v1/query", url.Values{"query": {expr}}, &out)
	return len(out.Result), err
}

// ranged counts the series that an expression has given since the beginning.
func (p *prometheus) ranged(ctx context.Context, expr string, since time.Time) (int, error) {
	var out struct{ Result []json.RawMessage }
	err := p.get(ctx, "/api/v1/query_range", url.Values{"query": {expr}, "step": {"5"},
		"start": {since.Format(time.RFC3339)}, "end": {time.Now().Format(time.RFC3339)}}, &out)
	return len(out.Result), err
}

// alert is one that is pending or fires.
type alert struct {
	Labels, Annotations map[string]string
	State               string
}

// firing gives the alerts of a name that fire.
func (p *prometheus) firing(ctx context.Context, name string) ([]alert, error) {
	var out struct{ Alerts []alert }
	if err := p.get(ctx, "/api/v1/alerts", nil, &out); err != nil {
		return nil, err
	}
	var found []alert
	for _, a := range out.Alerts {
		if a.Labels["alertname"] == name && a.State == "firing" {
			found = append(found, a)
		}
	}
	return found, nil
}

// healthy tells which rules cannot be evaluated.
func (p *prometheus) healthy(ctx context.Context) error {
	var out struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if err := p.get(ctx, "/api/v1/rules", nil, &out); err != nil {
		return err
	}
	var errs []error
	n := 0
	for _, g := range out.Groups {
		for _, r := range g.Rules {
			n++
			if r.Health != "ok" {
				errs = append(errs, fmt.Errorf("%s is %s: %s", r.Name, r.Health, r.LastError))
			}
		}
	}
	if n == 0 {
		errs = append(errs, errors.New("there are no rules"))
	}
	return errors.Join(errs...)
}

// certificate makes one for the loopback address, in a folder as the controller
// wants it, and gives the folder and the authority's file: it is its own.
func certificate(t *testing.T) (dir, authority string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "holdfast"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for name, block := range map[string]*pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: der}, "tls.key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, filepath.Join(dir, "tls.crt")
}

// shortened are the chart's rules with the times of a test: what is to last for
// hours lasts for seconds.
func shortened(t *testing.T) map[string]*ruleFile {
	t.Helper()
	files := ruleFiles(t)
	thresholds := map[string]string{"HoldfastPersistentDrift": "> 5", "HoldfastBlockedTooLong": "> 5"}
	windows := strings.NewReplacer("[15m]", "[30s]", "[1h]", "[1m]")
	for _, f := range files {
		for _, g := range f.Groups {
			for _, r := range g.Rules {
				r.Expr = windows.Replace(r.Expr)
				if r.Alert != "" {
					r.For = "0s"
				}
				if to := thresholds[r.Alert]; to != "" {
					if !threshold.MatchString(r.Expr) {
						t.Fatalf("%s has no threshold: %s", r.Alert, r.Expr)
					}
					r.Expr = threshold.ReplaceAllString(r.Expr, to)
				}
			}
		}
	}
	return files
}
