package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// clusterMetrics is what the controller's metrics tell of a cluster.
type clusterMetrics struct {
	LastSweep *metav1.Time `json:"lastSweep,omitempty"`
	// StaleAfter is the age from which on the policies call a sweep stale, in seconds.
	StaleAfter *float64 `json:"staleAfterSeconds,omitempty"`
	Coverage   *float64 `json:"coverage,omitempty"`
}

// maxMetrics bounds what is read of an answer.
const maxMetrics = 64 << 20

// addMetrics reads the controller's metrics and adds what they tell.
func (f *statusFlags) addMetrics(ctx context.Context, all []*clusterSummary) error {
	families, err := f.scrape(ctx)
	if err != nil {
		return err
	}
	for _, s := range all {
		each := func(name string, take func(float64)) {
			for _, m := range families[name].GetMetric() {
				if labelOf(m, "cluster_namespace") == s.Namespace && labelOf(m, "cluster_name") == s.Name {
					take(m.GetGauge().GetValue())
				}
			}
		}
		found := &clusterMetrics{}
		each("holdfast_sweep_last_success_timestamp_seconds", func(v float64) {
			at := metav1.NewTime(time.UnixMilli(int64(v * 1000)).UTC())
			if found.LastSweep == nil || at.Before(found.LastSweep) {
				found.LastSweep = &at
			}
		})
		each("holdfast_sweep_stale_after_seconds", func(v float64) { found.StaleAfter = &v })
		each("holdfast_coverage_ratio", func(v float64) {
			if found.Coverage == nil || v < *found.Coverage {
				found.Coverage = &v
			}
		})
		each("holdfast_breaker_open", func(v float64) { s.BreakerOpen = s.BreakerOpen || v == 1 })
		if *found != (clusterMetrics{}) {
			s.Metrics = found
		}
	}
	return nil
}

// unanswered says what to do about a request that came to nothing.
func unanswered(err error) error {
	var certificate *tls.CertificateVerificationError
	var plain tls.RecordHeaderError
	switch {
	case errors.As(err, &certificate):
		return fmt.Errorf("%w: the controller makes its own certificate unless one was given to it; --metrics-insecure does not check it", err)
	case errors.As(err, &plain), strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"): // net/http has no type for it
		return fmt.Errorf("%w: no TLS is spoken there; write http://, or the address of the controller's metrics", err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: nothing listens there; is kubectl port-forward running?", err)
	}
	return err
}

// refused says what to do about an answer that is none.
func (f *statusFlags) refused(at *url.URL, code int) string {
	switch {
	case code == http.StatusUnauthorized && f.tokenFile == "":
		return "a token that may get the path /metrics is needed: --metrics-token"
	case code == http.StatusUnauthorized:
		return "the API server does not know the token of --metrics-token; it may have expired"
	case code == http.StatusForbidden:
		return "a token that may get the path /metrics is needed, and that of --metrics-token may not (metrics.readers of the chart)"
	case code == http.StatusBadRequest && at.Scheme == "http":
		return "TLS is spoken there: write https://"
	case code == http.StatusNotFound && at.Path != "/metrics":
		return "the controller's metrics are at the path /metrics"
	}
	return "is it the address of the controller's metrics?"
}

func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

func (f *statusFlags) scrape(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	at, err := url.Parse(f.metrics)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, fmt.Errorf("%q is no address: write one such as https://127.0.0.1:8443/metrics", f.metrics)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.metrics, nil)
	if err != nil {
		return nil, err
	}
	if f.tokenFile != "" {
		token, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("--metrics-token: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	c := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: f.insecure}, //nolint:gosec // asked for by flag
		Proxy:           http.ProxyFromEnvironment, DisableKeepAlives: true}}
	res, err := c.Do(req)
	if err != nil {
		return nil, unanswered(err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s: %s", f.metrics, res.Status, f.refused(at, res.StatusCode))
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(io.LimitReader(res.Body, maxMetrics))
}
