// Grafana's schema of dashboards, which nothing but a test needs.
module github.com/holdfast-io/holdfast/hack/dashboards

go 1.26.0

require github.com/grafana/grafana-foundation-sdk/go v0.0.22
