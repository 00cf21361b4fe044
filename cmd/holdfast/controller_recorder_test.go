package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// What was recorded just before a stop is written, by a server that takes its
// time, and no error is logged about it. A server that never answers holds no
// stop up.
func TestRecorderWritesTheLastEvents(t *testing.T) {
	for _, c := range []struct {
		name  string
		takes time.Duration
		want  int32
	}{{"slow server", 300 * time.Millisecond, 20}, {"dead server", time.Hour, 0}} {
		t.Run(c.name, func(t *testing.T) {
			var written atomic.Int32
			released := make(chan struct{})
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				select {
				case <-time.After(c.takes):
				case <-released:
					return
				}
				written.Add(1)
				w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
				w.WriteHeader(http.StatusCreated)
				_, _ = w.Write(body)
			}))
			defer server.Close()
			defer close(released)
			log := &syncBuffer{}
			config := defaultControllerConfig()
			r, err := newRecorder(&rest.Config{Host: server.URL, QPS: -1}, server.Client(), scheme.Scheme, newLogger(&config, log))
			if err != nil {
				t.Fatal(err)
			}
			for i := range 20 {
				node := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: string(rune('a' + i))}}
				r.Eventf(node, nil, corev1.EventTypeNormal, "Told", "Tell", "number %d", i)
			}
			r.close()
			if got := written.Load(); got != c.want {
				t.Errorf("%d of 20 events were written before the stop, want %d", got, c.want)
			}
			if c.want > 0 && strings.Contains(log.String(), "error") {
				t.Errorf("the log has errors: %s", log.String())
			}
		})
	}
}
