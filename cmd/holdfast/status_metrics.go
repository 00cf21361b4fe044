package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// clusterMetrics is what the controller's metrics tell of a cluster.
type clusterMetrics struct {
	LastSweep *metav1.Time `json:"lastSweep,omitempty"`
	Coverage  *float64     `json:"coverage,omitempty"`
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

func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

func (f *statusFlags) scrape(ctx context.Context) (map[string]*dto.MetricFamily, error) {
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
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered %s: a token that may get the path /metrics is needed", f.metrics, res.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(io.LimitReader(res.Body, maxMetrics))
}
