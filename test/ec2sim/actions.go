package ec2sim

import (
	"net/url"
	"time"
)

// The services, by the name that credential scopes and endpoints give them.
const (
	serviceEC2   = "ec2"
	serviceELB   = "elb"
	serviceELBv2 = "elbv2"
	serviceSTS   = "sts"
	serviceIAM   = "iam"
	serviceKMS   = "kms"

	serviceSecrets = "secretsmanager"
)

// versions tell the service of a query request by its API version.
var versions = map[string]string{
	"2016-11-15": serviceEC2, "2012-06-01": serviceELB, "2015-12-01": serviceELBv2,
	"2011-06-15": serviceSTS, "2010-05-08": serviceIAM,
}

// action is one API operation.
type action struct {
	name string
	// read tells that it changes nothing; the zero value is a mutation.
	read bool
	// token makes equal ClientTokens give equal results.
	token bool
	// decode makes the request struct from the parameters.
	decode func(*param) (any, *apiError)
	run    func(*call, any) (any, *apiError)
}

// call is one request while it is served.
type call struct {
	*region
	now         time.Time
	service     string
	action      *action
	credential  Credential
	form        url.Values
	digest      string
	fault       *Fault
	page        int
	clientToken string
}

// read and write make actions from handlers: a method of region, the request
// struct it takes and the response struct it gives.
func read[In, Out any](name string, handler func(*call, *In) (Out, *apiError)) *action {
	a := write(name, handler)
	a.read = true
	return a
}

func write[In, Out any](name string, handler func(*call, *In) (Out, *apiError)) *action {
	return &action{
		name: name,
		decode: func(p *param) (any, *apiError) {
			in := new(In)
			return in, decode(p, in)
		},
		run: func(c *call, in any) (any, *apiError) { return handler(c, in.(*In)) },
	}
}

// create is a write that honours ClientToken.
func create[In, Out any](name string, handler func(*call, *In) (Out, *apiError)) *action {
	a := write(name, handler)
	a.token = true
	return a
}

// actions is every operation by service. Each resource's file has its own
// list; an operation that is in none of them is a mutation to the call log
// and InvalidAction to the caller.
var actions = func() map[string]map[string]*action {
	all := map[string]map[string]*action{}
	for service, lists := range map[string][][]*action{
		serviceEC2: {
			vpcActions, subnetActions, gatewayActions, natActions, addressActions, routeActions,
			groupActions, groupRuleActions, aclActions, interfaceActions, runActions, instanceActions, attributeActions,
			profileAssociationActions, statusActions, volumeActions, imageActions, catalogActions, tagActions,
		},
		serviceELB:   {classicActions, classicListenerActions},
		serviceELBv2: {balancerActions, listenerActions, targetGroupActions, balancerTagActions},
		serviceSTS:   {stsActions},
		serviceIAM:   {iamActions},
		serviceKMS:   {kmsActions},

		serviceSecrets: {secretActions},
	} {
		all[service] = map[string]*action{}
		for _, list := range lists {
			for _, a := range list {
				if all[service][a.name] != nil {
					panic("ec2sim: " + service + ":" + a.name + " is declared twice")
				}
				all[service][a.name] = a
			}
		}
	}
	return all
}()

// done is the output of EC2 actions that only say that they succeeded.
type done struct{ Return bool }

func ok() (done, *apiError) { return done{Return: true}, nil }

// empty is the output of actions of other services that return nothing.
type empty struct{}

// replayer is an output that shows current state when its client token is
// used again, rather than what was true at first.
type replayer interface {
	replay(*call) (any, *apiError)
}

// perform runs the action once per client token. The EC2 developer guide,
// "Ensuring idempotency in Amazon EC2 API requests", asks for the same result
// for equal parameters and an error for others.
func (c *call) perform(in any) (any, *apiError) {
	if !c.action.token || c.clientToken == "" {
		return c.action.run(c, in)
	}
	if len(c.clientToken) > 64 {
		return nil, invalid("ClientToken", c.clientToken, "Expecting at most 64 characters")
	}
	key := tokenKey{c.action.name, c.clientToken}
	if earlier, ok := c.tokens[key]; ok {
		if earlier.digest != c.digest {
			return nil, failf("IdempotentParameterMismatch", "The request uses the same client token as a previous, but "+
				"non-identical request. Do not reuse a client token with different requests, unless the requests are identical")
		}
		if again, ok := earlier.out.(replayer); ok {
			return again.replay(c)
		}
		return earlier.out, nil
	}
	out, err := c.action.run(c, in)
	if err == nil {
		c.tokens[key] = tokenResult{c.digest, out}
	}
	return out, err
}

type tokenKey struct{ action, token string }

type tokenResult struct {
	digest string
	out    any
}
