package vsphere

import (
	"context"
	"slices"

	"github.com/vmware/govmomi/pbm"
	"github.com/vmware/govmomi/pbm/methods"
	pbmtypes "github.com/vmware/govmomi/pbm/types"

	"github.com/holdfast-io/holdfast/providers"
)

// storagePolicies reads the policy of each machine's home, in batches
// (PbmProfileProfileManager.PbmQueryAssociatedProfiles).
func (s *sweep) storagePolicies(ctx context.Context, live *liveSession) error {
	if len(s.refs) == 0 {
		return nil
	}
	c, err := pbm.NewClient(ctx, live.vim)
	if err != nil {
		return err
	}
	entities := make([]pbmtypes.PbmServerObjectRef, 0, len(s.refs))
	byMoid := make(map[string]*providers.Resource, len(s.refs))
	for ref, r := range s.refs {
		entities = append(entities, pbmtypes.PbmServerObjectRef{
			ObjectType: string(pbmtypes.PbmObjectTypeVirtualMachine),
			Key:        ref.Value,
		})
		byMoid[ref.Value] = r
	}
	profiles := map[string][]string{}
	for batch := range slices.Chunk(entities, tagBatch) {
		answer, err := methods.PbmQueryAssociatedProfiles(ctx, c, &pbmtypes.PbmQueryAssociatedProfiles{
			This:     c.ServiceContent.ProfileManager,
			Entities: batch,
		})
		if err != nil {
			return err
		}
		for _, result := range answer.Returnval {
			for _, id := range result.ProfileId {
				profiles[result.Object.Key] = append(profiles[result.Object.Key], id.UniqueId)
			}
		}
	}
	return s.namePolicies(ctx, c, profiles, byMoid)
}

// namePolicies turns profile ids into names, in one more call.
func (s *sweep) namePolicies(ctx context.Context, c *pbm.Client, profiles map[string][]string, machines map[string]*providers.Resource) error {
	distinct := map[string]bool{}
	for _, ids := range profiles {
		for _, id := range ids {
			distinct[id] = true
		}
	}
	names := map[string]string{}
	if len(distinct) > 0 {
		var ids []pbmtypes.PbmProfileId
		for id := range distinct {
			ids = append(ids, pbmtypes.PbmProfileId{UniqueId: id})
		}
		content, err := c.RetrieveContent(ctx, ids)
		if err != nil {
			return err
		}
		for _, p := range content {
			names[p.GetPbmProfile().ProfileId.UniqueId] = p.GetPbmProfile().Name
		}
	}
	for key, r := range machines {
		for _, id := range profiles[key] {
			if name := names[id]; name != "" {
				r.Set("/storagePolicy", field(providers.String(name)))
			}
		}
		closePath(r, "/storagePolicy")
	}
	return nil
}

// policyIDs gives the ids of all storage policies by name.
func policyIDs(ctx context.Context, c *pbm.Client) (map[string]string, error) {
	ids, err := c.QueryProfile(ctx, pbmtypes.PbmProfileResourceType{
		ResourceType: string(pbmtypes.PbmProfileResourceTypeEnumSTORAGE),
	}, string(pbmtypes.PbmProfileCategoryEnumREQUIREMENT))
	if err != nil {
		return nil, err
	}
	content, err := c.RetrieveContent(ctx, ids)
	if err != nil {
		return nil, err
	}
	known := make(map[string]string, len(content))
	for _, p := range content {
		known[p.GetPbmProfile().Name] = p.GetPbmProfile().ProfileId.UniqueId
	}
	return known, nil
}
