package remediation

import (
	"context"
	"errors"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/inventory"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/reconcilers/sweep"
	"github.com/holdfast-io/holdfast/remediator"
)

// Consume makes the records of what an outcome decides, and says in those there
// are what holds them back or makes them needless. It leaves alone what is in
// flight, which the controller drives, and writes nothing where nothing
// changed.
func (s *Store) Consume(ctx context.Context, o *sweep.Outcome) error {
	records, err := s.list(ctx)
	if err != nil {
		return err
	}
	if len(records) == 0 && !slices.ContainsFunc(o.Result.Decisions, func(d policies.Decision) bool { return remediator.Acting(&d) }) {
		return nil
	}
	var errs []error
	for _, c := range o.Inventory.Clusters {
		errs = append(errs, s.consume(ctx, o, c, records)...)
	}
	return errors.Join(errs...)
}

// consume is Consume for one cluster.
func (s *Store) consume(ctx context.Context, o *sweep.Outcome, c *inventory.Cluster, records []v1alpha1.Remediation) []error {
	read, sub := readOf(o, c), subjectsOf(o, c)
	known := map[string]*v1alpha1.Remediation{}
	for i := range records {
		if r := &records[i]; r.Namespace == c.Object.Namespace && r.Spec.ClusterName == c.Object.Name {
			known[r.Name] = r
		}
	}
	var errs []error
	for i := range read.Decisions {
		d := &read.Decisions[i]
		name := remediator.Name(d.Finding.Owner, d.Finding.Fingerprint)
		if !remediator.Acting(d) || known[name] != nil {
			continue
		}
		r, err := s.create(ctx, d, sub, read.ChangedBy[resourceOf(d)], records)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		known[name] = r
	}
	for _, r := range known {
		if r.Status.Phase.InFlight() || remediator.Altered(r) != "" {
			continue
		}
		if err := s.judge(ctx, r, remediator.VerdictOn(r, read), sub); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
			// A conflict says that the controller or a person was faster; the
			// next outcome tells it again.
			errs = append(errs, err)
		}
	}
	return errs
}

// judge stores what follows for one record.
func (s *Store) judge(ctx context.Context, r *v1alpha1.Remediation, v remediator.Verdict, sub subjects) error {
	status := remediator.Judge(r, v, s.Now())
	if v.Decision != nil && remediator.Acting(v.Decision) {
		if err := s.refresh(ctx, r, v, sub, r.Status.Phase.Ended() && !status.Phase.Ended()); err != nil {
			return err
		}
		status = remediator.Judge(r, v, s.Now())
	}
	return s.write(ctx, r, status)
}

// refresh brings the plan of a record up to date: in full where it opens anew,
// and then an approval of before does not count; else only in what is decided.
// An approval is of an action: it ends with it.
func (s *Store) refresh(ctx context.Context, r *v1alpha1.Remediation, v remediator.Verdict, sub subjects, anew bool) error {
	was, now := r.Spec, sub.spec(v.Decision, v.ChangedBy)
	now.RetriedAt, now.PriorAttempts = was.RetriedAt, was.PriorAttempts
	if !anew || remediator.Retried(r) || r.Status.Reason == remediator.ReasonDenied {
		now.Approved, now.ApprovedBy = was.Approved, was.ApprovedBy
		now.Plan, now.ChangedBy, now.FirstSeen, now.Resource.Name = was.Plan, was.ChangedBy, was.FirstSeen, was.Resource.Name
		if now.Scope.Account == "" {
			now.Scope = was.Scope
		}
		if now.Action != was.Action && was.Approved != nil && *was.Approved {
			now.Approved, now.ApprovedBy = nil, ""
		}
	}
	if r.Status.Phase.Ended() && !anew || equality.Semantic.DeepEqual(was, now) {
		return nil
	}
	if err := s.fenced(ctx); err != nil {
		return err
	}
	next := r.DeepCopy()
	next.Spec = now
	if err := s.Client.Update(ctx, next, client.FieldOwner(v1alpha1.FieldManager)); err != nil {
		return err
	}
	*r = *next
	s.versions.wrote(r)
	return nil
}

var coreVersion = clusterv1.GroupVersion.String()

func resourceOf(d *policies.Decision) providers.ID {
	return providers.ID{Kind: d.Finding.Resource.Kind, Name: d.Finding.Resource.ID}
}

// readOf gathers what an outcome says about one cluster.
func readOf(o *sweep.Outcome, c *inventory.Cluster) remediator.Read {
	read := remediator.Read{At: o.At, Owners: map[providers.OwnerRef]bool{}, Exists: map[providers.OwnerRef]bool{}, ChangedBy: o.ChangedBy,
		Wanted: o.Wanted, Seen: o.Seen, Held: o.Held}
	key := c.Key()
	for _, owner := range c.Owners {
		read.Exists[owner.Ref] = true
	}
	for _, u := range c.Uncompared {
		read.Exists[u.Ref] = true
	}
	for _, of := range o.Result.Clusters {
		if of.Ref.Namespace != key.Namespace || of.Ref.Name != key.Name || of.TakenAt.IsZero() {
			continue
		}
		for _, owner := range of.Owners {
			if o.Targeted() && !o.Owners[owner.Ref] {
				continue
			}
			read.Owners[owner.Ref] = true
		}
		if read.SeenAt.IsZero() || of.TakenAt.Before(read.SeenAt) {
			read.SeenAt = of.TakenAt
		}
	}
	for i := range o.Result.Decisions {
		if d := &o.Result.Decisions[i]; d.Finding.Cluster.Namespace == key.Namespace && d.Finding.Cluster.Name == key.Name {
			read.Decisions = append(read.Decisions, *d)
		}
	}
	return read
}

func subjectsOf(o *sweep.Outcome, c *inventory.Cluster) subjects {
	sub := subjects{cluster: c.Object, machines: map[providers.OwnerRef]*v1alpha1.ObjectRef{}, scopes: map[providers.OwnerRef]providers.Scope{}}
	for _, owner := range c.Owners {
		if m := owner.Machine; m != nil {
			sub.machines[owner.Ref] = &v1alpha1.ObjectRef{APIVersion: coreVersion, Kind: "Machine", Name: m.Name, UID: m.UID}
		}
	}
	for _, of := range o.Result.Clusters {
		if of.Ref.Namespace == c.Object.Namespace && of.Ref.Name == c.Object.Name {
			for _, owner := range of.Owners {
				sub.scopes[owner.Ref] = of.Scope
			}
		}
	}
	return sub
}
