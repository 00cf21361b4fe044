package ec2sim

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// kind is how ids of one kind look and what EC2 calls their errors ("Error
// codes for the Amazon EC2 API", client error codes).
type kind struct {
	prefix    string
	noun      string
	notFound  string
	malformed string
}

var (
	kindVPC           = kind{"vpc", "vpc ID", "InvalidVpcID.NotFound", "InvalidVpcId.Malformed"}
	kindSubnet        = kind{"subnet", "subnet ID", "InvalidSubnetID.NotFound", "InvalidSubnetId.Malformed"}
	kindGateway       = kind{"igw", "internetGateway ID", "InvalidInternetGatewayID.NotFound", "InvalidInternetGatewayId.Malformed"}
	kindEgressGateway = kind{"eigw", "egress only internet gateway ID", "InvalidGatewayID.NotFound", "InvalidEgressOnlyInternetGatewayId.Malformed"}
	kindNAT           = kind{"nat", "NAT gateway", "NatGatewayNotFound", "NatGatewayMalformed"}
	kindAddress       = kind{"eipalloc", "allocation ID", "InvalidAllocationID.NotFound", "InvalidAllocationID.Malformed"}
	kindRouteTable    = kind{"rtb", "routeTable ID", "InvalidRouteTableID.NotFound", "InvalidRouteTableId.Malformed"}
	kindACL           = kind{"acl", "networkAcl ID", "InvalidNetworkAclID.NotFound", "InvalidNetworkAclId.Malformed"}
	kindGroup         = kind{"sg", "security group", "InvalidGroup.NotFound", "InvalidGroupId.Malformed"}
	kindInterface     = kind{"eni", "networkInterface ID", "InvalidNetworkInterfaceID.NotFound", "InvalidNetworkInterfaceId.Malformed"}
	kindInstance      = kind{"i", "instance ID", "InvalidInstanceID.NotFound", "InvalidInstanceID.Malformed"}
	kindVolume        = kind{"vol", "volume", "InvalidVolume.NotFound", "InvalidVolumeID.Malformed"}
	kindImage         = kind{"ami", "image id", "InvalidAMIID.NotFound", "InvalidAMIID.Malformed"}
	kindBalancer      = kind{noun: "load balancer", notFound: "LoadBalancerNotFound"}
	kindListener      = kind{noun: "listener", notFound: "ListenerNotFound"}
	kindTargetGroup   = kind{noun: "target group", notFound: "TargetGroupNotFound"}
)

var idTail = regexp.MustCompile(`^([0-9a-f]{8}|[0-9a-f]{17})$`)

func (k kind) wellFormed(id string) bool {
	if k.prefix == "" {
		return true
	}
	tail, ok := strings.CutPrefix(id, k.prefix+"-")
	return ok && idTail.MatchString(tail)
}

func (k kind) malformedError(id string) *apiError {
	return failf(k.malformed, `Invalid id: "%s" (expecting "%s-...")`, id, k.prefix)
}

// missingError names all the ids that do not exist.
func (k kind) missingError(ids ...string) *apiError {
	if len(ids) > 1 {
		return failf(k.notFound, "The %ss %s do not exist", k.noun, quoted(ids))
	}
	return failf(k.notFound, "The %s %s does not exist", k.noun, quoted(ids))
}

// table holds resources of one kind in the order of their creation.
type table[T resource] struct {
	kind  kind
	byID  map[string]T
	order []T
}

func newTable[T resource](k kind) table[T] { return table[T]{kind: k, byID: map[string]T{}} }

func (t *table[T]) add(v T) {
	t.byID[v.base().id] = v
	t.order = append(t.order, v)
}

// after is the position of the first resource numbered seq or more.
func (t *table[T]) after(seq uint64) int {
	at, _ := slices.BinarySearchFunc(t.order, seq, func(v T, seq uint64) int { return cmp.Compare(v.base().seq, seq) })
	return at
}

func (t *table[T]) remove(id string) {
	v, ok := t.byID[id]
	if !ok {
		return
	}
	delete(t.byID, id)
	at := t.after(v.base().seq)
	t.order = slices.Delete(t.order, at, at+1)
}

// get finds one resource by a parameter that may be missing.
func (t *table[T]) get(c *call, parameter, id string) (T, *apiError) {
	if id == "" {
		var none T
		return none, missing(parameter)
	}
	found, err := t.pick(c, []string{id})
	if err != nil {
		var none T
		return none, err
	}
	return found[0], nil
}

// pick finds several; the error names every id that is malformed or missing.
func (t *table[T]) pick(c *call, ids []string) ([]T, *apiError) {
	found := make([]T, 0, len(ids))
	var absent []string
	for _, id := range ids {
		if !t.kind.wellFormed(id) {
			return nil, t.kind.malformedError(id)
		}
		v, ok := t.byID[id]
		switch {
		case !ok || c.hides(v.base()):
			absent = append(absent, id)
		case !slices.ContainsFunc(found, func(other T) bool { return other.base() == v.base() }):
			found = append(found, v)
		}
	}
	if len(absent) > 0 {
		return nil, t.kind.missingError(absent...)
	}
	return found, nil
}

// where gives the resources that the condition holds for.
func (t *table[T]) where(condition func(T) bool) []T {
	var found []T
	for _, v := range t.order {
		if condition(v) {
			found = append(found, v)
		}
	}
	return found
}

// first gives one that the condition holds for, and whether there is any.
func (t *table[T]) first(condition func(T) bool) (T, bool) {
	for _, v := range t.order {
		if condition(v) {
			return v, true
		}
	}
	var none T
	return none, false
}

func (t *table[T]) any(condition func(T) bool) bool {
	_, found := t.first(condition)
	return found
}
