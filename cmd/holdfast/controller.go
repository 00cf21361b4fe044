package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

func newControllerCommand() *cobra.Command {
	c := defaultControllerConfig()
	var file string
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Watch for drift in a management cluster, and do what its policies say",
		Long: `Watch for drift in a management cluster for good: read the clouds behind its
Clusters on the policies' schedule and whenever something changes, show drift as
conditions and events on Machines, infrastructure objects and Clusters, and do
what the policies say about it. The built-in policies only observe.

It runs beside Cluster API and its providers of any version that serves v1beta1
or v1beta2, and never needs their webhooks to be its own. Several replicas may
run: one holds the lease and acts. It ends within ten seconds of SIGTERM and
gives the lease back.

A configuration file holds the same values as flags do, under the flags' names
in camelCase, and under notify whom to tell of what; a flag that is given wins.
docs/controller.md describes the permissions that it needs.

With --reconcilers it runs Cluster API's own reconcilers, webhooks and conversions
too, in place of upstream's controller managers; docs/managed.md says what has to
be there first. It ends where upstream's run already.

Exit status: 0 after SIGTERM or SIGINT, 2 on an error, 4 if the policy files are
bad at the start.`,
		Example: `  # Beside Cluster API, with the current kubeconfig
  holdfast controller --policy policies/ --leader-elect=false --metrics-bind-address 127.0.0.1:8443

  # From a file
  holdfast controller --config /etc/holdfast/config.yaml`,
		Args: noArguments(""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if file != "" {
				if err := c.load(file, cmd); err != nil {
					return err
				}
			}
			if err := c.check(); err != nil {
				return err
			}
			return runController(cmd, &c)
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "file with the same values as the flags")
	c.register(cmd)
	return cmd
}

func runController(cmd *cobra.Command, c *controllerConfig) error {
	log := newLogger(c, cmd.ErrOrStderr())
	ctrl.SetLogger(log)
	klog.SetLogger(log)
	cfg, err := managementCluster(&genericclioptions.ConfigFlags{KubeConfig: &c.Kubeconfig, Context: &c.Context, Namespace: &c.Namespace})
	if err != nil {
		return err
	}
	d, err := newController(cmd.Context(), c, cfg, log)
	if err != nil {
		return err
	}
	defer d.close()
	if err := d.manager.Start(cmd.Context()); err != nil {
		return fmt.Errorf("run the controller: %w", err)
	}
	log.Info("Stopped")
	return nil
}
