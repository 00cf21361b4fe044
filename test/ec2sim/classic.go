package ec2sim

type classicBalancer struct{}
type balancer struct{ meta }
type listener struct{ meta }
type targetGroup struct{ meta }

var classicActions, classicListenerActions, balancerActions, listenerActions, targetGroupActions, balancerTagActions []*action

func (c *call) balancerUses(id string) bool { return false }
