package main

import (
	"crypto/tls"

	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// metricsServing is how /metrics is served: by HTTP/1 alone, as whoever can connect can
// speak HTTP/2 before it is asked who that is, and scrapers do well without.
func metricsServing(c *controllerConfig) metricsserver.Options {
	serving := metricsserver.Options{
		BindAddress: c.MetricsBindAddress, SecureServing: c.MetricsSecure, CertDir: c.MetricsCertDir,
		TLSOpts: []func(*tls.Config){func(t *tls.Config) { t.NextProtos = []string{"http/1.1"} }},
	}
	if c.MetricsSecure {
		serving.FilterProvider = filters.WithAuthenticationAndAuthorization
	}
	return serving
}
