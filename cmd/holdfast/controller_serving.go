package main

import (
	"crypto/tls"

	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// onlyHTTP1 is for all that serves: whoever can connect can speak HTTP/2 before it is
// asked who that is, and scrapers and API servers do well without.
var onlyHTTP1 = []func(*tls.Config){func(t *tls.Config) { t.NextProtos = []string{"http/1.1"} }}

// metricsServing is how /metrics is served.
func metricsServing(c *controllerConfig) metricsserver.Options {
	serving := metricsserver.Options{
		BindAddress: c.MetricsBindAddress, SecureServing: c.MetricsSecure, CertDir: c.MetricsCertDir,
		TLSOpts: onlyHTTP1,
	}
	if c.MetricsSecure {
		serving.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return serving
}
