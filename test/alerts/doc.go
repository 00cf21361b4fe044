// Package alerts holds the acceptance tests of the chart's alerts, recording rules
// and dashboards. promtool plays series to each alert; and a real Prometheus
// scrapes a real holdfast controller, while what each alert is about is made to
// happen on a simulated cloud.
package alerts
