package aws

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/holdfast-io/holdfast/providers"
)

// Apply implements [providers.Applier]. The resource is read first, by its id:
// what is as wanted already is left alone, so that a change which was made, or
// half made, costs no second write.
func (p *Provider) Apply(ctx context.Context, scope providers.Scope, change providers.Change) error {
	if err := change.Refused(); err != nil {
		return err
	}
	jobs, err := jobsOf(&change)
	if err != nil {
		return err
	}
	s, err := p.ready(ctx, scope)
	if err != nil {
		return fmt.Errorf("apply to %s in %s: %w", change.Resource, scope, err)
	}
	w := &writing{
		observation: &observation{
			reader: reader{session: s, converter: newConverter()}, scope: scope,
			interest: p.interestIn(scope), coverage: map[string]error{},
		},
		Change: &change,
	}
	err = w.run(ctx, jobs)
	if err != nil && refusesCaller(err) {
		p.forget(scope, s)
	}
	return err
}

// writing is one Apply under way.
type writing struct {
	*observation
	*providers.Change

	// live is the resource as it is now, with the fields of its own read
	// rawInstance and rawGroup are the same in EC2's words, of these kinds.
	live        *providers.Resource
	rawInstance *ec2types.Instance
	rawGroup    *ec2types.SecurityGroup
	// wrote says that live is older than a write.
	wrote bool
}

// part writes some fields of a kind.
type part struct {
	// paths are the fields that it writes, with all below them.
	paths []string
	// check refuses what can be told from the change alone, before anything is
	// written; nil refuses nothing.
	check func(c *providers.Change, fields []providers.FieldChange) error
	// write sets what is due.
	write func(w *writing, ctx context.Context, fields []providers.FieldChange) error
}

// job is a part with the fields of one change that it writes.
type job struct {
	part   *part
	fields []providers.FieldChange
}

// parts by kind, in the order in which they are written: what is gentle first,
// and what stops an instance last.
var parts = map[string][]part{
	providers.KindInstance: {
		tagsPart,
		{paths: []string{pathSecurityGroups}, write: (*writing).instanceGroups},
		{paths: []string{pathProfile, pathProfileARN}, write: (*writing).instanceProfile},
		{paths: []string{"/metadataOptions"}, write: (*writing).metadataOptions},
		{paths: []string{"/rootVolume", "/nonRootVolumes"}, check: checkVolumes, write: (*writing).modifyVolumes},
		{paths: []string{"/loadBalancers"}, write: (*writing).register},
		{paths: []string{pathInstanceType}, write: (*writing).instanceType},
		{paths: []string{pathState}, check: checkState, write: (*writing).start},
	},
	providers.KindNetworkInterface: {
		{paths: []string{pathInstanceID, pathDeviceIndex}, check: checkAttachment, write: (*writing).attachInterface},
	},
	providers.KindVPC: {
		tagsPart,
		{paths: []string{pathDNSSupport, pathDNSHostnames}, write: (*writing).vpcAttributes},
		{paths: []string{pathCIDRs}, check: checkBlocks, write: (*writing).vpcBlocks},
	},
	providers.KindSubnet: {
		tagsPart,
		{paths: []string{pathMapPublicIP}, write: (*writing).mapPublicIP},
		{paths: []string{pathRouteTableID}, write: (*writing).subnetTable},
	},
	providers.KindInternetGateway: {
		tagsPart,
		{paths: []string{pathVPCID}, check: checkGateway, write: (*writing).attachGateway},
	},
	providers.KindNATGateway: {tagsPart},
	providers.KindRouteTable: {
		tagsPart,
		{paths: []string{pathAssociations}, check: onlyAdds, write: (*writing).tableAssociations},
		{paths: []string{"/routes"}, check: checkRoutes, write: (*writing).writeRoutes},
	},
	providers.KindNetworkACL: {
		{paths: []string{pathAssociations}, check: onlyAdds, write: (*writing).aclAssociations},
		{paths: []string{pathIngress, pathEgress}, check: checkEntries, write: (*writing).aclEntries},
	},
	providers.KindSecurityGroup: {
		tagsPart,
		{paths: []string{pathIngress, pathEgress}, check: checkRules, write: (*writing).groupRules},
	},
	providers.KindLoadBalancer: {
		{paths: []string{"/tags"}, check: checkTags, write: (*writing).balancerTags},
		{paths: []string{pathSubnets}, write: (*writing).balancerSubnets},
		{paths: []string{pathSecurityGroups}, write: (*writing).balancerGroups},
		{paths: []string{"/attributes"}, write: (*writing).modifyAttributes},
		{paths: []string{"/healthCheck"}, write: (*writing).classicHealthCheck},
		{paths: []string{"/targetGroups"}, write: (*writing).targetGroupChecks},
		{paths: []string{pathListeners}, check: checkListeners, write: (*writing).balancerListeners},
	},
}

var tagsPart = part{paths: []string{"/tags"}, check: checkTags, write: (*writing).ec2Tags}

// jobsOf gives the parts that a change needs, and refuses the change where
// some field of it cannot be written.
func jobsOf(c *providers.Change) ([]job, error) {
	list := parts[c.Resource.Kind]
	jobs := make([]job, len(list))
	for _, f := range c.Fields {
		at := slices.IndexFunc(list, func(p part) bool {
			return slices.ContainsFunc(p.paths, func(prefix string) bool { return within(f.Path, prefix) })
		})
		if at < 0 {
			return nil, unsupported("%s of %s cannot be written: nothing in EC2 sets it on what exists", f.Path, c.Resource)
		}
		if err := agrees(c, &f); err != nil {
			return nil, err
		}
		jobs[at].part = &list[at]
		jobs[at].fields = append(jobs[at].fields, f)
	}
	jobs = slices.DeleteFunc(jobs, func(j job) bool { return j.part == nil })
	for _, j := range jobs {
		if j.part.check == nil {
			continue
		}
		if err := j.part.check(c, j.fields); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

// agrees refuses a field that goes another way than the wanted resource: a
// mistake of the caller's must not become one in the cloud.
func agrees(c *providers.Change, f *providers.FieldChange) error {
	want, wanted := c.Want.Fields.Lookup(f.Path)
	ok := wanted
	switch {
	case !wanted:
	case !f.Element:
		ok = want.Value.Equal(f.Want)
	case f.Want.IsAbsent():
		ok = !want.Value.Has(f.Have.Text())
	default:
		ok = want.Value.Has(f.Want.Text())
	}
	if !ok {
		return refused("%s of %s: the change to %q from %q is not what the owner wants", f.Path, c.Resource, f.Want.Text(), f.Have.Text())
	}
	return nil
}

// run reads, then writes part by part.
func (w *writing) run(ctx context.Context, jobs []job) error {
	if err := w.refresh(ctx); err != nil {
		return err
	}
	for _, j := range jobs {
		if w.wrote {
			if err := w.refresh(ctx); err != nil {
				return err
			}
		}
		err := j.part.write(w, ctx, j.fields)
		if err == nil {
			continue
		}
		// An answer that was lost makes the SDK ask again, and AWS then says
		// that it is so already.
		if refusal := (*providers.ApplyError)(nil); errors.As(err, &refusal) && w.refresh(ctx) == nil && len(w.due(j.fields)) == 0 {
			continue
		}
		return err
	}
	return nil
}

// refresh reads the resource anew, and refuses to go on where it is no longer
// there or not the owner's to change.
func (w *writing) refresh(ctx context.Context) error {
	w.wrote = false
	live, err := w.read(ctx)
	switch {
	case err != nil && !isNotFound(err):
		return fmt.Errorf("read %s before changing it: %w", w.Resource, err)
	case err != nil || live == nil:
		return moved("%s does not exist any more", w.Resource)
	case live.Gone != "":
		return moved("%s exists no more: %s", w.Resource, live.Gone)
	case live.Unknown != "":
		return moved("the state of %s cannot be told: %s", w.Resource, live.Unknown)
	case live.ForeignTo != "":
		return &providers.ApplyError{Reason: providers.ReasonForeign, Err: fmt.Errorf("%s belongs to %s", w.Resource, live.ForeignTo)}
	}
	w.live = live
	return nil
}

// read gives the resource with the fields of its own read; nil if there is
// none.
func (w *writing) read(ctx context.Context) (*providers.Resource, error) {
	switch w.Resource.Kind {
	case providers.KindInstance:
		return w.readInstance(ctx)
	case providers.KindSecurityGroup:
		return w.readGroup(ctx)
	}
	for lookup, names := range byLookup([]providers.ID{w.Resource}) {
		list, err := w.lookups()[lookup](ctx, &choice{ids: names})
		if err != nil {
			return nil, err
		}
		for _, r := range list {
			if r.ID == w.Resource {
				return r, nil
			}
		}
	}
	return nil, nil
}

// due gives the fields that are not as wanted yet.
func (w *writing) due(fields []providers.FieldChange) (out []providers.FieldChange) {
	for _, f := range fields {
		have := w.live.Fields.Get(f.Path).Value
		switch {
		case f.Element && f.Want.IsAbsent():
			if have.Has(f.Have.Text()) {
				out = append(out, f)
			}
		case f.Element:
			if !have.Has(f.Want.Text()) {
				out = append(out, f)
			}
		case !have.Equal(f.Want):
			out = append(out, f)
		}
	}
	return out
}

// edited gives a set with its due elements added and removed, in order.
func edited(have []string, fields []providers.FieldChange) []string {
	out := slices.Clone(have)
	for _, f := range fields {
		if f.Want.IsAbsent() {
			out = slices.DeleteFunc(out, func(e string) bool { return e == f.Have.Text() })
		} else if !slices.Contains(out, f.Want.Text()) {
			out = append(out, f.Want.Text())
		}
	}
	slices.Sort(out)
	return out
}

// split tells elements to add from elements to remove.
func split(fields []providers.FieldChange) (add, remove []providers.FieldChange) {
	for _, f := range fields {
		if f.Want.IsAbsent() {
			remove = append(remove, f)
		} else {
			add = append(add, f)
		}
	}
	return add, remove
}

// onlyAdds refuses to remove elements of sets that are only compared for what
// they must hold.
func onlyAdds(c *providers.Change, fields []providers.FieldChange) error {
	for _, f := range fields {
		if f.Want.IsAbsent() {
			return unsupported("%s of %s: only adding is supported, and %q would go", f.Path, c.Resource, f.Have.Text())
		}
	}
	return nil
}

// lastSegment gives what a pointer ends in.
func lastSegment(path string) string {
	segments := providers.Segments(path)
	return segments[len(segments)-1]
}

// called takes note that a call changed something, and sorts its error. what
// says what was tried, as "stop i-1".
func (w *writing) called(err error, format string, args ...any) error {
	w.wrote = true
	if err == nil {
		return nil
	}
	return applyError(err, strings.TrimSpace(fmt.Sprintf(format, args...)))
}
