package main

import (
	"github.com/go-logr/logr"

	"github.com/holdfast-io/holdfast/reconcilers/reports"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
)

// reports adds what keeps Report objects, or removes those of a run that did. It
// comes last: conditions, events and messages do not wait for it.
func (d *controller) reports(c *controllerConfig, sinks []sweep.Sink, log logr.Logger) ([]sweep.Sink, error) {
	if c.Reports {
		return append(sinks, reports.New(reports.Options{Client: d.client, Namespace: c.Namespace})), nil
	}
	return sinks, d.manager.Add(&reports.Remover{Client: d.client, Namespace: c.Namespace, Log: log.WithName("reports")})
}
