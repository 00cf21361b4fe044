package faults

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// kubeconfigOf names the cluster whose kubeconfig a path is of, empty if it is
// none (Cluster API's contract: Secret NAME-kubeconfig).
func kubeconfigOf(path string) string {
	parts := strings.Split(path, "/")
	if n := len(parts); n < 2 || parts[n-2] != "secrets" {
		return ""
	}
	name, is := strings.CutSuffix(parts[len(parts)-1], "-kubeconfig")
	if !is {
		return ""
	}
	return name
}

// viaFront leads the program through the front to a workload cluster: in the
// kubeconfig that it reads the address is the front's.
func (f *front) viaFront(r *http.Response) error {
	name := kubeconfigOf(r.Request.URL.Path)
	if name == "" || r.StatusCode != http.StatusOK || r.Request.Method != http.MethodGet {
		return nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	_ = r.Body.Close()
	secret := map[string]any{}
	if err := json.Unmarshal(body, &secret); err != nil {
		return fmt.Errorf("kubeconfig of %s: %w", name, err)
	}
	data, _ := secret["data"].(map[string]any)
	value, _ := data["value"].(string)
	kubeconfig, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return fmt.Errorf("kubeconfig of %s: %w", name, err)
	}
	text, err := f.rewritten(name, kubeconfig)
	if err != nil {
		return fmt.Errorf("kubeconfig of %s: %w", name, err)
	}
	data["value"] = base64.StdEncoding.EncodeToString(text)
	if body, err = json.Marshal(secret); err != nil {
		return err
	}
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	r.Header.Set("Content-Length", strconv.Itoa(len(body)))
	return nil
}

// rewritten is a kubeconfig that leads through the front.
func (f *front) rewritten(name string, kubeconfig []byte) ([]byte, error) {
	cfg, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	address := f.workloads[name]
	f.mu.Unlock()
	if address == "" {
		transport, err := rest.TransportFor(cfg)
		if err != nil {
			return nil, err
		}
		address = f.serve(cfg.Host, transport, nil)
		f.mu.Lock()
		f.workloads[name] = address
		f.mu.Unlock()
	}
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: %q}}]
contexts: [{name: c, context: {cluster: c}}]
`, address), nil
}
