package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"

	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/report"
)

// reportFlags are what the user asked for.
type reportFlags struct {
	objects       []string
	kube          *genericclioptions.ConfigFlags
	allNamespaces bool
	clusters      []string
	policies      []string
	outputs       []string
	failOn        string
	compare       string
	snapshot      string
	saveSnapshot  string
	exitStyle     string
	color         string
	showIgnored   bool
	nodes         bool
	creationGrace time.Duration
	timeout       time.Duration
}

func newReportCommand() *cobra.Command {
	f := &reportFlags{}
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Compare the cloud with what is declared, and change nothing",
		Long: `Compare what runs in the cloud with what Cluster API objects declare, and change
nothing.

The objects come from the management cluster of the kubeconfig, in all
namespaces unless -n narrows them, or from files with --objects. The cloud is
read with the identities that the objects name, else with the usual
credentials of AWS (environment, profile, role) and vSphere (VSPHERE_SERVER,
VSPHERE_USERNAME, VSPHERE_PASSWORD). Reading is all that the credentials need
to allow.

Exit status: 0 in sync, 1 drift at or above --fail-on, 2 error, 3 incomplete
(something could not be compared and nothing drifted), 4 bad policy, 130
interrupted.`,
		Example: `  # The clusters of the current management cluster
  holdfast report

  # A folder of YAML, against the account of the AWS profile "prod"
  AWS_PROFILE=prod holdfast report --objects clusters/

  # For people, for scripts and for the browser, from one scan
  holdfast report -o table -o json=drift.json -o html=drift.html

  # In CI: fail on high severity, and upload the findings to code scanning
  holdfast report --objects . --fail-on high -o sarif=drift.sarif

  # What is new since yesterday
  holdfast report --compare yesterday.json`,
		Args: noArguments("--cluster NAMESPACE/NAME narrows the report, and --objects names files"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.register(cmd)
	return cmd
}

func (f *reportFlags) register(cmd *cobra.Command) {
	f.kube = &genericclioptions.ConfigFlags{KubeConfig: new(string), Context: new(string), Namespace: new(string)}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.objects, "objects", nil, "file or folder of objects instead of a management cluster; - is standard input; repeatable")
	flags.StringVar(f.kube.KubeConfig, "kubeconfig", "", "kubeconfig file")
	flags.StringVar(f.kube.Context, "context", "", "context of the kubeconfig")
	flags.StringVarP(f.kube.Namespace, "namespace", "n", "", "namespace to look at (default all)")
	flags.BoolVarP(&f.allNamespaces, "all-namespaces", "A", false, "every namespace, which is the default")
	flags.StringArrayVar(&f.clusters, "cluster", nil, "NAMESPACE/NAME of a Cluster to look at, * and ? allowed; repeatable (default all)")
	flags.StringArrayVar(&f.policies, "policy", nil, "file or folder of DriftPolicies, beside the built-in ones; repeatable")
	flags.StringArrayVarP(&f.outputs, "output", "o", []string{"table"}, "FORMAT or FORMAT=FILE: "+strings.Join(report.Formats(), ", ")+"; repeatable")
	flags.StringVar(&f.failOn, "fail-on", string(report.DefaultFailOn), "least severity that gives exit status 1: critical, high, medium, low, info")
	flags.StringVar(&f.compare, "compare", "", "earlier JSON report to compare with: says what is new and what is resolved")
	flags.StringVar(&f.snapshot, "snapshot", "", "saved snapshot to compare with instead of the cloud")
	flags.StringVar(&f.saveSnapshot, "save-snapshot", "", "file to save what was seen in, for --snapshot")
	flags.BoolVar(&f.nodes, "nodes", false, "compare the Nodes of workload clusters too, for which the kubeconfig Secrets of the clusters are read: few credentials of people allow that")
	flags.StringVar(&f.exitStyle, "exit-style", "", "terraform: 0 in sync, 2 drift, 1 error or incomplete, as terraform plan -detailed-exitcode")
	flags.BoolVar(&f.showIgnored, "show-ignored", false, "list ignored and foreign findings too")
	flags.StringVar(&f.color, "color", "auto", "auto, always or never; NO_COLOR is honoured")
	flags.DurationVar(&f.creationGrace, "creation-grace", 5*time.Minute, "age below which a resource that is not found is not called missing")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Minute, "longest time for the whole scan; what was not read by then is not checked")
	completeWith(cmd, "fail-on", "critical", "high", "medium", "low", "info")
	completeWith(cmd, "exit-style", "holdfast", "terraform")
	completeWith(cmd, "color", "auto", "always", "never")
	completeWith(cmd, "output", report.Formats()...)
}

func completeWith(cmd *cobra.Command, flag string, values ...string) {
	// The only error is a flag that does not exist, which a test would show.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// settings are the parsed flags.
type settings struct {
	outputs  []report.Output
	failOn   policies.Severity
	style    report.ExitStyle
	color    report.ColorWhen
	policies *policies.Set
	previous *report.Report
}

// parse checks every flag before anything is read, so that a long scan does
// not end in a complaint about a misspelled format.
func (f *reportFlags) parse() (s settings, err error) {
	var errs []error
	s.outputs, err = report.ParseOutputs(f.outputs)
	errs = append(errs, err)
	s.failOn, err = report.ParseFailOn(f.failOn)
	errs = append(errs, err)
	s.style, err = report.ParseExitStyle(f.exitStyle)
	errs = append(errs, err)
	s.color, err = report.ParseColor(f.color)
	errs = append(errs, err)
	errs = append(errs, f.contradictions())
	if f.allNamespaces {
		*f.kube.Namespace = ""
	}
	if f.compare != "" {
		s.previous, err = readReport(f.compare)
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil {
		return s, &statusError{code: s.style.Code(report.OutcomeError), err: err}
	}
	return s, nil
}

// contradictions names flags that cannot be meant together.
func (f *reportFlags) contradictions() error {
	switch {
	case f.snapshot != "" && f.saveSnapshot != "":
		return errors.New("--snapshot reads a saved snapshot and --save-snapshot writes one: give one of them")
	case len(f.objects) > 0 && *f.kube.KubeConfig != "":
		return errors.New("--objects reads files and --kubeconfig a management cluster: give one of them")
	case len(f.objects) > 0 && *f.kube.Context != "":
		return errors.New("--objects reads files and --context chooses a management cluster: give one of them")
	default:
		return nil
	}
}

func readReport(path string) (*report.Report, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--compare: %w", err)
	}
	defer func() { _ = file.Close() }()
	r, err := report.Read(file)
	if err != nil {
		return nil, fmt.Errorf("--compare %s: %w", path, err)
	}
	return r, nil
}

// loadPolicies gives the built-in policies and those of the user. Warnings go
// to the user and stop nothing.
func loadPolicies(cmd *cobra.Command, paths []string) (*policies.Set, error) {
	set, problems := policies.Load(policyOptions(), paths...)
	if err := problems.Err(); err != nil {
		return nil, err
	}
	for _, p := range problems {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), legible(p.String()))
	}
	return set, nil
}
