package aws

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/kms"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/providers/canonical"
)

// kindKeyAlias is the kind of KMS aliases in a snapshot. Nobody wants one: they
// are what a volume's key is resolved with. It is covered where it was asked
// for.
const kindKeyAlias = "KMSAlias"

const (
	pathKeyID   = "/keyId"
	aliasPrefix = "alias/"
)

// namesKeyAlias reports whether an owner's volumes name a key by an alias. EC2
// reports keys by their ids.
func namesKeyAlias(owner *providers.Owner) bool {
	m, ok := owner.Infra.(*infrav1.AWSMachine)
	if !ok || m == nil {
		return false
	}
	is := func(v *infrav1.Volume) bool { return strings.HasPrefix(canonical.KMSKey(v.EncryptionKey), aliasPrefix) }
	if m.Spec.RootVolume != nil && is(m.Spec.RootVolume) {
		return true
	}
	for i := range m.Spec.NonRootVolumes {
		if is(&m.Spec.NonRootVolumes[i]) {
			return true
		}
	}
	return false
}

// keyAliases reads every alias of the account in the region (KMS, ListAliases),
// with the key that it points at now.
func (r reader) keyAliases(ctx context.Context) (out []*providers.Resource, err error) {
	err = pages(ctx, func(ctx context.Context, marker *string) (*string, error) {
		page, err := r.kms.ListAliases(ctx, &kms.ListAliasesInput{Limit: ptr(keyAliasPage), Marker: marker})
		if err != nil {
			return nil, err
		}
		for i := range page.Aliases {
			a := r.resource(kindKeyAlias, page.Aliases[i].AliasName, 1)
			// One of AWS's own aliases may point at nothing yet.
			if id := canonical.KMSKey(deref(page.Aliases[i].TargetKeyId)); id != "" {
				r.text(a, pathKeyID, &id)
			}
			out = append(out, a)
		}
		if !page.Truncated {
			return nil, nil
		}
		return page.NextMarker, nil
	})
	return out, err
}

// keyOfAlias gives the id of the key that an alias points at; why says what
// keeps it from being known.
func (c *clusterView) keyOfAlias(reference string) (id, why string) {
	alias, scope := canonical.KMSKey(reference), c.snap.Scope
	if account, region, ok := placeOfARN(reference); ok && (account != scope.Account || region != scope.Region) {
		return "", "the alias " + alias + " is one of account " + account + " in " + region + ", which is not read"
	}
	if err, known := c.snap.Covered(kindKeyAlias, ""); err != nil || !known {
		return "", "the key that the alias " + alias + " points at is not known: " + notRead(kindKeyAlias, err)
	}
	seen := c.snap.Resources[providers.ID{Kind: kindKeyAlias, Name: alias}]
	if id := textOf(seen, pathKeyID); id != "" {
		return id, ""
	}
	return "", "the alias " + alias + " points at no key in account " + scope.Account + " in " + scope.Region
}

// placeOfARN gives the account and region of an ARN.
func placeOfARN(s string) (account, region string, ok bool) {
	if s = strings.TrimSpace(s); !canonical.IsARN(s) {
		return "", "", false
	}
	parts := strings.SplitN(s, ":", 6)
	return parts[4], parts[3], true
}
