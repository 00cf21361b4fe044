// Command print writes what has to be in a management cluster before managed mode
// starts, ready for kubectl apply --server-side (make managed-crds).
package main

import (
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/holdfast-io/holdfast/hack/clusterapi"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "print:", err)
		os.Exit(2)
	}
}

// Defaults are where the chart has the Service of an installation by its name.
const (
	defaultNamespace = "holdfast-system"
	defaultService   = "holdfast-webhook"
	defaultPort      = 443
)

func run(args []string, out io.Writer) error {
	s := &clusterapi.Service{}
	f := flag.NewFlagSet("print", flag.ContinueOnError)
	f.StringVar(&s.Namespace, "namespace", defaultNamespace, "namespace of the Service that leads to Holdfast's webhooks")
	f.StringVar(&s.Name, "service", defaultService, "name of that Service")
	port := f.Uint("port", defaultPort, "port of that Service")
	authority := f.String("ca-file", "", "PEM file of the authority that signed the certificate there; without it something else must put it in")
	f.StringVar(&s.InjectFrom, "inject-ca-from", "", "NAMESPACE/NAME of the cert-manager Certificate whose authority cert-manager is to put in")
	webhooks := f.Bool("webhooks", false, "print the configurations of the admission webhooks instead of the CRDs")
	if err := f.Parse(args); err != nil {
		return err
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%q: want flags only", f.Args())
	}
	s.Port = int32(min(*port, 1<<16))
	if *authority != "" {
		var err error
		if s.CABundle, err = os.ReadFile(*authority); err != nil {
			return fmt.Errorf("--ca-file: %w", err)
		}
	}
	if err := s.Validate(); err != nil {
		return err
	}
	if *webhooks {
		w, err := clusterapi.AdmissionWebhooks(s)
		if err != nil {
			return err
		}
		if err := clusterapi.Write(out, w.Mutating...); err != nil {
			return err
		}
		return clusterapi.Write(out, w.Validating...)
	}
	crds, err := clusterapi.CRDs(clusterapi.Options{Service: s})
	if err != nil {
		return err
	}
	return clusterapi.Write(out, crds...)
}
