package suites_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/detector"
	awsexamples "github.com/holdfast-io/holdfast/examples/aws"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/aws"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/moto"
)

// TestAWSTampersOnMoto makes the examples' clusters on moto and tampers with
// them, row by row of the drift catalog: no finding before, exactly the
// expected ones after, none once it is undone.
func TestAWSTampersOnMoto(t *testing.T) {
	server, err := moto.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	pointAWSAt(t, server.URL)
	cloud := &awsCloud{
		clients: func(region string) awscluster.Clients { return awscluster.NewClients(server.URL, region) },
		options: awscluster.Options{OnMoto: true},
		skip:    func(tamper *awscluster.Tamper) string { return tamper.NotOnMoto },
	}
	cloud.run(t)
}

// pointAWSAt configures the SDK's standard chain, which the provider uses.
func pointAWSAt(t *testing.T, url string) {
	t.Helper()
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL": url, "AWS_ACCESS_KEY_ID": "AKIAEXAMPLEEXAMPLE00", "AWS_SECRET_ACCESS_KEY": "example",
		"AWS_EC2_METADATA_DISABLED": "true", "AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
		"AWS_PROFILE": "", "AWS_REGION": "", "AWS_DEFAULT_REGION": "",
	} {
		t.Setenv(name, value)
	}
}

// awsCloud is a simulated cloud under test.
type awsCloud struct {
	clients func(region string) awscluster.Clients
	options awscluster.Options
	// skip says why a tamper cannot be done here; empty if it can.
	skip func(*awscluster.Tamper) string
	// scanned is called around every scan.
	scanned func(*testing.T, func())
	// played counts the tampers that were done, and drifted has the kinds and
	// paths of all that was found of them.
	played  int
	drifted map[[2]string]bool
}

func (c *awsCloud) run(t *testing.T) {
	tampers := awscluster.Tampers()
	for v, variant := range awscluster.Variants() {
		var env *awscluster.Environment
		generation := 100 * v // names of a variant's clusters are its own
		built := generation
		for i := range tampers {
			tamper := &tampers[i]
			if tamper.On() != variant.Manifest || tamper.Variant != variant.Name {
				continue
			}
			t.Run(tamper.Name, func(t *testing.T) {
				if why := c.skip(tamper); why != "" {
					t.Skip(why)
				}
				if built < generation {
					t.Skip("no cluster could be made, as an earlier test says")
				}
				if env == nil {
					generation++
					env = c.build(t, &variant, generation)
					built++
				}
				if !c.play(t, env, tamper) {
					env = nil
				}
			})
		}
	}
}

// build makes a cluster and expects no finding of it. Each further generation
// has a name of its own, for the broken one before it is still there.
func (c *awsCloud) build(t *testing.T, variant *awscluster.Variant, generation int) *awscluster.Environment {
	t.Helper()
	m, err := awscluster.Load(awsexamples.Files, variant.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	m.Rename(fmt.Sprintf("%s-%d", m.Cluster.Name, generation))
	options := c.options
	options.Manifest, options.Edit, options.BringVPC = m, variant.Edit, variant.BringVPC
	env, err := awscluster.Build(t.Context(), c.clients(m.AWSCluster.Spec.Region), options)
	if err != nil {
		t.Fatal(err)
	}
	c.expect(t, "before tampering", env, nil)
	return env
}

// play reports whether the cluster is whole again afterwards.
func (c *awsCloud) play(t *testing.T, env *awscluster.Environment, tamper *awscluster.Tamper) (whole bool) {
	t.Helper()
	damage, err := tamper.Do(t.Context(), env)
	if err != nil {
		t.Errorf("tamper: %v", err)
		return false
	}
	c.expect(t, "after tampering", env, damage.Findings)
	c.played++
	if c.drifted == nil {
		c.drifted = map[[2]string]bool{}
	}
	for _, f := range damage.Findings {
		for _, d := range f.Diffs {
			c.drifted[[2]string{f.Kind, d.Path}] = true
		}
	}
	if damage.Undo == nil {
		return false
	}
	if err := damage.Undo(t.Context()); err != nil {
		t.Errorf("undo: %v", err)
		return false
	}
	c.expect(t, "after undoing", env, nil)
	return !t.Failed()
}

func (c *awsCloud) expect(t *testing.T, when string, env *awscluster.Environment, want []awscluster.Finding) {
	t.Helper()
	var (
		got     []awscluster.Finding
		reasons []string
	)
	scan := func() {
		for _, f := range scanAWS(t, env) {
			if f.Status != detector.InSync {
				got = append(got, awscluster.FindingOf(&f))
				reasons = append(reasons, f.Reason)
			}
		}
	}
	if c.scanned != nil {
		c.scanned(t, scan)
	} else {
		scan()
	}
	if diff := cmp.Diff(lines(want), lines(got)); diff != "" {
		t.Errorf("findings %s (-want +got):\n%s\nreasons: %s", when, diff, strings.Join(reasons, "; "))
	}
}

func lines(findings []awscluster.Finding) []string {
	findings = slices.Clone(findings)
	awscluster.SortFindings(findings)
	out := make([]string, len(findings))
	for i, f := range findings {
		out[i] = f.String()
	}
	return out
}

// scanAWS does what a report does, up to its findings: it reads the exported
// objects, observes their scope and compares.
func scanAWS(t *testing.T, env *awscluster.Environment) []detector.Finding {
	t.Helper()
	provider, owners := loadAWS(t, env)
	findings, err := scanOwners(t.Context(), provider, owners)
	if err != nil {
		t.Fatal(err)
	}
	return findings
}

// loadAWS exports a cluster's objects to files, as a user does, and reads them
// back: its owners, and a provider that finds identities among them.
func loadAWS(t *testing.T, env *awscluster.Environment, options ...aws.Option) (*aws.Provider, []*providers.Owner) {
	t.Helper()
	dir := t.TempDir()
	if err := env.Write(dir); err != nil {
		t.Fatal(err)
	}
	kinds, err := inventory.NewKinds(aws.Registration())
	if err != nil {
		t.Fatal(err)
	}
	set, err := inventory.FromFiles(kinds, []string{dir}, strings.NewReader(""))
	if err != nil {
		t.Fatal(err)
	}
	inv, err := inventory.Group(kinds, set, inventory.Selection{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range inv.Problems {
		t.Errorf("problem with the exported objects: %+v", p)
	}
	provider, err := aws.New(set.Reader(kinds, nil), options...)
	if err != nil {
		t.Fatal(err)
	}
	var owners []*providers.Owner
	for _, c := range inv.Clusters {
		for _, o := range c.Owners {
			owners = append(owners, &o.Owner)
		}
	}
	return provider, owners
}

// scanOwners observes the one scope of the owners and compares each.
func scanOwners(ctx context.Context, provider providers.Provider, owners []*providers.Owner) ([]detector.Finding, error) {
	var scope providers.Scope
	for _, o := range owners {
		s, err := provider.Scope(ctx, o)
		if err != nil {
			return nil, err
		}
		scope = s
	}
	snap, err := provider.Observe(ctx, scope)
	if err != nil {
		return nil, err
	}
	for part, err := range snap.Coverage {
		if err != nil {
			return nil, fmt.Errorf("coverage of %s: %w", part, err)
		}
	}
	var results []detector.Result
	for _, o := range owners {
		want, err := provider.Desired(o, snap)
		if err != nil {
			return nil, fmt.Errorf("desired state of %s: %w", o.Ref, err)
		}
		results = append(results, detector.Compare(o, want, snap, detector.Options{}))
	}
	results = detector.DoubleClaims(results, snap)
	var confirmation *providers.Confirmation
	if ids := detector.Unconfirmed(results...); len(ids) > 0 {
		if confirmation, err = provider.Confirm(ctx, scope, ids); err != nil {
			return nil, err
		}
	}
	var findings []detector.Finding
	for i := range results {
		results[i] = detector.Settle(results[i], snap, confirmation, detector.Options{})
		findings = append(findings, results[i].Findings...)
	}
	return append(findings, detector.Orphans(results, snap, detector.Unseen{})...), nil
}
