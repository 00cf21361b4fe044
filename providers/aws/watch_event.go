package aws

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/holdfast-io/holdfast/providers"
)

// EventOutcome is what became of one message of an event queue.
type EventOutcome string

// Outcomes. They are few and known, so that they can be a metric's label.
const (
	// EventTold messages were told to a watch.
	EventTold EventOutcome = "Told"
	// EventGap counts the times that everything had to be read again because
	// messages may have been lost.
	EventGap EventOutcome = "Gap"
	// EventRead messages are about calls that only read.
	EventRead EventOutcome = "ReadOnly"
	// EventFailed messages are about calls that were refused.
	EventFailed EventOutcome = "Failed"
	// EventNothing messages name nothing that is compared.
	EventNothing EventOutcome = "NothingCompared"
	// EventUnknown messages are of a source or type that is not known.
	EventUnknown EventOutcome = "UnknownType"
	// EventElsewhere messages are of an account and region that nobody here
	// watches.
	EventElsewhere EventOutcome = "Elsewhere"
	// EventMalformed messages could not be read as what they say they are.
	EventMalformed EventOutcome = "Malformed"
)

// EventOutcomes lists every outcome, so that a metric has its series from the
// start.
func EventOutcomes() []EventOutcome {
	return []EventOutcome{EventTold, EventGap, EventRead, EventFailed, EventNothing, EventUnknown, EventElsewhere, EventMalformed}
}

// EventCounts gives how many messages came to each outcome so far.
func (p *Provider) EventCounts() map[EventOutcome]int64 { return p.watching.counts.snapshot() }

type eventCounter struct {
	mu    sync.Mutex
	count map[EventOutcome]int64
}

func (c *eventCounter) add(o EventOutcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == nil {
		c.count = map[EventOutcome]int64{}
	}
	c.count[o]++
}

func (c *eventCounter) snapshot() map[EventOutcome]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.count)
}

// Bounds on what a message may hold. SQS allows 1 MiB (its quotas, "Message
// size"), EventBridge 256 KiB.
const (
	maxMessage = 1 << 20
	// maxIDs is how many resources one event names at most; RunInstances and
	// its like stay below 1,000. Beyond it everything is read again.
	maxIDs = 1000
	// maxText bounds What and By.
	maxText = 300
)

// notice is one event as it was understood.
type notice struct {
	account, region string
	event           providers.Event
	// principal and agent are the caller's ARN and user agent, of an API call.
	principal, agent string
	// groups are the names of target groups that the call names.
	groups []string
}

// object is a JSON object whose members are read one by one, by exact name;
// encoding/json's structs would take "DETAIL" for "detail".
type object map[string]json.RawMessage

func (o object) text(name string) string {
	var s string
	if json.Unmarshal(o[name], &s) != nil {
		return ""
	}
	return s
}

func (o object) object(name string) object {
	var out object
	if json.Unmarshal(o[name], &out) != nil {
		return nil
	}
	return out
}

// kind is an EventBridge event's source and detail-type.
type kind struct{ source, detail string }

// Detail types and sources, as EventBridge spells them ("Events from AWS
// services" in its reference).
const (
	sourceEC2     = "aws.ec2"
	sourceELB     = "aws.elasticloadbalancing"
	sourceHealth  = "aws.health"
	detailAPICall = "AWS API Call via CloudTrail"
)

// eventKinds are the events that are understood.
var eventKinds = map[kind]func(object, *notice) (EventOutcome, error){
	{sourceEC2, "EC2 Instance State-change Notification"}: stateChange,
	{sourceEC2, "EC2 Spot Instance Interruption Warning"}: spotInterruption,
	{sourceEC2, "EC2 Instance Rebalance Recommendation"}:  rebalance,
	{sourceHealth, "AWS Health Event"}:                    healthEvent,
	{sourceEC2, detailAPICall}:                            apiCall,
	{sourceELB, detailAPICall}:                            apiCall,
}

// parseMessage reads the body of a message: an event of EventBridge, alone or
// in the envelope of an SNS topic. Anything may be in it. The error is for
// EventMalformed alone.
func parseMessage(body string, sent time.Time) (notice, EventOutcome, error) {
	if len(body) > maxMessage {
		return notice{}, EventMalformed, fmt.Errorf("%d bytes are more than a message can have", len(body))
	}
	var envelope object
	if err := json.Unmarshal([]byte(body), &envelope); err != nil {
		return notice{}, EventMalformed, fmt.Errorf("read the message: %w", err)
	}
	if envelope.text("Type") == "Notification" && envelope["TopicArn"] != nil {
		inner := envelope.text("Message")
		envelope = nil
		if err := json.Unmarshal([]byte(inner), &envelope); err != nil {
			return notice{}, EventMalformed, fmt.Errorf("read the message in the SNS notification: %w", err)
		}
	}
	k := kind{envelope.text("source"), envelope.text("detail-type")}
	if k.source == "" || k.detail == "" {
		return notice{}, EventMalformed, errors.New("it has no source or no detail-type: want an event of EventBridge, without an input transformer")
	}
	understand, known := eventKinds[k]
	if !known {
		return notice{}, EventUnknown, nil
	}
	n := notice{account: envelope.text("account"), region: envelope.text("region"), event: providers.Event{At: sent}}
	detail := envelope.object("detail")
	if !isAccount(n.account) || n.region == "" || detail == nil {
		return notice{}, EventMalformed, fmt.Errorf("a %q event without account, region or detail", k.detail)
	}
	n.at(envelope.text("time"))
	outcome, err := understand(detail, &n)
	if err != nil {
		return notice{}, EventMalformed, fmt.Errorf("a %q event: %w", k.detail, err)
	}
	n.finish()
	return n, outcome, nil
}

// at sets the time where it can be read.
func (n *notice) at(s string) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		n.event.At = t
	}
}

// finish puts the ids in order and bounds the texts.
func (n *notice) finish() {
	e := &n.event
	slices.SortFunc(e.IDs, func(a, b providers.ID) int { return strings.Compare(a.String(), b.String()) })
	e.IDs = slices.Compact(e.IDs)
	if len(e.IDs) > maxIDs {
		e.IDs, e.Gap = nil, true
	}
	e.What, e.By = bounded(e.What), bounded(e.By)
}

// bounded cuts a text at a character.
func bounded(s string) string {
	if len(s) <= maxText {
		return strings.ToValidUTF8(s, "�")
	}
	cut := maxText
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strings.ToValidUTF8(s[:cut], "�") + "…"
}

// instanceEvent is the form that EC2's own notices share.
func instanceEvent(detail object, n *notice, what string) (EventOutcome, error) {
	id, ok := idOf(detail.text("instance-id"))
	if !ok || id.Kind != providers.KindInstance {
		return "", fmt.Errorf("%.40q is no instance id", detail.text("instance-id"))
	}
	n.event.IDs = []providers.ID{id}
	n.event.What = what
	return EventTold, nil
}

// stateChange is told for every state: which of them matter is for the reading
// to say.
func stateChange(detail object, n *notice) (EventOutcome, error) {
	return instanceEvent(detail, n, "instance "+detail.text("state"))
}

func spotInterruption(detail object, n *notice) (EventOutcome, error) {
	return instanceEvent(detail, n, "spot interruption: "+detail.text("instance-action"))
}

func rebalance(detail object, n *notice) (EventOutcome, error) {
	return instanceEvent(detail, n, "rebalance recommendation")
}

// healthEvent is about the resources that an event of AWS Health names (AWS
// Health user guide, "AWS Health events Amazon EventBridge schema"): scheduled
// maintenance, retirement, a degraded volume.
func healthEvent(detail object, n *notice) (EventOutcome, error) {
	if affected := detail.text("affectedAccount"); isAccount(affected) {
		n.account = affected
	}
	if region := detail.text("eventRegion"); region != "" {
		n.region = region
	}
	var entities []object
	if raw := detail["affectedEntities"]; raw != nil {
		if err := json.Unmarshal(raw, &entities); err != nil {
			return "", fmt.Errorf("its affectedEntities are no list of objects: %w", err)
		}
	}
	for _, e := range entities {
		if id, ok := idOf(e.text("entityValue")); ok {
			n.event.IDs = append(n.event.IDs, id)
		}
	}
	if len(n.event.IDs) == 0 {
		return EventNothing, nil
	}
	n.event.What = detail.text("eventTypeCode")
	return EventTold, nil
}
