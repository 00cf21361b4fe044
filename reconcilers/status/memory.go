package status

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/inventory"
)

// memory is what objects do not say: when each was compared last, and what
// exactly it drifted in. Losing it costs no write: after a restart a verdict
// counts as fresh, and events tell of changes from then on.
type memory struct {
	objects map[types.UID]*remembered
	orphans map[detector.ClusterRef]map[string]verdict
}

type remembered struct {
	cluster detector.ClusterRef
	// compared is when the last read that was not unread was, or the first
	// unread one where there was none.
	compared time.Time
	status   metav1.ConditionStatus
	drift    string
	known    bool // drift was told
}

func newMemory() *memory {
	return &memory{objects: map[types.UID]*remembered{}, orphans: map[detector.ClusterRef]map[string]verdict{}}
}

func (m *memory) of(ref detector.ClusterRef, uid types.UID) *remembered {
	r := m.objects[uid]
	if r == nil {
		r = &remembered{cluster: ref}
		m.objects[uid] = r
	}
	return r
}

// judged takes a verdict in. It holds back one that comes from a failed read
// while the verdict that the object carries is not stale, and tells whether the
// object drifts in another way than before.
func (m *memory) judged(ref detector.ClusterRef, uid types.UID, v *verdict, have *condition, at time.Time, staleAfter time.Duration) (redrifted, held bool) {
	r := m.of(ref, uid)
	if r.compared.IsZero() || !v.unread {
		r.compared = at
	}
	if v.unread && have != nil {
		stale := at.Sub(r.compared) > staleAfter
		if said := have.status == metav1.ConditionUnknown; !stale && !said || said && have.reason == v.reason {
			return false, true
		}
		if stale {
			v.message = "not compared for longer than the policy's staleAfter; " + v.message
		}
	}
	r.status = v.status
	if v.unread {
		return false, false
	}
	return m.drifts(ref, uid, v.drift), false
}

// drifts takes in what an object drifts in, and tells whether that is something
// else than before.
func (m *memory) drifts(ref detector.ClusterRef, uid types.UID, drift string) bool {
	r := m.of(ref, uid)
	changed := r.known && r.drift != drift
	r.drift, r.known = drift, true
	return changed
}

// status is an object's last one: as remembered, else as it carries it.
func (m *memory) status(uid types.UID, have *condition) metav1.ConditionStatus {
	if r := m.objects[uid]; r != nil && r.status != "" {
		return r.status
	}
	if have != nil {
		return have.status
	}
	return ""
}

func (m *memory) setOrphans(ref detector.ClusterRef, scopes string, v verdict) {
	if m.orphans[ref] == nil {
		m.orphans[ref] = map[string]verdict{}
	}
	m.orphans[ref][scopes] = v
}

func (m *memory) orphansOf(ref detector.ClusterRef) (map[string]verdict, bool) {
	o, known := m.orphans[ref]
	return o, known
}

func (m *memory) drop(uid types.UID) { delete(m.objects, uid) }

// forget drops what does not exist any more: owners of the clusters that were
// looked at, and whole clusters.
func (m *memory) forget(inv *inventory.Inventory, gone []detector.ClusterRef) {
	live := make(map[types.UID]bool, len(m.objects))
	looked := map[detector.ClusterRef]bool{}
	for _, c := range inv.Clusters {
		looked[detector.ClusterRef{Namespace: c.Object.Namespace, Name: c.Object.Name}] = true
		live[orphansUID(c.Object.UID)] = true
		for _, o := range c.Owners {
			live[o.Ref.UID] = true
		}
	}
	for _, ref := range gone {
		looked[ref] = true
		delete(m.orphans, ref)
	}
	for uid, r := range m.objects {
		if looked[r.cluster] && !live[uid] {
			delete(m.objects, uid)
		}
	}
}

// orphansUID is under which a Cluster's orphans are remembered.
func orphansUID(cluster types.UID) types.UID { return "orphans/" + cluster }
