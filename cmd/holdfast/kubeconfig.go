package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

var errNoCluster = errors.New("no management cluster to read: set --kubeconfig or KUBECONFIG")

// managementCluster finds the cluster to read: that of the kubeconfig, or inside
// a pod its own. client-go's last resort, localhost, is nobody's management
// cluster.
func managementCluster(kube *genericclioptions.ConfigFlags) (*rest.Config, error) {
	if path := *kube.KubeConfig; path != "" {
		if _, err := os.Stat(path); err != nil {
			return nil, fmt.Errorf("--kubeconfig: %w", err)
		}
	}
	raw, err := kube.ToRawKubeConfigLoader().RawConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	if len(raw.Clusters) == 0 {
		cfg, err := rest.InClusterConfig()
		if err != nil {
			return nil, noClusterIn(*kube.KubeConfig)
		}
		return cfg, nil
	}
	cfg, err := kube.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig: %w", err)
	}
	return cfg, nil
}

// noClusterIn says which files were looked at for a cluster. client-go skips
// those that are not there, and one that was named in vain is mostly misspelt.
func noClusterIn(explicit string) error {
	from, files := "--kubeconfig", []string{explicit}
	if explicit == "" {
		from, files = "KUBECONFIG", filepath.SplitList(os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
	}
	var missing, empty []string
	for _, file := range files {
		if file == "" {
			continue
		}
		if _, err := os.Stat(file); err != nil { //nolint:gosec // the user's own environment names it
			missing = append(missing, file)
		} else {
			empty = append(empty, file)
		}
	}
	switch {
	case len(empty) > 0:
		return fmt.Errorf("%w (%s names %s, which has no clusters)", errNoCluster, from, strings.Join(empty, ", "))
	case len(missing) > 0:
		return fmt.Errorf("%w (%s names %s, which does not exist)", errNoCluster, from, strings.Join(missing, ", "))
	}
	return errNoCluster
}
