package main

import (
	"context"
	"crypto/tls"
	"net/http"
	"testing"

	"k8s.io/client-go/rest"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Faults of Go's HTTP/2 server, such as GO-2026-6617, would be open to whoever can
// connect, with a token or without.
func TestMetricsAreNotServedByHTTP2(t *testing.T) {
	c := defaultControllerConfig()
	c.MetricsBindAddress = freeAddress(t)
	server, err := metricsserver.NewServer(metricsServing(&c), &rest.Config{}, http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- server.Start(ctx) }()
	eventually(t, "a TLS connection that asks for HTTP/2 first", func() error {
		conn, err := tls.Dial("tcp", c.MetricsBindAddress, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}}) // self-signed
		if err != nil {
			return err
		}
		if got := conn.ConnectionState().NegotiatedProtocol; got != "http/1.1" {
			t.Errorf("the server chose %q, want http/1.1", got)
		}
		return conn.Close()
	})
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
