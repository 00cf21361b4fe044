package ec2sim

import (
	"crypto/md5" // EC2's key fingerprints are MD5
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
)

type keyPair struct {
	KeyName        string
	KeyPairID      string
	KeyFingerprint string
	KeyType        string
}

type keyPairIn struct {
	tagSpecs
	KeyName           string
	KeyPairID         string
	PublicKeyMaterial string
}

func (c *call) importKeyPair(in *keyPairIn) (*keyPair, *apiError) {
	if in.KeyName == "" {
		return nil, missing("keyName")
	}
	if c.keys[in.KeyName] != nil {
		return nil, failf("InvalidKeyPair.Duplicate", "The keypair already exists")
	}
	sum := md5.Sum([]byte(in.PublicKeyMaterial))
	k := &keyPair{in.KeyName, c.newID("key"), hex.EncodeToString(sum[:]), "rsa"}
	c.keys[k.KeyName] = k
	return k, nil
}

func (c *call) deleteKeyPair(in *keyPairIn) (done, *apiError) {
	delete(c.keys, in.KeyName) // a key that does not exist is no error (DeleteKeyPair reference)
	return ok()
}

type keyPairsIn struct {
	filterIns
	KeyName []string
}

type keyPairsOut struct{ KeySet []*keyPair }

func (c *call) describeKeyPairs(in *keyPairsIn) (out keyPairsOut, err *apiError) {
	for _, name := range in.KeyName {
		if c.keys[name] == nil {
			return out, failf("InvalidKeyPair.NotFound", "The key pair '%s' does not exist", name)
		}
	}
	for _, k := range c.keys {
		if len(in.KeyName) == 0 || slices.Contains(in.KeyName, k.KeyName) {
			out.KeySet = append(out.KeySet, k)
		}
	}
	slices.SortFunc(out.KeySet, func(a, b *keyPair) int { return strings.Compare(a.KeyName, b.KeyName) })
	return out, nil
}

type placementGroup struct {
	GroupName, GroupID, Strategy, State string
	PartitionCount                      int `wire:"partitionCount,omitempty"`
}

type placementGroupIn struct {
	tagSpecs
	GroupName, Strategy string
	PartitionCount      int
}

type placementGroupOut struct {
	Return         bool
	PlacementGroup *placementGroup
}

func (c *call) createPlacementGroup(in *placementGroupIn) (out placementGroupOut, err *apiError) {
	switch {
	case in.GroupName == "":
		return out, missing("groupName")
	case c.placementGroups[in.GroupName] != nil:
		return out, failf("InvalidPlacementGroup.Duplicate", "The Placement Group '%s' already exists.", in.GroupName)
	case !slices.Contains([]string{"cluster", "spread", "partition"}, in.Strategy):
		return out, invalid("strategy", in.Strategy, "Expecting cluster, spread or partition")
	case in.PartitionCount < 0 || in.PartitionCount > 7:
		return out, invalid("partitionCount", strconv.Itoa(in.PartitionCount), "Expecting at most 7")
	}
	g := &placementGroup{in.GroupName, c.newID("pg"), in.Strategy, "available", in.PartitionCount}
	c.placementGroups[g.GroupName] = g
	return placementGroupOut{true, g}, nil
}

func (c *call) deletePlacementGroup(in *placementGroupIn) (done, *apiError) {
	if c.placementGroups[in.GroupName] == nil {
		return done{}, failf("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", in.GroupName)
	}
	if c.instances.any(func(i *instance) bool { return i.state != "terminated" && i.placement.GroupName == in.GroupName }) {
		return done{}, failf("InvalidPlacementGroup.InUse", "The placement group '%s' is in use and may not be deleted.", in.GroupName)
	}
	delete(c.placementGroups, in.GroupName)
	return ok()
}

type placementGroupsIn struct {
	filterIns
	GroupName []string
}

type placementGroupsOut struct{ PlacementGroupSet []*placementGroup }

func (c *call) describePlacementGroups(in *placementGroupsIn) (out placementGroupsOut, err *apiError) {
	for _, name := range in.GroupName {
		if c.placementGroups[name] == nil {
			return out, failf("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", name)
		}
	}
	for _, g := range c.placementGroups {
		if len(in.GroupName) == 0 || slices.Contains(in.GroupName, g.GroupName) {
			out.PlacementGroupSet = append(out.PlacementGroupSet, g)
		}
	}
	slices.SortFunc(out.PlacementGroupSet, func(a, b *placementGroup) int { return strings.Compare(a.GroupName, b.GroupName) })
	return out, nil
}
