package suites_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-io/holdfast/detector"
	awsexamples "github.com/holdfast-io/holdfast/examples/aws"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/aws"
	"github.com/holdfast-io/holdfast/test/awscluster"
	"github.com/holdfast-io/holdfast/test/ec2sim"
)

// awsRefusedApply are the tampers that cannot be mended in place although their
// fields can be changed, with the reason that Apply gives.
var awsRefusedApply = map[string]string{
	"root volume grown":                    providers.ReasonUnsupported, // EC2 cannot shrink it
	"further volume grown":                 providers.ReasonUnsupported,
	"further volume detached":              providers.ReasonUnsupported, // attaching is not a change of the instance
	"interface declared and not attached":  providers.ReasonUnsupported, // as the primary interface
	"NAT gateway deleted":                  providers.ReasonMoved,       // what routes and associations lead to is gone
	"subnet deleted":                       providers.ReasonMoved,
	"route table deleted":                  providers.ReasonMoved,
	"egress-only internet gateway deleted": providers.ReasonMoved,
	"profile declared by a full ARN":       providers.ReasonRefused, // of another partition

	// Whose it is only a person can tell.
	"rule from the world in the load balancer controller's name": providers.ReasonForeign,
}

// TestAWSApply plays every tamper of the tables on ec2sim, those of objects
// too, and applies what can be changed in place. Nothing of that may be left
// afterwards, and nothing else may have come up.
func TestAWSApply(t *testing.T) {
	for _, variant := range awscluster.Variants() {
		for _, tamper := range awscluster.Tampers() {
			if tamper.On() != variant.Manifest || tamper.Variant != variant.Name || tamper.NotOnSim != "" {
				continue
			}
			t.Run(tamper.Name, func(t *testing.T) {
				c := newAWSApplyCase(t, &variant, &ec2sim.Delays{})
				damage, err := tamper.Do(t.Context(), c.env)
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(tamper.Row, "volume") {
					c.clock.skip(restUntilModified)
				}
				left := c.repair(t, damage.Findings, awsRefusedApply[tamper.Name])
				var got []awscluster.Finding
				for _, f := range c.scan(t) {
					if f.Status != detector.InSync {
						got = append(got, awscluster.FindingOf(&f))
					}
				}
				if diff := cmp.Diff(lines(left), lines(got)); diff != "" {
					t.Errorf("findings after the repair (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// awsApplyCase is one cluster on a simulator of its own.
type awsApplyCase struct {
	server *ec2sim.Server
	clock  *simClock
	env    *awscluster.Environment
}

func newAWSApplyCase(t *testing.T, variant *awscluster.Variant, delays *ec2sim.Delays) *awsApplyCase {
	t.Helper()
	server, image, clock := newClockedEC2Sim(t, delays)
	m, err := awscluster.Load(awsexamples.Files, variant.Manifest)
	if err != nil {
		t.Fatal(err)
	}
	env, err := awscluster.Build(t.Context(), awscluster.ClientsFrom(server.Config(simRegion)), awscluster.Options{
		Simulator: server, Image: image, Manifest: m, Edit: variant.Edit, BringVPC: variant.BringVPC,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &awsApplyCase{server: server, clock: clock, env: env}
}

// load reads the objects as they are now.
func (c *awsApplyCase) load(t *testing.T) (*aws.Provider, []*providers.Owner) {
	t.Helper()
	return loadAWS(t, c.env, aws.WithClock(newHurriedClock()), aws.WithBackoff(func(int) time.Duration { return 0 }))
}

func (c *awsApplyCase) scan(t *testing.T) []detector.Finding {
	t.Helper()
	provider, owners := c.load(t)
	findings, err := scanOwners(t.Context(), provider, owners)
	if err != nil {
		t.Fatal(err)
	}
	return findings
}

// repair applies what can be applied, and gives the expected findings that are
// to be left then.
func (c *awsApplyCase) repair(t *testing.T, want []awscluster.Finding, reason string) (left []awscluster.Finding) {
	t.Helper()
	provider, owners := c.load(t)
	findings, err := scanOwners(t.Context(), provider, owners)
	if err != nil {
		t.Fatal(err)
	}
	scope, err := provider.Scope(t.Context(), owners[0])
	if err != nil {
		t.Fatal(err)
	}
	refused := false
	patched := map[string]bool{}
	for i := range findings {
		f := &findings[i]
		change, ok := changeOf(f)
		if !ok {
			continue
		}
		// Twice: the second time there is nothing to do.
		for _, again := range []bool{false, true} {
			before := len(c.server.Mutations())
			err := applyAll(t.Context(), provider, scope, change)
			var refusal *providers.ApplyError
			switch {
			case errors.As(err, &refusal) && refusal.Reason == reason:
				refused = true
			case err != nil:
				t.Errorf("apply to %s: %v", change.Resource, err)
			default:
				for _, d := range change.Fields {
					patched[f.Resource.Kind+f.Resource.ID+d.Path] = true
				}
			}
			if n := len(c.server.Mutations()) - before; again && n > 0 && err == nil {
				t.Errorf("apply to %s once more made %d mutating calls", change.Resource, n)
			}
		}
	}
	if reason != "" && !refused {
		t.Errorf("no change was refused with %s", reason)
	}
	for _, f := range want {
		var diffs []awscluster.Diff
		for _, d := range f.Diffs {
			if !patched[f.Kind+f.ID+d.Path] {
				diffs = append(diffs, d)
			}
		}
		if len(diffs) == 0 && len(f.Diffs) > 0 {
			continue
		}
		f.Diffs = diffs
		left = append(left, f)
	}
	return left
}

// changeOf gives what can be changed in place of a finding.
func changeOf(f *detector.Finding) (providers.Change, bool) {
	if f.Status != detector.Drifted {
		return providers.Change{}, false
	}
	c := providers.Change{
		Resource: f.Want.ID, Owner: f.Owner, Want: f.Want, Have: f.Have, Disruptive: true,
		Token: "3b1f0000-0000-4000-8000-000000000000",
	}
	for _, d := range f.Diffs {
		if d.Mutability == providers.InPlace || d.Mutability == providers.InPlaceDisruptive {
			c.Fields = append(c.Fields, providers.FieldChange{Path: d.Path, Want: d.Want, Have: d.Have, Element: d.Element, Mutability: d.Mutability})
		}
	}
	return c, len(c.Fields) > 0
}

// applyAll applies until nothing is pending.
func applyAll(ctx context.Context, provider *aws.Provider, scope providers.Scope, change providers.Change) error {
	const tries = 50
	for range tries {
		if err := provider.Apply(ctx, scope, change); !errors.Is(err, providers.ErrPending) {
			return err
		}
	}
	return fmt.Errorf("still pending after %d calls", tries)
}
