package ec2sim

import (
	"encoding/json"
	"strings"
)

// kmsKey is a key and its aliases. Keys only name things here.
type kmsKey struct {
	id, arn string
	aliases []string
	managed bool
}

func quoteJSON(text string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string always marshals
	}
	return string(quoted)
}

func (r *region) addDefaultKeys() { r.addKey("alias/aws/ebs", true) }

func (r *region) addKey(alias string, managed bool) *kmsKey {
	a, b := mix(hash64(r.account.id+r.name+alias)), mix(hash64(alias+r.name+r.account.id))
	id := uuid(a, b)
	k := &kmsKey{id: id, arn: r.arn("kms", "key/"+id), managed: managed}
	if alias != "" {
		k.aliases = []string{alias}
	}
	r.kmsKeys = append(r.kmsKeys, k)
	return k
}

// AddKey adds a KMS key with an alias ("alias/NAME") and gives its ARN.
func (s *Server) AddKey(scope Scope, alias string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, err := s.region(scope)
	if err != nil {
		return "", err
	}
	return r.addKey(alias, false).arn, nil
}

// findKey takes a key's id or ARN, or an alias's name or ARN.
func (r *region) findKey(name string) *kmsKey {
	for _, k := range r.kmsKeys {
		if name == k.id || name == k.arn {
			return k
		}
		for _, alias := range k.aliases {
			if name == alias || name == r.arn("kms", alias) {
				return k
			}
		}
	}
	return nil
}

// resolveKey is the key of an encrypted volume; none means the account's
// default key for EBS.
func (c *call) resolveKey(name string) (string, *apiError) {
	if name == "" {
		name = "alias/aws/ebs"
	}
	k := c.findKey(name)
	if k == nil {
		return "", failf("InvalidParameterValue", "The key '%s' does not exist", name)
	}
	return k.arn, nil
}

var kmsActions = []*action{
	{name: "ListAliases", read: true, run: jsonAction((*call).listAliases)},
	{name: "DescribeKey", read: true, run: jsonAction((*call).describeKey)},
}

// jsonAction adapts a handler to the JSON protocol of KMS.
func jsonAction[In any](handler func(*call, *In) (any, *apiError)) func(*call, any) (any, *apiError) {
	return func(c *call, body any) (any, *apiError) {
		in := new(In)
		if err := json.Unmarshal(body.([]byte), in); err != nil {
			return nil, failf("SerializationException", "%s", err)
		}
		out, problem := handler(c, in)
		if problem != nil {
			return nil, problem
		}
		encoded, err := json.Marshal(out)
		if err != nil {
			return nil, failf("InternalFailure", "%s", err)
		}
		return encoded, nil
	}
}

type kmsIn struct {
	KeyID string `json:"KeyId"`
	Limit int
	// Marker is read and ignored: one page holds all.
	Marker string
}

type aliasItem struct {
	AliasName   string
	AliasARN    string `json:"AliasArn"`
	TargetKeyID string `json:"TargetKeyId"`
}

func (c *call) listAliases(in *kmsIn) (any, *apiError) {
	out := struct {
		Aliases   []aliasItem
		Truncated bool
	}{Aliases: []aliasItem{}}
	for _, k := range c.kmsKeys {
		if in.KeyID != "" && in.KeyID != k.id && in.KeyID != k.arn {
			continue
		}
		for _, alias := range k.aliases {
			out.Aliases = append(out.Aliases, aliasItem{alias, c.arn("kms", alias), k.id})
		}
	}
	return out, nil
}

func (c *call) describeKey(in *kmsIn) (any, *apiError) {
	k := c.findKey(in.KeyID)
	if k == nil {
		return nil, failf("NotFoundException", "Key '%s' does not exist", strings.TrimSpace(in.KeyID))
	}
	type metadata struct {
		KeyID        string `json:"KeyId"`
		ARN          string `json:"Arn"`
		AWSAccountID string `json:"AWSAccountId"`
		Enabled      bool
		KeyState     string
		KeyUsage     string
		KeyManager   string
	}
	manager := "CUSTOMER"
	if k.managed {
		manager = "AWS"
	}
	return struct{ KeyMetadata metadata }{metadata{k.id, k.arn, c.account.id, true, "Enabled", "ENCRYPT_DECRYPT", manager}}, nil
}
