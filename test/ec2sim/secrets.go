package ec2sim

import (
	"maps"
	"slices"
)

// secret is one of Secrets Manager's, with its current value alone.
type secret struct {
	arn, name, version string
	binary             []byte
	text               *string
}

var secretActions = []*action{
	{name: "CreateSecret", run: jsonAction((*call).createSecret)},
	{name: "PutSecretValue", run: jsonAction((*call).putSecretValue)},
	{name: "GetSecretValue", read: true, run: jsonAction((*call).getSecretValue)},
	{name: "DeleteSecret", run: jsonAction((*call).deleteSecret)},
	{name: "ListSecrets", read: true, run: jsonAction((*call).listSecrets)},
}

type secretIn struct {
	Name         string
	SecretID     string `json:"SecretId"`
	SecretBinary []byte
	SecretString *string
	// ForceDeleteWithoutRecovery deletes at once. Without it a secret shows as
	// deleted for a while, which is not played.
	ForceDeleteWithoutRecovery bool
}

type secretOut struct {
	ARN, Name    string
	VersionID    string  `json:"VersionId,omitempty"`
	SecretBinary []byte  `json:",omitempty"`
	SecretString *string `json:",omitempty"`
}

func (c *call) createSecret(in *secretIn) (any, *apiError) {
	switch {
	case in.Name == "":
		return nil, failf("InvalidParameterException", "You must provide a secret name.")
	case c.secrets[in.Name] != nil:
		return nil, failf("ResourceExistsException", "The operation failed because the secret %s already exists.", in.Name)
	}
	s := &secret{arn: c.arn("secretsmanager", "secret:"+in.Name+"-"+c.newID("s")[2:8]), name: in.Name}
	out, err := c.setSecret(s, in)
	if err == nil {
		c.secrets[in.Name] = s
	}
	return out, err
}

func (c *call) setSecret(s *secret, in *secretIn) (any, *apiError) {
	const largest = 65536
	if len(in.SecretBinary) > largest || in.SecretString != nil && len(*in.SecretString) > largest {
		return nil, failf("InvalidParameterException", "The secret value is longer than %d bytes.", largest)
	}
	s.binary, s.text, s.version = in.SecretBinary, in.SecretString, uuid(c.nextNumber(), c.nextNumber())
	return secretOut{ARN: s.arn, Name: s.name, VersionID: s.version}, nil
}

// findSecret takes a name or an ARN.
func (c *call) findSecret(id string) (*secret, *apiError) {
	if s := c.secrets[id]; s != nil {
		return s, nil
	}
	for _, s := range c.secrets {
		if s.arn == id {
			return s, nil
		}
	}
	return nil, failf("ResourceNotFoundException", "Secrets Manager can't find the specified secret.")
}

func (c *call) putSecretValue(in *secretIn) (any, *apiError) {
	s, err := c.findSecret(in.SecretID)
	if err != nil {
		return nil, err
	}
	return c.setSecret(s, in)
}

func (c *call) getSecretValue(in *secretIn) (any, *apiError) {
	s, err := c.findSecret(in.SecretID)
	if err != nil {
		return nil, err
	}
	return secretOut{s.arn, s.name, s.version, s.binary, s.text}, nil
}

func (c *call) deleteSecret(in *secretIn) (any, *apiError) {
	s, err := c.findSecret(in.SecretID)
	if err != nil {
		return nil, err
	}
	if !in.ForceDeleteWithoutRecovery {
		return nil, failf("InvalidParameterException", "this simulator deletes without recovery only")
	}
	delete(c.secrets, s.name)
	return secretOut{ARN: s.arn, Name: s.name}, nil
}

func (c *call) listSecrets(*struct{}) (any, *apiError) {
	out := struct{ SecretList []secretOut }{SecretList: []secretOut{}}
	for _, name := range slices.Sorted(maps.Keys(c.secrets)) {
		out.SecretList = append(out.SecretList, secretOut{ARN: c.secrets[name].arn, Name: name})
	}
	return out, nil
}
