package aws

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
)

// declarations tell what a user declared of an AWSCluster's subnets from what
// CAPA wrote there. CAPA sets isPublic to what it finds: an internet-gateway
// route in a private subnet's table makes it call the subnet public, and from
// then on keep it so.
type declarations struct {
	// applied is isPublic by subnet id in what kubectl apply last sent; nil
	// values were left out there.
	applied map[string]*bool
	// writers says who owns isPublic, by subnet id, as the API server kept it.
	writers map[string]writers
}

// writers of one subnet's fields.
type writers struct {
	// userField and controllerField own isPublic.
	userField, controllerField bool
	// userItem owns anything of the subnet: a user put it on the list.
	userItem bool
}

func declarationsOf(c *infrav1.AWSCluster) declarations {
	return declarations{
		applied: lastApplied(c.Annotations[corev1.LastAppliedConfigAnnotation]),
		writers: fieldWriters(c.ManagedFields),
	}
}

// public gives what the user declared of a subnet, which is what the spec says
// unless there is proof of another opinion. Of subnets that the user brought,
// an open isPublic is for CAPA to find out.
func (d declarations) public(c *clusterView, s *infrav1.SubnetSpec) bool {
	made := c.managed && !isSubnetID(s.ID)
	if value, known := d.applied[s.ID]; known && (value != nil || made) {
		return deref(value)
	}
	w := d.writers[s.ID]
	switch {
	case w.userField:
		return s.IsPublic
	case w.controllerField && w.userItem && made:
		// CAPA's write changed the value, or it would not own the field.
		return !s.IsPublic
	}
	if rest, ok := strings.CutPrefix(s.ID, c.name+"-subnet-"); ok && c.managed {
		// CAPA's own name for a subnet that it made up. It never changes.
		switch {
		case strings.HasPrefix(rest, infrav1.PrivateRoleTagValue+"-"):
			return false
		case strings.HasPrefix(rest, infrav1.PublicRoleTagValue+"-"):
			return true
		}
	}
	return s.IsPublic
}

func isSubnetID(id string) bool { return strings.HasPrefix(id, "subnet-") }

// lastApplied reads the annotation. What does not parse says nothing.
func lastApplied(annotation string) map[string]*bool {
	var applied struct {
		Spec struct {
			Network struct {
				Subnets []struct {
					ID       string `json:"id"`
					IsPublic *bool  `json:"isPublic"`
				} `json:"subnets"`
			} `json:"network"`
		} `json:"spec"`
	}
	if annotation == "" || json.Unmarshal([]byte(annotation), &applied) != nil {
		return nil
	}
	out := map[string]*bool{}
	for _, s := range applied.Spec.Network.Subnets {
		out[s.ID] = s.IsPublic
	}
	return out
}

// fieldWriters reads the managed fields (structured merge diff, FieldsV1): an
// item of a list by key is "k:{\"id\":\"…\"}", and a field is "f:NAME".
func fieldWriters(entries []metav1.ManagedFieldsEntry) map[string]writers {
	out := map[string]writers{}
	for i := range entries {
		e := &entries[i]
		who := writerOf(e.Manager)
		if e.FieldsV1 == nil || e.Subresource != "" || who == writerCopy {
			continue
		}
		for id, fields := range managedSubnets(e.FieldsV1.GetRawBytes()) {
			w := out[id]
			_, public := fields["f:isPublic"]
			if who == writerController {
				w.controllerField = w.controllerField || public
			} else {
				w.userField = w.userField || public
				w.userItem = true
			}
			out[id] = w
		}
	}
	return out
}

func managedSubnets(raw []byte) map[string]map[string]json.RawMessage {
	var set struct {
		Spec struct {
			Network struct {
				Subnets map[string]json.RawMessage `json:"f:subnets"`
			} `json:"f:network"`
		} `json:"f:spec"`
	}
	if json.Unmarshal(raw, &set) != nil {
		return nil
	}
	out := map[string]map[string]json.RawMessage{}
	for item, fields := range set.Spec.Network.Subnets {
		var key struct {
			ID string `json:"id"`
		}
		selector, ok := strings.CutPrefix(item, "k:")
		if !ok || json.Unmarshal([]byte(selector), &key) != nil {
			continue
		}
		var f map[string]json.RawMessage
		if json.Unmarshal(fields, &f) == nil {
			out[key.ID] = f
		}
	}
	return out
}

type writer int

const (
	writerUser writer = iota
	writerController
	// writerCopy moves objects between clusters: what it writes is neither
	// anyone's opinion nor an observation.
	writerCopy
)

// writerOf tells CAPA's controller by its manager name: the name of its
// program, "manager", or of its deployment.
func writerOf(manager string) writer {
	switch {
	case manager == "manager",
		strings.HasPrefix(manager, "capa-"),
		strings.HasPrefix(manager, "cluster-api-provider-aws"):
		return writerController
	case manager == "clusterctl", strings.HasPrefix(manager, "velero"):
		return writerCopy
	default:
		return writerUser
	}
}
