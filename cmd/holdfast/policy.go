package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
)

// newPolicyCommand is `holdfast policy` with its subcommands.
func newPolicyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check, explain and test policies",
		Long: `Check, explain and test policies: what is done about which drift, when, and how
much of it at once. docs/policy.md is the reference of the language.`,
		Args:                       onlyCommands,
		SuggestionsMinimumDistance: 2,
		RunE:                       func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPolicyLintCommand(), newPolicyExplainCommand(), newPolicyTestCommand(), newPolicySchemaCommand())
	return cmd
}

func newPolicySchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of a policy",
		Long: `Print the JSON Schema of a policy, with which editors complete and check. The
loader checks more than a schema can: see holdfast policy lint.`,
		Example: `  holdfast policy schema > driftpolicy.schema.json
  # then, as a policy's first line:
  # yaml-language-server: $schema=driftpolicy.schema.json`,
		Args: noArguments(""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(policies.Schema())
			return err
		},
	}
}

// explainFlags are those of `holdfast policy explain`.
type explainFlags struct {
	policies []string
	labels   map[string]string
	output   string
}

func newPolicyExplainCommand() *cobra.Command {
	f := &explainFlags{}
	cmd := &cobra.Command{
		Use:   "explain NAMESPACE/NAME",
		Short: "Show each value that holds for a cluster, and where it comes from",
		Long: `Show each value that holds for a cluster, with the file and line of the policy
it comes from. No cluster is read: the labels by which policies select it are
given with --labels.`,
		Example: `  holdfast policy explain prod/eu-1 --policy policies/ --labels tier=prod`,
		Args:    wantArguments("cluster", false),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) },
	}
	cmd.Flags().StringArrayVar(&f.policies, "policy", nil, "file or folder of DriftPolicies, beside the built-in ones; repeatable")
	cmd.Flags().StringToStringVar(&f.labels, "labels", nil, "labels of the Cluster object: KEY=VALUE,KEY=VALUE")
	cmd.Flags().StringVarP(&f.output, "output", "o", "text", "text or json")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"text", "json"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func (f *explainFlags) run(cmd *cobra.Command, cluster string) error {
	namespace, name, ok := strings.Cut(cluster, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return &statusError{code: exitError, err: fmt.Errorf("cluster %q: write NAMESPACE/NAME", cluster)}
	}
	if f.output != "text" && f.output != "json" {
		return &statusError{code: exitError, err: fmt.Errorf("--output %q: known are text, json", f.output)}
	}
	set, problems := policies.Load(policyOptions(), f.policies...)
	if err := problems.Err(); err != nil {
		return &statusError{code: exitBadPolicy, err: err}
	}
	for _, p := range problems {
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), legible(p.String()))
	}
	effective := set.For(detector.ClusterRef{Namespace: namespace, Name: name}, f.labels)
	others := set.Unmatched(map[detector.ClusterRef]map[string]string{effective.Cluster: f.labels})
	if f.output == "json" {
		return writeJSON(cmd.OutOrStdout(), struct {
			Cluster  detector.ClusterRef `json:"cluster"`
			Labels   map[string]string   `json:"labels,omitempty"`
			Policies []policies.Origin   `json:"policies"`
			// NotApplied are those given with --policy that are not for it.
			NotApplied []policies.Unmatched `json:"notApplied,omitempty"`
			Values     []policies.Explained `json:"values"`
		}{effective.Cluster, f.labels, effective.Applied(), others, effective.Explain()})
	}
	return explainText(cmd.OutOrStdout(), effective, others)
}

// explainText writes three columns: name, place, value. The value comes last
// since it may be long.
func explainText(w io.Writer, e *policies.Effective, others []policies.Unmatched) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	_, err := fmt.Fprintf(t, "Policies for cluster %s, the weakest first:\n", e.Cluster)
	for _, o := range e.Applied() {
		_, writeErr := fmt.Fprintf(t, "  %s\t%s\t%s\n", oneLine(o.Policy), o.Level, oneLine(o.String()))
		err = errors.Join(err, writeErr)
	}
	if len(others) > 0 {
		_, writeErr := fmt.Fprintln(t, "\nNot for this cluster:")
		err = errors.Join(err, writeErr)
	}
	for _, u := range others {
		_, writeErr := fmt.Fprintf(t, "  %s\t%s\t%s\n", oneLine(u.Policy), oneLine(u.String()), oneLine(u.Why))
		err = errors.Join(err, writeErr)
	}
	_, writeErr := fmt.Fprintln(t)
	err = errors.Join(err, writeErr)
	for _, x := range e.Explain() {
		_, writeErr := fmt.Fprintf(t, "%s\t%s\t%s\n", oneLine(x.Name), oneLine(x.From.String()), oneLine(x.Value))
		err = errors.Join(err, writeErr)
	}
	return errors.Join(err, t.Flush())
}

// oneLine keeps a value from breaking the table or reaching the terminal's
// controls.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.TrimSpace(s))
}

// isBadPolicy reports whether an error says that a policy cannot be used.
func isBadPolicy(err error) bool {
	var invalid *policies.InvalidError
	return errors.As(err, &invalid)
}
