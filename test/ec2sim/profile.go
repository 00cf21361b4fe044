package ec2sim

import (
	"slices"
	"strings"
	"time"
)

// instanceProfile of IAM, in the form that IAM shows.
type instanceProfile struct {
	Path                string
	InstanceProfileName string
	InstanceProfileID   string `wire:"InstanceProfileId"`
	ARN                 string
	CreateDate          time.Time
	Roles               []profileRole
}

type profileRole struct {
	Path       string
	RoleName   string
	RoleID     string
	ARN        string
	CreateDate time.Time
}

// findProfile resolves the name or the ARN of a launch or an association.
func (c *call) findProfile(in profileIn) (*instanceProfile, *apiError) {
	if in.ARN != "" {
		for _, p := range c.account.profiles {
			if p.ARN == in.ARN {
				return p, nil
			}
		}
		return nil, failf("InvalidParameterValue", "Value (%s) for parameter iamInstanceProfile.arn is invalid. Invalid IAM Instance Profile ARN", in.ARN)
	}
	if p := c.account.profiles[in.Name]; p != nil {
		return p, nil
	}
	return nil, failf("InvalidParameterValue", "Value (%s) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name", in.Name)
}

// profileAssociation ties a profile to an instance.
type profileAssociation struct {
	id       string
	instance *instance
	profile  *instanceProfile
	state    string
	since    time.Time
}

func (p *profileAssociation) shown(state string) associationView {
	return associationView{p.id, p.instance.id, profileRef{p.profile.ARN, p.profile.InstanceProfileID}, state, p.since}
}

type associationView struct {
	AssociationID      string
	InstanceID         string
	IAMInstanceProfile profileRef
	State              string
	Timestamp          time.Time
}

var profileAssociationActions = []*action{
	write("AssociateIamInstanceProfile", (*call).associateProfile),
	write("ReplaceIamInstanceProfileAssociation", (*call).replaceProfile),
	write("DisassociateIamInstanceProfile", (*call).disassociateProfile),
	read("DescribeIamInstanceProfileAssociations", (*call).describeProfiles),
}

type profileAssociationIn struct {
	InstanceID         string
	AssociationID      string
	IAMInstanceProfile profileIn
}

type profileAssociationOut struct{ IAMInstanceProfileAssociation associationView }

func (c *call) associateProfile(in *profileAssociationIn) (out profileAssociationOut, err *apiError) {
	i, err := c.instances.get(c, "instanceId", in.InstanceID)
	if err != nil {
		return out, err
	}
	p, err := c.findProfile(in.IAMInstanceProfile)
	if err != nil {
		return out, err
	}
	switch {
	case i.profile != nil:
		return out, failf("IncorrectState", "There is an existing association for instance %s", i.id)
	case i.state != "running" && i.state != "stopped" && i.state != "pending":
		return out, incorrectState(i)
	}
	i.profile = &profileAssociation{c.newID("iip-assoc"), i, p, "associated", c.now}
	return profileAssociationOut{i.profile.shown("associating")}, nil
}

func (c *call) profileAssociation(id string) (*profileAssociation, *apiError) {
	i, found := c.instances.first(func(i *instance) bool { return i.profile != nil && i.profile.id == id })
	if !found {
		return nil, failf("InvalidAssociationID.NotFound", "An invalid association-id of '%s' was given", id)
	}
	return i.profile, nil
}

// replaceProfile keeps no trace of the old association but gives a new id.
func (c *call) replaceProfile(in *profileAssociationIn) (out profileAssociationOut, err *apiError) {
	old, err := c.profileAssociation(in.AssociationID)
	if err != nil {
		return out, err
	}
	p, err := c.findProfile(in.IAMInstanceProfile)
	if err != nil {
		return out, err
	}
	i := old.instance
	i.profile = &profileAssociation{c.newID("iip-assoc"), i, p, "associated", c.now}
	return profileAssociationOut{i.profile.shown("associating")}, nil
}

func (c *call) disassociateProfile(in *profileAssociationIn) (out profileAssociationOut, err *apiError) {
	old, err := c.profileAssociation(in.AssociationID)
	if err != nil {
		return out, err
	}
	old.instance.profile = nil
	return profileAssociationOut{old.shown("disassociating")}, nil
}

type describeProfilesIn struct {
	filterIns
	pageIn
	AssociationID []string
}

type describeProfilesOut struct {
	IAMInstanceProfileAssociationSet []associationView
	NextToken                        string
}

func (c *call) describeProfiles(in *describeProfilesIn) (out describeProfilesOut, err *apiError) {
	keep, err := condition(c, in.filterIns, filters[*instance]{
		"instance-id": func(i *instance) []string { return []string{i.id} },
		"state":       func(i *instance) []string { return []string{i.profile.state} },
	})
	if err != nil {
		return out, err
	}
	found, next, err := list(c, &c.instances, nil, func(i *instance) bool {
		return i.profile != nil && (len(in.AssociationID) == 0 || slices.Contains(in.AssociationID, i.profile.id)) && keep(i)
	}, in.pageIn, usualLimits)
	for _, i := range found {
		out.IAMInstanceProfileAssociationSet = append(out.IAMInstanceProfileAssociationSet, i.profile.shown(i.profile.state))
	}
	out.NextToken = next
	return out, err
}

var iamActions = []*action{
	write("CreateInstanceProfile", (*call).createProfile),
	write("DeleteInstanceProfile", (*call).deleteProfile),
	read("GetInstanceProfile", (*call).getProfile),
	read("ListInstanceProfiles", (*call).listProfiles),
	write("AddRoleToInstanceProfile", (*call).addProfileRole),
	write("RemoveRoleFromInstanceProfile", (*call).removeProfileRole),
}

type iamProfileIn struct {
	InstanceProfileName string
	Path                string
	RoleName            string
}

type iamProfileOut struct{ InstanceProfile *instanceProfile }

func (c *call) iamProfile(name string) (*instanceProfile, *apiError) {
	if p := c.account.profiles[name]; p != nil {
		return p, nil
	}
	return nil, failf("NoSuchEntity", "Instance Profile %s cannot be found.", name)
}

func (c *call) createProfile(in *iamProfileIn) (out iamProfileOut, err *apiError) {
	switch {
	case in.InstanceProfileName == "":
		return out, failf("ValidationError", "1 validation error detected: Value at 'instanceProfileName' failed to satisfy constraint: Member must not be null")
	case c.account.profiles[in.InstanceProfileName] != nil:
		return out, failf("EntityAlreadyExists", "Instance Profile %s already exists.", in.InstanceProfileName)
	}
	path := in.Path
	if path == "" {
		path = "/"
	}
	p := &instanceProfile{
		Path: path, InstanceProfileName: in.InstanceProfileName, CreateDate: c.now,
		InstanceProfileID: strings.ToUpper("AIPA" + strings.TrimPrefix(c.newID("x"), "x-0")),
		ARN:               "arn:" + c.partition() + ":iam::" + c.account.id + ":instance-profile" + path + in.InstanceProfileName,
	}
	c.account.profiles[p.InstanceProfileName] = p
	return iamProfileOut{p}, nil
}

func (c *call) getProfile(in *iamProfileIn) (out iamProfileOut, err *apiError) {
	p, err := c.iamProfile(in.InstanceProfileName)
	return iamProfileOut{p}, err
}

func (c *call) deleteProfile(in *iamProfileIn) (empty, *apiError) {
	p, err := c.iamProfile(in.InstanceProfileName)
	if err != nil {
		return empty{}, err
	}
	if len(p.Roles) > 0 {
		return empty{}, failf("DeleteConflict", "Cannot delete entity, must remove roles from instance profile first.")
	}
	delete(c.account.profiles, p.InstanceProfileName)
	return empty{}, nil
}

type listProfilesIn struct {
	PathPrefix string
	MaxItems   int
	Marker     string
}

type listProfilesOut struct {
	InstanceProfiles []*instanceProfile
	IsTruncated      bool
}

func (c *call) listProfiles(in *listProfilesIn) (out listProfilesOut, err *apiError) {
	for _, p := range c.account.profiles {
		if strings.HasPrefix(p.Path, in.PathPrefix) {
			out.InstanceProfiles = append(out.InstanceProfiles, p)
		}
	}
	slices.SortFunc(out.InstanceProfiles, func(a, b *instanceProfile) int {
		return strings.Compare(a.InstanceProfileName, b.InstanceProfileName)
	})
	return out, nil
}

func (c *call) addProfileRole(in *iamProfileIn) (empty, *apiError) {
	p, err := c.iamProfile(in.InstanceProfileName)
	if err != nil {
		return empty{}, err
	}
	if len(p.Roles) > 0 {
		return empty{}, failf("LimitExceeded", "Cannot exceed quota for InstanceSessionsPerInstanceProfile: 1")
	}
	p.Roles = []profileRole{{
		Path: "/", RoleName: in.RoleName, RoleID: strings.ToUpper("AROA" + strings.TrimPrefix(c.newID("x"), "x-0")),
		ARN: "arn:" + c.partition() + ":iam::" + c.account.id + ":role/" + in.RoleName, CreateDate: c.now,
	}}
	return empty{}, nil
}

func (c *call) removeProfileRole(in *iamProfileIn) (empty, *apiError) {
	p, err := c.iamProfile(in.InstanceProfileName)
	if err != nil {
		return empty{}, err
	}
	p.Roles = nil
	return empty{}, nil
}
