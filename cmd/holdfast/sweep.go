package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/wait"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/policies"
)

// sweepFlags are those of `holdfast sweep`.
type sweepFlags struct {
	objectFlags
	all     bool
	wait    bool
	timeout time.Duration
}

func newSweepCommand() *cobra.Command {
	f := &sweepFlags{}
	cmd := &cobra.Command{
		Use:   "sweep [CLUSTER...]",
		Short: "Have the controller read the clouds of clusters now",
		Long: `Have holdfast controller read the clouds of clusters now, by the annotation
` + v1alpha1.AnnotationSweepNow + ` on the Cluster. CLUSTER is NAMESPACE/NAME, or the name of one in the namespace
of -n, else of the kubeconfig's context; with -A, in any namespace.

With --wait it returns when the sweep has come to something and the conditions
show it: the controller then answers by the annotation ` + v1alpha1.AnnotationSwept + `.
A cloud that cannot be read gives no answer.`,
		Example: `  holdfast sweep prod/eu-1 --wait
  holdfast sweep --all`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case f.all && len(args) > 0:
				return errors.New("--all means every cluster: name none")
			case len(args) == 0 && !f.all && !f.allNamespaces:
				return fmt.Errorf("no cluster is given: name some, or --all for every one; usage: %s", cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.register(cmd)
	cmd.Flags().BoolVar(&f.all, "all", false, "every Cluster of all namespaces, or of the one that -n names")
	f.registerAll(cmd, "every namespace: every Cluster, or those of a name wherever they are")
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait until it has come to something")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 5*time.Minute, "longest time to wait")
	cmd.ValidArgsFunction = f.completeNames(func(ctx context.Context, c client.Client, ns string) []string {
		list, err := clustersIn(ctx, c, ns)
		if err != nil {
			return nil
		}
		names := make([]string, len(list))
		for i := range list {
			names[i] = list[i].Name
		}
		return names
	})
	return cmd
}

func (f *sweepFlags) run(cmd *cobra.Command, args []string) error {
	c, err := f.connect()
	if err != nil {
		return err
	}
	keys, err := f.keys(cmd.Context(), c, args)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		_, err := fmt.Fprintln(cmd.OutOrStdout(), noClusters(f.inNamespace()))
		return err
	}
	request := time.Now().UTC().Format(time.RFC3339Nano)
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationSweepNow, request)
	for _, key := range keys {
		cluster := &clusterv1.Cluster{}
		cluster.Namespace, cluster.Name = key.Namespace, key.Name
		if err := c.Patch(cmd.Context(), cluster, client.RawPatch(client.Merge.Type(), patch)); err != nil {
			return fmt.Errorf("ask for a sweep: %w", whereIsIt(cmd.Context(), c, clusterError(key, err), "cluster", key, clusterKeys))
		}
		_, _ = fmt.Fprintf(cmd.OutOrStdout(), "cluster %s: sweep requested\n", key)
	}
	if !f.wait {
		return nil
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), f.timeout)
	defer cancel()
	for _, key := range keys {
		if err := awaitSweep(ctx, c, key, request); err != nil {
			return err
		}
		_, _ = fmt.Fprintf(cmd.OutOrStdout(), "cluster %s: swept\n", key)
	}
	return nil
}

func (f *sweepFlags) keys(ctx context.Context, c client.Client, args []string) ([]client.ObjectKey, error) {
	var keys []client.ObjectKey
	var anywhere []string
	for _, arg := range args {
		if f.allNamespaces && !strings.Contains(arg, "/") {
			anywhere = append(anywhere, arg)
			continue
		}
		key, err := f.key(arg)
		if err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	if len(args) > 0 && len(anywhere) == 0 {
		return keys, nil
	}
	all, err := clusterKeys(ctx, c, f.inNamespace())
	if err != nil {
		return nil, err
	}
	if len(args) == 0 {
		return all, nil
	}
	for _, name := range anywhere {
		before := len(keys)
		var names []string
		for _, key := range all {
			if key.Name == name {
				keys = append(keys, key)
			}
			names = append(names, key.Name)
		}
		if len(keys) > before {
			continue
		}
		if near := policies.Nearest(name, names); near != "" {
			return nil, fmt.Errorf("there is no cluster %q in any namespace; did you mean %s?", name, near)
		}
		return nil, fmt.Errorf("there is no cluster %q in any namespace", name)
	}
	return keys, nil
}

// clusterError names the cluster in what the API server said, unless it said
// that there is none, which is told with more.
func clusterError(key client.ObjectKey, err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("the API server serves no Clusters: no Cluster API is installed there: %w", err)
	}
	return fmt.Errorf("cluster %s: %w", key, err)
}

// noClusters says where there are none.
func noClusters(namespace string) string {
	if namespace == "" {
		return "No clusters."
	}
	return "No clusters in namespace " + namespace + "; -A looks in all."
}

func clustersIn(ctx context.Context, c client.Client, namespace string) ([]clusterv1.Cluster, error) {
	list := &clusterv1.ClusterList{}
	if err := c.List(ctx, list, client.InNamespace(namespace)); err != nil {
		if meta.IsNoMatchError(err) {
			return nil, fmt.Errorf("the API server serves no Clusters: no Cluster API is installed there: %w", err)
		}
		return nil, fmt.Errorf("list Clusters: %w", err)
	}
	return list.Items, nil
}

// awaitSweep waits for the answer to a request, or to a later one.
func awaitSweep(ctx context.Context, c client.Client, key client.ObjectKey, request string) error {
	err := wait.PollUntilContextCancel(ctx, 500*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		cluster := &clusterv1.Cluster{}
		if err := c.Get(ctx, key, cluster); err != nil {
			return false, err
		}
		return cluster.Annotations[v1alpha1.AnnotationSwept] >= request, nil
	})
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("cluster %s was not swept in time: is holdfast controller running, is the cluster switched off, can its cloud be read? Its log says", key)
	}
	return err
}
