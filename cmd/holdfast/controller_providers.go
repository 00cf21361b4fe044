package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/reconcilers/core"
	"github.com/holdfast-io/holdfast/reconcilers/providerobjects"
)

// autoReconcilers, among --reconcilers, stands for those that Provider objects name
// when the process starts.
const autoReconcilers = "auto"

// namedReconcilers are those that are named. Before Provider objects are read, any
// will do in place of auto alone for the other settings to be looked at.
func (c *controllerConfig) namedReconcilers() []string {
	named := slices.DeleteFunc(slices.Clone(c.Reconcilers), func(name string) bool { return name == autoReconcilers })
	if len(named) == 0 {
		return []string{string(core.Core)}
	}
	return named
}

// withProviders gives a configuration that names what auto stands for.
func (c *controllerConfig) withProviders(ctx context.Context, cfg *rest.Config) (*controllerConfig, error) {
	at := slices.Index(c.Reconcilers, autoReconcilers)
	if at < 0 {
		return c, nil
	}
	reader, err := client.New(cfg, client.Options{})
	if err != nil {
		return nil, err
	}
	wanted, not, err := providerobjects.Wanted(ctx, reader, c.Namespace)
	if err != nil {
		return nil, fmt.Errorf("--reconcilers auto: %w", err)
	}
	out := *c
	out.Reconcilers = slices.Concat(c.Reconcilers[:at], wanted, c.Reconcilers[at+1:])
	if len(out.Reconcilers) > 0 {
		return &out, nil
	}
	problem := "no Provider object names reconcilers that there are: apply one (docs/managed.md)"
	if len(not) > 0 {
		problem += "; " + strings.Join(not[:min(len(not), maxProviders)], "; ")
	}
	return nil, errors.New("--reconcilers auto: " + problem)
}

// maxProviders are as many as an error is to tell of.
const maxProviders = 5

// setUpProviders has Provider objects told whether they are served.
func (d *controller) setUpProviders(ctx context.Context) error {
	o := providerobjects.Options{Auto: d.auto, Namespace: d.managed.Namespace}
	for _, part := range d.managed.Parts {
		o.Loaded = append(o.Loaded, string(part))
	}
	return o.SetUp(ctx, d.manager)
}
