package ec2sim

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Event is one event of EventBridge's default bus.
type Event struct {
	Account, Region string
	// Source and DetailType are in Body too.
	Source, DetailType string
	// Body is the event as a rule's target gets it, in JSON.
	Body string
}

type envelope struct {
	Version    string   `json:"version"`
	ID         string   `json:"id"`
	DetailType string   `json:"detail-type"`
	Source     string   `json:"source"`
	Account    string   `json:"account"`
	Time       string   `json:"time"`
	Region     string   `json:"region"`
	Resources  []string `json:"resources"`
	Detail     any      `json:"detail"`
}

// emit keeps an event until the lock is let go. The caller holds it.
func (s *Server) emit(account, region, source, detailType string, now time.Time, detail any) {
	s.emitted++
	body, err := json.Marshal(envelope{
		Version: "0", ID: fmt.Sprintf("%08x-0000-4000-8001-%012x", s.options.Seed, s.emitted), DetailType: detailType, Source: source,
		Account: account, Time: now.UTC().Format(time.RFC3339), Region: region, Resources: []string{}, Detail: detail,
	})
	if err != nil {
		panic("ec2sim: an event that is no JSON: " + err.Error())
	}
	s.events = append(s.events, Event{account, region, source, detailType, string(body)})
}

// handOn gives what was kept to the hook, in order. The caller must not hold
// the lock.
func (s *Server) handOn() {
	if s.options.OnEvent == nil {
		return
	}
	s.mu.Lock()
	events := s.events
	s.events = nil
	s.mu.Unlock()
	for _, e := range events {
		s.options.OnEvent(e)
	}
}

// notice tells of an instance's new state. States that come about by time are
// told of by the first call after it, as they come about (see later).
func (r *region) notice(i *instance, now time.Time) {
	if r.srv.options.OnEvent == nil {
		return
	}
	r.srv.emit(r.account.id, r.name, "aws.ec2", "EC2 Instance State-change Notification", now,
		map[string]string{"instance-id": i.id, "state": i.state})
}

// warn tells of what AWS itself does to a spot instance.
func (r *region) warn(i *instance, now time.Time, code, does string) {
	if r.srv.options.OnEvent == nil || !strings.HasPrefix(code, "Server.Spot") {
		return
	}
	r.srv.emit(r.account.id, r.name, "aws.ec2", "EC2 Spot Instance Interruption Warning", now,
		map[string]string{"instance-id": i.id, "instance-action": does})
}

// announce tells of a scheduled event as AWS Health does.
func (r *region) announce(i *instance, event ScheduledEvent, now time.Time) {
	if r.srv.options.OnEvent == nil {
		return
	}
	code := "AWS_EC2_" + strings.ToUpper(strings.ReplaceAll(event.Code, "-", "_")) + "_SCHEDULED"
	r.srv.emit(r.account.id, r.name, "aws.health", "AWS Health Event", now, map[string]any{
		"eventArn": "arn:aws:health:" + r.name + "::event/EC2/" + code + "/" + event.ID, "service": "EC2",
		"eventTypeCode": code, "eventTypeCategory": "scheduledChange", "affectedAccount": r.account.id, "eventRegion": r.name,
		"affectedEntities": []map[string]string{{"entityValue": i.id, "status": "PENDING"}},
	})
}

// record tells of a call as CloudTrail does (its user guide, "CloudTrail record
// contents"): what changes nothing is not told of, what was refused has its
// error code.
func (s *Server) record(r *http.Request, c *call, entry *Call, id string, out any, refused *apiError) {
	source := map[string]string{serviceEC2: "ec2", serviceELB: "elasticloadbalancing", serviceELBv2: "elasticloadbalancing"}[c.service]
	if s.options.OnEvent == nil || c.region == nil || c.action == nil || c.action.read || source == "" {
		return
	}
	detail := map[string]any{
		"eventVersion": "1.11", "eventSource": source + ".amazonaws.com", "eventName": c.action.name,
		"eventTime": c.now.UTC().Format(time.RFC3339), "awsRegion": c.name, "sourceIPAddress": "127.0.0.1",
		"userAgent": r.UserAgent(), "userIdentity": identityOf(c.credential), "requestID": id, "eventID": id,
		"eventType": "AwsApiCall", "readOnly": false, "managementEvent": true, "recipientAccountId": entry.Account,
		"requestParameters": c.requestParameters(), "responseElements": nil,
	}
	if refused != nil {
		detail["errorCode"] = pick(c.service, "Client."+refused.Code, refused.Code)
		detail["errorMessage"] = refused.Message
	} else {
		detail["responseElements"] = c.responseElements(response(nil, c.service, c.action.name, id, c.now, out))
	}
	s.emit(entry.Account, c.name, "aws."+source, "AWS API Call via CloudTrail", c.now, detail)
}

func identityOf(c Credential) map[string]any {
	identity := map[string]any{"type": "IAMUser", "arn": c.arn(), "accountId": c.Account, "accessKeyId": c.AccessKeyID}
	if strings.Contains(c.arn(), ":assumed-role/") {
		identity["type"] = "AssumedRole"
	}
	return identity
}

// wrapped are the actions whose records hold everything in one object named
// after the request, in the API's own spelling.
var wrapped = map[string]bool{
	"ModifyInstanceMetadataOptions": true, "ModifyVolume": true, "ModifySecurityGroupRules": true,
	"AssociateIamInstanceProfile": true, "DisassociateIamInstanceProfile": true, "ReplaceIamInstanceProfileAssociation": true,
	"CreateNatGateway": true, "DeleteNatGateway": true,
	"CreateEgressOnlyInternetGateway": true, "DeleteEgressOnlyInternetGateway": true,
}

// lists are the names under which EC2's records hold lists of a request, and
// the name of each member where it is a text.
var lists = map[string][2]string{
	"InstanceId": {"instancesSet", "instanceId"}, "ResourceId": {"resourcesSet", "resourceId"},
	"GroupId": {"groupSet", "groupId"}, "SecurityGroupId": {"groupSet", "groupId"},
	"Tag": {"tagSet", "tag"}, "TagSpecification": {"tagSpecificationSet", "tag"},
}

// requestParameters gives the request as a record shows it.
func (c *call) requestParameters() any {
	root, err := parseParams(c.form)
	if err != nil {
		return nil
	}
	for _, common := range []string{"Action", "Version", "DryRun"} {
		delete(root.children, common)
	}
	if user := root.children["UserData"]; user != nil {
		user.value = "<sensitiveDataRemoved>"
	}
	if wrapped[c.action.name] {
		return map[string]any{c.action.name + "Request": root.plain(c.service, true)}
	}
	return root.plain(c.service, false)
}

// plain makes JSON of parameters.
func (p *param) plain(service string, pascal bool) any {
	if len(p.children) == 0 {
		return p.value
	}
	out := map[string]any{}
	for name, child := range p.children {
		if service != serviceEC2 {
			if members := child.children["member"]; members != nil {
				child = members
			}
		}
		items, isList := child.items(service, pascal)
		key := name
		if !pascal {
			key = strings.ToLower(name[:1]) + name[1:]
		}
		switch known, listed := lists[name]; {
		case !isList:
			out[key] = child.plain(service, pascal)
		case pascal || service != serviceEC2:
			out[key] = items
		case listed:
			for i := range items {
				if text, ok := items[i].(string); ok {
					items[i] = map[string]any{known[1]: text}
				}
			}
			out[known[0]] = map[string]any{"items": items}
		default:
			out[key] = map[string]any{"items": items}
		}
	}
	return out
}

// items gives the members of a list, whose names are numbers from 1.
func (p *param) items(service string, pascal bool) ([]any, bool) {
	if len(p.children) == 0 {
		return nil, false
	}
	out := make([]any, 0, len(p.children))
	for n := 1; n <= len(p.children); n++ {
		child := p.children[strconv.Itoa(n)]
		if child == nil {
			return nil, false
		}
		out = append(out, child.plain(service, pascal))
	}
	return out, true
}

// responseElements gives the answer as a record shows it.
func (c *call) responseElements(answer []byte) any {
	tree, err := elements(xml.NewDecoder(bytes.NewReader(answer)))
	if err != nil {
		return nil
	}
	root, _ := tree[c.action.name+"Response"].(map[string]any)
	switch {
	case c.service != serviceEC2:
		return lowerKeys(root[c.action.name+"Result"])
	case wrapped[c.action.name]:
		return map[string]any{c.action.name + "Response": root}
	}
	return root
}

// elements reads XML as objects; lists are {"items": [...]}.
func elements(d *xml.Decoder) (map[string]any, error) {
	out := map[string]any{}
	for {
		token, err := d.Token()
		if err != nil {
			if len(out) > 0 {
				return out, nil // the document's end
			}
			return nil, err
		}
		if start, ok := token.(xml.StartElement); ok {
			value, err := element(d)
			if err != nil {
				return nil, err
			}
			out[start.Name.Local] = value
		}
	}
}

func element(d *xml.Decoder) (any, error) {
	var text strings.Builder
	members := map[string]any{}
	var items []any
	for {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		switch token := token.(type) {
		case xml.CharData:
			text.Write(token)
		case xml.StartElement:
			value, err := element(d)
			if err != nil {
				return nil, err
			}
			if token.Name.Local == "item" || token.Name.Local == "member" {
				items = append(items, value)
			} else {
				members[token.Name.Local] = value
			}
		case xml.EndElement:
			switch {
			case items != nil:
				return map[string]any{"items": items}, nil
			case len(members) > 0:
				return members, nil
			default:
				return text.String(), nil
			}
		}
	}
}

// lowerKeys spells members as Elastic Load Balancing's records do, with lists
// as they are.
func lowerKeys(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	if items, ok := m["items"].([]any); ok {
		out := make([]any, len(items))
		for i := range items {
			out[i] = lowerKeys(items[i])
		}
		return out
	}
	out := map[string]any{}
	for name, value := range m {
		out[strings.ToLower(name[:1])+name[1:]] = lowerKeys(value)
	}
	return out
}
