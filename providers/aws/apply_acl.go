package aws

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// aclAssociations moves subnets under this ACL. Every subnet is under exactly
// one, so that an association is replaced and never made.
func (w *writing) aclAssociations(ctx context.Context, fields []providers.FieldChange) error {
	for _, f := range w.due(fields) {
		subnet := f.Want.Text()
		association, err := w.aclAssociation(ctx, subnet)
		if err != nil {
			return err
		}
		_, err = w.ec2.ReplaceNetworkAclAssociation(ctx, &ec2.ReplaceNetworkAclAssociationInput{AssociationId: &association, NetworkAclId: &w.Resource.Name})
		if err := w.called(err, "put %s under %s", subnet, w.Resource.Name); err != nil {
			return err
		}
	}
	return nil
}

func (w *writing) aclAssociation(ctx context.Context, subnet string) (string, error) {
	out, err := w.ec2.DescribeNetworkAcls(ctx, &ec2.DescribeNetworkAclsInput{
		Filters: (&choice{ids: []string{subnet}, byFilter: true}).filter("association.subnet-id"),
	})
	if err != nil {
		return "", applyError(err, "find the network ACL of "+subnet)
	}
	for i := range out.NetworkAcls {
		for j := range out.NetworkAcls[i].Associations {
			if a := &out.NetworkAcls[i].Associations[j]; deref(a.SubnetId) == subnet {
				return deref(a.NetworkAclAssociationId), nil
			}
		}
	}
	return "", moved("%s has no network ACL: it does not exist any more", subnet)
}

// aclRule is an entry's words taken apart.
type aclRule struct {
	number int32
	action ec2types.RuleAction
	rule   canonical.ParsedRule
}

// lastEntry is the entry that EC2 keeps at the end of every ACL, which nobody
// can write (NetworkAclEntry, rule numbers are 1 to 32766).
const lastEntry = 32766

// parseEntry is the inverse of aclEntry.
func parseEntry(words string) (aclRule, error) {
	parts := strings.SplitN(words, " ", 3)
	if len(parts) != 3 {
		return aclRule{}, fmt.Errorf("entry %q: want NUMBER allow|deny RULE", words)
	}
	n, err := strconv.ParseInt(parts[0], 10, 32)
	if err != nil || n < 1 || n > lastEntry {
		return aclRule{}, fmt.Errorf("entry %q: its number is not one that can be written", words)
	}
	rule, err := canonical.ParseRule(parts[2])
	if err != nil {
		return aclRule{}, fmt.Errorf("entry %q: %w", words, err)
	}
	return aclRule{number: int32(n), action: ec2types.RuleAction(parts[1]), rule: rule}, nil
}

func checkEntries(c *providers.Change, fields []providers.FieldChange) error {
	for _, f := range fields {
		e, err := parseEntry(first(f.Want.Text(), f.Have.Text()))
		if err == nil && "/"+e.rule.Direction != f.Path {
			err = fmt.Errorf("entry %d does not belong into %s", e.number, f.Path)
		}
		if err != nil {
			return refused("%s: %w", c.Resource, err)
		}
	}
	return nil
}

// aclEntries writes entries by number: a wanted one takes the place of what
// has its number, in one step.
func (w *writing) aclEntries(ctx context.Context, fields []providers.FieldChange) error {
	add, remove := split(w.due(fields))
	written := map[string]bool{}
	for _, f := range add {
		e, err := parseEntry(f.Want.Text())
		if err != nil {
			return refused("%s: %w", w.Resource, err)
		}
		written[f.Path+strconv.Itoa(int(e.number))] = true
		if err := w.setEntry(ctx, &e, w.numberTaken(f.Path, e.number)); err != nil {
			return err
		}
	}
	for _, f := range remove {
		e, err := parseEntry(f.Have.Text())
		if err != nil {
			return refused("%s: %w", w.Resource, err)
		}
		if written[f.Path+strconv.Itoa(int(e.number))] {
			continue // replaced
		}
		_, err = w.ec2.DeleteNetworkAclEntry(ctx, &ec2.DeleteNetworkAclEntryInput{
			NetworkAclId: &w.Resource.Name, RuleNumber: &e.number, Egress: ptr(f.Path == pathEgress),
		})
		if apiCode(err) == "InvalidNetworkAclEntry.NotFound" {
			err = nil
		}
		if err := w.called(err, "delete entry %d of %s", e.number, w.Resource.Name); err != nil {
			return err
		}
	}
	return nil
}

// numberTaken reports whether the live ACL has an entry of the number.
func (w *writing) numberTaken(path string, number int32) bool {
	prefix := strconv.Itoa(int(number)) + " "
	for _, words := range w.live.Fields.Get(path).Value.Elements() {
		if strings.HasPrefix(words, prefix) {
			return true
		}
	}
	return false
}

// setEntry makes or replaces an entry. ACLs know protocols by number only
// (CreateNetworkAclEntry, Protocol).
func (w *writing) setEntry(ctx context.Context, e *aclRule, replace bool) error {
	in := &ec2.CreateNetworkAclEntryInput{
		NetworkAclId: &w.Resource.Name, RuleNumber: &e.number, RuleAction: e.action,
		Egress: ptr(e.rule.Direction == canonical.Egress), Protocol: ptr(aclProtocol(e.rule.Protocol)),
	}
	from, to := int32(e.rule.From), int32(e.rule.To) //nolint:gosec // within 0-65535, as ParseRule demands
	switch e.rule.Protocol {
	case canonical.ProtocolTCP, canonical.ProtocolUDP:
		in.PortRange = &ec2types.PortRange{From: &from, To: &to}
	case canonical.ProtocolICMP, canonical.ProtocolICMPv6:
		in.IcmpTypeCode = &ec2types.IcmpTypeCode{Type: &from, Code: &to}
	}
	if strings.Contains(e.rule.Peer, ":") {
		in.Ipv6CidrBlock = &e.rule.Peer
	} else {
		in.CidrBlock = &e.rule.Peer
	}
	var err error
	if !replace {
		_, err = w.ec2.CreateNetworkAclEntry(ctx, in)
		replace = apiCode(err) == "NetworkAclEntryAlreadyExists"
	}
	if replace {
		_, err = w.ec2.ReplaceNetworkAclEntry(ctx, &ec2.ReplaceNetworkAclEntryInput{
			NetworkAclId: in.NetworkAclId, RuleNumber: in.RuleNumber, RuleAction: in.RuleAction, Egress: in.Egress, Protocol: in.Protocol,
			PortRange: in.PortRange, IcmpTypeCode: in.IcmpTypeCode, CidrBlock: in.CidrBlock, Ipv6CidrBlock: in.Ipv6CidrBlock,
		})
	}
	return w.called(err, "set entry %d of %s", e.number, w.Resource.Name)
}

func aclProtocol(protocol string) string {
	switch protocol {
	case canonical.ProtocolTCP:
		return "6"
	case canonical.ProtocolUDP:
		return "17"
	case canonical.ProtocolICMP:
		return "1"
	case canonical.ProtocolICMPv6:
		return "58"
	default:
		return protocol
	}
}
