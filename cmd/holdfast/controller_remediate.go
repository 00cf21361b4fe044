package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/node"
	"github.com/holdfast-io/holdfast/reconcilers/remediation"
	"github.com/holdfast-io/holdfast/remediator"
)

// workloadTimeout bounds a call to a workload cluster, which may be the very
// thing that is broken.
const workloadTimeout = 30 * time.Second

// records makes what remembers remediations.
func (d *controller) records(c *controllerConfig) *remediation.Store {
	return &remediation.Store{
		Client: d.client, Reader: d.manager.GetAPIReader(), Namespace: c.Namespace,
		Now: time.Now, Fence: d.lease.held,
		Told: func(_ context.Context, _ v1alpha1.RemediationPhase, r *v1alpha1.Remediation) {
			d.notifier.Remediated(r)
		},
	}
}

// remediate adds what acts. It writes to clouds by those providers that can,
// and replaces through Cluster API.
func (d *controller) remediate(store *remediation.Store, config *controllerConfig) error {
	objects := remediator.Objects{Reader: d.manager.GetAPIReader(), Mapper: d.manager.GetRESTMapper()}
	appliers := map[string]providers.Applier{}
	for name, p := range d.clouds {
		if a, ok := p.(providers.Applier); ok {
			appliers[name] = a
		}
	}
	workloads, err := d.workloads()
	if err != nil {
		return err
	}
	c := &remediation.Controller{
		Store: store, Daemon: d.daemon, Asker: d.daemon, Appliers: appliers,
		Replacer:  &remediator.Replacer{Objects: objects, Client: d.client},
		Drainer:   &remediator.Drainer{Objects: objects, Client: d.client, Remote: workloads},
		Times:     remediation.Times{Settle: config.VerifyAfter.Duration, Poll: config.PollInterval.Duration, Replace: config.ReadyWithin.Duration},
		Retention: config.retention(),
	}
	if err := c.SetupWithManager(d.manager); err != nil {
		return fmt.Errorf("set up remediation: %w", err)
	}
	return nil
}

// workloads gives clients of workload clusters by their kubeconfig Secrets
// (Cluster API's contract: NAME-kubeconfig). None is kept: a node is emptied
// seldom, and the Secret may be renewed.
func (d *controller) workloads() (func(context.Context, types.NamespacedName) (client.Client, error), error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, policyv1.AddToScheme, appsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, cluster types.NamespacedName) (client.Client, error) {
		cfg, err := node.RESTConfig(ctx, d.manager.GetAPIReader(), cluster)
		if err != nil {
			return nil, fmt.Errorf("reach cluster %s: %w", cluster, err)
		}
		cfg.Timeout = workloadTimeout
		return client.New(cfg, client.Options{Scheme: scheme})
	}, nil
}
