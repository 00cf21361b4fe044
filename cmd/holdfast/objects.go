package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/providers"
)

// objectFlags say which objects of which management cluster.
type objectFlags struct {
	kube          *genericclioptions.ConfigFlags
	allNamespaces bool
	output        string
}

// register adds the flags, with those formats of output that there are.
func (f *objectFlags) register(cmd *cobra.Command, formats ...string) {
	f.kube = &genericclioptions.ConfigFlags{KubeConfig: new(string), Context: new(string), Namespace: new(string)}
	flags := cmd.Flags()
	flags.StringVar(f.kube.KubeConfig, "kubeconfig", "", "kubeconfig file of the management cluster")
	flags.StringVar(f.kube.Context, "context", "", "context of the kubeconfig")
	flags.StringVarP(f.kube.Namespace, "namespace", "n", "", "namespace (default that of the context)")
	if len(formats) > 0 {
		flags.StringVarP(&f.output, "output", "o", formats[0], strings.Join(formats, ", "))
		completeWith(cmd, "output", formats...)
	}
}

// registerAll adds -A, as kubectl has it.
func (f *objectFlags) registerAll(cmd *cobra.Command, usage string) {
	cmd.Flags().BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, usage)
}

// inNamespace is the namespace of -n; empty for all, which is what a command
// takes whose default is all.
func (f *objectFlags) inNamespace() string {
	if f.allNamespaces {
		return ""
	}
	return *f.kube.Namespace
}

// connect gives a client that reads from the API server itself.
func (f *objectFlags) connect() (client.Client, error) {
	kinds, err := inventory.NewKinds(registrations(false)...)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(v1alpha1.AddToScheme(kinds.Scheme()), coordinationv1.AddToScheme(kinds.Scheme())); err != nil {
		return nil, err
	}
	cfg, err := managementCluster(f.kube)
	if err != nil {
		return nil, err
	}
	c, err := liveClient(cfg, kinds)
	if err != nil {
		return nil, fmt.Errorf("connect to the management cluster %s: %w", cfg.Host, err)
	}
	return c, nil
}

// namespace to look in; empty for all.
func (f *objectFlags) namespace() (string, error) {
	if f.allNamespaces {
		return "", nil
	}
	ns, _, err := f.kube.ToRawKubeConfigLoader().Namespace()
	return ns, err
}

// key splits NAMESPACE/NAME, or takes the namespace of the flags.
func (f *objectFlags) key(arg string) (client.ObjectKey, error) {
	if ns, name, found := strings.Cut(arg, "/"); found {
		if ns == "" || name == "" || strings.Contains(name, "/") {
			return client.ObjectKey{}, fmt.Errorf("%q: write NAMESPACE/NAME, or NAME with -n NAMESPACE", arg)
		}
		if given := *f.kube.Namespace; given != "" && given != ns {
			return client.ObjectKey{}, fmt.Errorf("%q is in another namespace than -n %s says", arg, given)
		}
		return client.ObjectKey{Namespace: ns, Name: name}, nil
	}
	ns, err := f.namespace()
	return client.ObjectKey{Namespace: ns, Name: arg}, err
}

// checkOutput refuses formats that there are not.
func (f *objectFlags) checkOutput(formats ...string) error {
	if slices.Contains(formats, f.output) {
		return nil
	}
	return fmt.Errorf("--output %q: want one of %s", f.output, strings.Join(formats, ", "))
}

// encode writes an object as JSON or YAML.
func encode(w io.Writer, format string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err == nil && format == "yaml" {
		data, err = yaml.JSONToYAML(data)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, strings.TrimRight(string(data), "\n"))
	return err
}

// shown is a text that came from the API server or a cloud, on one line.
func shown(s string, limit int) string { return providers.Cleaner{Max: limit}.Clean(s) }

// completeNames completes arguments by the names that list gives. It says
// nothing where the cluster cannot be asked: completion must not disturb.
func (f *objectFlags) completeNames(list func(context.Context, client.Client, string) []string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		c, err := f.connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ns, err := f.namespace()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := slices.DeleteFunc(list(cmd.Context(), c, ns), func(name string) bool { return slices.Contains(args, name) })
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
