package providers_test

import (
	"errors"
	"testing"

	"github.com/holdfast-io/holdfast/providers"
)

// An element that somebody else owns is not removed, and neither is one that
// only says so: whoever asks for it.
func TestChangeRefusesOthersElements(t *testing.T) {
	id := providers.ID{Kind: providers.KindSecurityGroup, Name: "sg-1"}
	have := &providers.Resource{ID: id}
	have.Set("/ingress", providers.Field{Value: providers.Set("foreign", "claimed", "plain"),
		Foreign: map[string]string{"foreign": "LB"}, Claimed: map[string]string{"claimed": "CCM"}})
	for element, refused := range map[string]bool{"foreign": true, "claimed": true, "plain": false} {
		c := providers.Change{Resource: id, Want: &providers.Resource{ID: id}, Have: have, Fields: []providers.FieldChange{
			{Path: "/ingress", Have: providers.String(element), Element: true, Mutability: providers.InPlace},
		}}
		var reason *providers.ApplyError
		err := c.Refused()
		if (err != nil) != refused || refused && (!errors.As(err, &reason) || reason.Reason != providers.ReasonForeign) {
			t.Errorf("removing %q: %v", element, err)
		}
		c.Fields[0].Want, c.Fields[0].Have = providers.String(element), providers.Value{}
		if err := c.Refused(); err != nil {
			t.Errorf("adding %q: %v", element, err)
		}
	}
}
