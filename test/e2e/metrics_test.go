package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// sum adds up the series of a metric that have all the labels.
func (d *daemon) sum(metric string, labels map[string]string) (float64, error) {
	r, err := http.Get("http://" + d.metrics + "/metrics") //nolint:noctx // it ends with the process
	if err != nil {
		return 0, err
	}
	defer func() { _ = r.Body.Close() }()
	if r.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("get metrics: %s", r.Status)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r.Body)
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	total := 0.0
	for _, m := range families[metric].GetMetric() {
		if has(m, labels) {
			total += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return total, nil
}

func has(m *dto.Metric, labels map[string]string) bool {
	left := len(labels)
	for _, l := range m.GetLabel() {
		want, asked := labels[l.GetName()]
		if asked && want != l.GetValue() {
			return false
		}
		if asked {
			left--
		}
	}
	return left == 0
}

// series are its own, for a failed test.
func (d *daemon) series() string {
	r, err := http.Get("http://" + d.metrics + "/metrics") //nolint:noctx // it ends with the process
	if err != nil {
		return err.Error()
	}
	defer func() { _ = r.Body.Close() }()
	var out strings.Builder
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		if line := lines.Text(); strings.HasPrefix(line, "holdfast_") && !strings.Contains(line, "_bucket") && !strings.Contains(line, "holdfast_resources") {
			out.WriteString(line + "\n")
		}
	}
	return out.String()
}
