package aws

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	infrav1 "sigs.k8s.io/cluster-api-provider-aws/v2/api/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
	"github.com/holdfast-io/holdfast/test/sqssim"
)

const queueName = "holdfast-events"

// simulatedQueue leads SQS to a stand-in that has the queue, and the rest to a
// fake AWS.
func simulatedQueue(t *testing.T) (*sqssim.Server, *fakeAWS) {
	t.Helper()
	aws := newFakeAWS(t)
	queues := sqssim.New(sqssim.Options{})
	t.Cleanup(queues.Close)
	t.Setenv("AWS_ENDPOINT_URL_SQS", queues.URL())
	queues.Create(queueName, time.Hour)
	return queues, aws
}

func watchProvider(t *testing.T, events Events, objects ...client.Object) *Provider {
	t.Helper()
	p := provider(t, objects...)
	if err := events.Validate(); err != nil {
		t.Fatal(err)
	}
	p.watching.events = events
	return p
}

// watch is one Watch under way.
type watch struct {
	t      *testing.T
	p      *Provider
	events chan providers.Event
	cancel context.CancelFunc
	ended  chan error
	once   sync.Once
}

func start(t *testing.T, p *Provider, scope providers.Scope) *watch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watch{t: t, p: p, events: make(chan providers.Event, 10_000), cancel: cancel, ended: make(chan error, 1)}
	go func() { w.ended <- p.Watch(ctx, scope, func(e providers.Event) { w.events <- e }) }()
	t.Cleanup(w.stop)
	return w
}

// patience bounds waits for what must happen; nothing waits this long.
const patience = 30 * time.Second

func (w *watch) next() providers.Event {
	w.t.Helper()
	select {
	case e := <-w.events:
		return e
	case err := <-w.ended:
		w.t.Fatalf("the watch ended: %v", err)
	case <-time.After(patience):
		w.t.Fatalf("nothing was told; %v", w.p.EventCounts())
	}
	return providers.Event{}
}

func (w *watch) end() error {
	w.t.Helper()
	select {
	case err := <-w.ended:
		return err
	case <-time.After(patience):
		w.t.Fatal("the watch does not end")
	}
	return nil
}

func (w *watch) stop() {
	w.once.Do(w.cancel)
}

// eventually waits for a condition on another goroutine's work.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatal(what)
}

func stateOf(t *testing.T, id, state string) string {
	return noticeOf("EC2 Instance State-change Notification", `{"instance-id":"`+id+`","state":"`+state+`"}`, "").body(t)
}

// A message is told, and only then deleted; ending the watch is no error.
func TestWatchTellsThenDeletes(t *testing.T) {
	queues, _ := simulatedQueue(t)
	p := watchProvider(t, Events{QueueName: queueName})
	w := start(t, p, scopeOf(t, p))
	queues.Send(queueName, stateOf(t, i1, "stopped"))
	e := w.next()
	if len(e.IDs) != 1 || e.IDs[0] != (providers.ID{Kind: "Instance", Name: i1}) || e.What != "instance stopped" || e.Gap || e.Own {
		t.Errorf("told %+v", e)
	}
	eventually(t, "the message is still there", func() bool { return queues.Left(queueName) == 0 })
	w.stop()
	if err := w.end(); err != nil {
		t.Errorf("the context's end is an error: %v", err)
	}
	if got := p.EventCounts()[EventTold]; got != 1 {
		t.Errorf("counted %d", got)
	}
	if p.Calls()[Call{Service: "SQS", Operation: "ReceiveMessage"}] == 0 {
		t.Error("the calls to SQS are not counted")
	}
}

// Duplicates and any order come through as they are; what cannot be read or
// says nothing is deleted and counted, and does not stop what follows.
func TestWatchWhatever(t *testing.T) {
	queues, _ := simulatedQueue(t)
	p := watchProvider(t, Events{QueueName: queueName})
	all := samples()
	want := map[EventOutcome]int64{EventMalformed: 3, EventElsewhere: 2}
	told := 0
	queues.Send(queueName, "", "<html>", `{"a":`,
		strings.Replace(stateOf(t, i1, "stopped"), "123456789012", "210987654321", 1),
		strings.Replace(stateOf(t, i1, "stopped"), "eu-central-1", "us-east-1", 1))
	for _, s := range all {
		outcome := s.want()
		if outcome == EventTold && len(s.ids) == 0 && len(s.groups) > 0 {
			told++ // nothing was observed yet, so the group may be anybody's: a gap
		} else if outcome == EventTold {
			told++
		}
		want[outcome] += 2
		queues.Send(queueName, s.body(t), s.body(t))
	}
	w := start(t, p, scopeOf(t, p))
	seen := map[string]int{}
	for range 2 * told {
		e := w.next()
		seen[e.What+strings.Join(idTexts(e.IDs), " ")+e.By]++
	}
	eventually(t, "messages are left", func() bool { return queues.Left(queueName) == 0 })
	for what, n := range seen {
		if n%2 != 0 {
			t.Errorf("%s was told %d times", what, n)
		}
	}
	for outcome, n := range want {
		if got := p.EventCounts()[outcome]; got != n {
			t.Errorf("%s: counted %d, want %d", outcome, got, n)
		}
	}
}

// Errors that pass are waited for, each in its own way: throttling, failures
// of the service, broken connections, pages of a proxy.
func TestWatchOutlastsFailures(t *testing.T) {
	queues, _ := simulatedQueue(t)
	p := watchProvider(t, Events{QueueName: queueName})
	scope := scopeOf(t, p)
	before := p.clock.Now()
	queues.Fail("GetQueueUrl", sqssim.Fault{Status: 503, Code: "ServiceUnavailable"})
	queues.Fail("GetQueueAttributes", sqssim.Fault{Status: 400, Code: "RequestThrottled"})
	queues.Fail("ReceiveMessage",
		sqssim.Fault{Status: 400, Code: "RequestThrottled"}, sqssim.Fault{Status: 400, Code: "ThrottlingException"},
		sqssim.Fault{Drop: true}, sqssim.Fault{Status: 500, Code: "InternalFailure"}, sqssim.Fault{Status: 403, Code: "OverLimit"},
		sqssim.Fault{Status: 200, Body: "<html>captive portal</html>"})
	w := start(t, p, scope)
	queues.Send(queueName, stateOf(t, i1, "stopped"))
	if e := w.next(); e.Gap {
		t.Errorf("a gap of %s: the queue keeps its messages for an hour, and nothing was read before", p.clock.Now().Sub(before))
	}
	// Eight pauses with back-off: at least half of 1+2+4+8+16+32+60+60.
	if waited := p.clock.Now().Sub(before); waited < 80*time.Second {
		t.Errorf("waited %s in all", waited)
	}
	if n := queues.Calls("ReceiveMessage"); n > 9 {
		t.Errorf("%d calls: the SDK tries again on its own", n)
	}
	if len(w.ended) != 0 {
		t.Errorf("ended: %v", <-w.ended)
	}
}

// Nothing is skipped when deleting fails: the message comes again.
func TestWatchDeletionFails(t *testing.T) {
	queues, _ := simulatedQueue(t)
	p := watchProvider(t, Events{QueueName: queueName})
	queues.Fail("DeleteMessageBatch", sqssim.Fault{Status: 500, Code: "InternalFailure"})
	w := start(t, p, scopeOf(t, p))
	queues.Send(queueName, stateOf(t, i1, "stopped"))
	w.next()
	eventually(t, "nothing was deleted", func() bool { return queues.Calls("DeleteMessageBatch") == 1 })
	if queues.Left(queueName) != 1 {
		t.Fatal("the message is gone although its deletion failed")
	}
	queues.Send(queueName, stateOf(t, i2, "stopped"))
	if e := w.next(); e.IDs[0].Name != i2 {
		t.Errorf("told %v", e)
	}
}

// What waiting does not mend is an error that says what to do.
func TestWatchCannotWork(t *testing.T) {
	for name, tc := range map[string]struct {
		events Events
		setup  func(*sqssim.Server)
		want   []string
	}{
		"not configured":        {Events{}, nil, []string{"events are not configured", "123456789012/eu-central-1"}},
		"configured for others": {Events{Queues: map[string]string{"210987654321/eu-central-1": "https://sqs.eu-central-1.amazonaws.com/210987654321/q"}}, nil, []string{"events are not configured"}},
		"no queue":              {Events{QueueName: "other"}, nil, []string{"other", "does not exist", "create it in account 123456789012, region eu-central-1", "docs/events.md"}},
		"look-up forbidden": {Events{QueueName: queueName}, func(s *sqssim.Server) {
			s.Fail("GetQueueUrl", sqssim.Fault{Status: 403, Code: "AccessDeniedException"})
		}, []string{queueName, "allow sqs:GetQueueUrl"}},
		"receiving forbidden": {Events{QueueName: queueName}, func(s *sqssim.Server) {
			s.Fail("ReceiveMessage", sqssim.Fault{Status: 403, Code: "AccessDenied"})
		}, []string{queueName, "sqs:ReceiveMessage", "Holdfast"}},
		"key forbidden": {Events{QueueName: queueName}, func(s *sqssim.Server) {
			s.Fail("ReceiveMessage", sqssim.Fault{Status: 400, Code: "KmsAccessDenied"})
		}, []string{"kms:Decrypt"}},
		"key disabled": {Events{QueueName: queueName}, func(s *sqssim.Server) {
			s.Fail("ReceiveMessage", sqssim.Fault{Status: 400, Code: "KmsDisabled"})
		}, []string{"KmsDisabled", "docs/events.md"}},
		"deleted meanwhile": {Events{QueueName: queueName}, func(s *sqssim.Server) {
			go func() {
				for s.Calls("ReceiveMessage") == 0 {
					time.Sleep(time.Millisecond)
				}
				s.Delete(queueName)
			}()
		}, []string{queueName, "does not exist"}},
		"deleting forbidden": {Events{QueueName: queueName}, func(s *sqssim.Server) {
			s.Fail("DeleteMessageBatch", slices.Repeat([]sqssim.Fault{{Status: 403, Code: "AccessDenied"}}, 10)...)
			s.Send(queueName, slices.Repeat([]string{"{}"}, 100)...)
		}, []string{queueName, "sqs:DeleteMessage"}},
	} {
		t.Run(name, func(t *testing.T) {
			queues, _ := simulatedQueue(t)
			if tc.setup != nil {
				tc.setup(queues)
			}
			p := watchProvider(t, tc.events)
			err := start(t, p, scopeOf(t, p)).end()
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range append(tc.want, "aws/123456789012/eu-central-1") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not say %q", err, want)
				}
			}
			if errors.Is(err, providers.ErrNotWatched) != strings.Contains(tc.want[0], "not configured") {
				t.Errorf("is ErrNotWatched: %v", err)
			}
		})
	}
}

// Where messages may be lost, everything is to be read again: the queue was
// away, or could not be read for longer than it keeps them.
func TestWatchGap(t *testing.T) {
	t.Run("queue made again", func(t *testing.T) {
		queues, _ := simulatedQueue(t)
		queues.Delete(queueName)
		p := watchProvider(t, Events{QueueName: queueName})
		scope := scopeOf(t, p)
		if err := start(t, p, scope).end(); err == nil {
			t.Fatal("no error without a queue")
		}
		queues.Create(queueName, time.Hour)
		w := start(t, p, scope)
		queues.Send(queueName, stateOf(t, i1, "stopped"))
		if e := w.next(); !e.Gap {
			t.Errorf("told %+v before a gap", e)
		}
		if e := w.next(); e.Gap || len(e.IDs) != 1 {
			t.Errorf("told %+v", e)
		}
	})
	outage := slices.Repeat([]sqssim.Fault{{Status: 503, Code: "ServiceUnavailable"}}, 12) // some minutes by the hasty clock
	for name, tc := range map[string]struct {
		retention time.Duration
		unread    bool
		gap       bool
	}{
		"outage longer than the retention":  {retention: 2 * time.Minute, gap: true},
		"outage shorter than the retention": {retention: time.Hour},
		"retention not to be read":          {retention: time.Hour, unread: true, gap: true},
	} {
		t.Run(name, func(t *testing.T) {
			queues, _ := simulatedQueue(t)
			queues.Create(queueName, tc.retention)
			if tc.unread {
				queues.Fail("GetQueueAttributes", sqssim.Fault{Status: 403, Code: "AccessDenied"})
			}
			p := watchProvider(t, Events{QueueName: queueName})
			w := start(t, p, scopeOf(t, p))
			queues.Send(queueName, stateOf(t, i1, "stopped"))
			if e := w.next(); e.Gap {
				t.Fatalf("a gap at the start: %+v", e)
			}
			queues.Fail("ReceiveMessage", outage...)
			eventually(t, "the outage is not over", func() bool {
				return p.Calls()[Call{Service: "SQS", Operation: "ReceiveMessage", Code: "ServiceUnavailable"}] == int64(len(outage))
			})
			queues.Send(queueName, stateOf(t, i2, "stopped"))
			e := w.next()
			if e.Gap != tc.gap {
				t.Errorf("told %+v first; want a gap: %t", e, tc.gap)
			}
		})
	}
}

// Two identities in one account and region are two scopes, and share a queue:
// each is told everything, and whoever stays goes on when the reader leaves.
func TestWatchScopesShareAQueue(t *testing.T) {
	queues, _ := simulatedQueue(t)
	static := staticIdentity("team", "team-key", everywhere())
	p := watchProvider(t, Events{QueueName: queueName}, static, keySecret("capa-system", "team-key", "AKIATEAM"))
	first := scopeOf(t, p)
	second, err := p.Scope(t.Context(), observedCluster("c2", withIdentity(infrav1.ClusterStaticIdentityKind, "team")))
	if err != nil {
		t.Fatal(err)
	}
	if first == second {
		t.Fatal("one scope")
	}
	a := start(t, p, first)
	eventually(t, "nobody reads", func() bool { return queues.Calls("ReceiveMessage") > 0 })
	b := start(t, p, second)
	eventually(t, "the second does not listen", func() bool { return listeners(p) == 2 })
	queues.Send(queueName, stateOf(t, i1, "stopped"))
	for _, w := range []*watch{a, b} {
		if e := w.next(); e.IDs[0].Name != i1 {
			t.Errorf("told %+v", e)
		}
	}
	a.stop()
	if err := a.end(); err != nil {
		t.Fatal(err)
	}
	queues.Send(queueName, stateOf(t, i2, "stopped"))
	if e := b.next(); e.IDs[0].Name != i2 || e.Gap {
		t.Errorf("told %+v", e)
	}
	if n := len(a.events); n != 0 {
		t.Errorf("%d events after the end", n)
	}
}

func listeners(p *Provider) int {
	p.watching.mu.Lock()
	defer p.watching.mu.Unlock()
	n := 0
	for _, q := range p.watching.queues {
		q.mu.Lock()
		n += len(q.listeners)
		q.mu.Unlock()
	}
	return n
}

// A central queue brings the events of several accounts; each watch is told
// those of its own.
func TestWatchCentralQueue(t *testing.T) {
	queues, aws := simulatedQueue(t)
	aws.accounts["AKIATEAM"] = "210987654321"
	central := queues.QueueURL(queueName)
	p := watchProvider(t, Events{Queues: map[string]string{"123456789012/eu-central-1": central, "210987654321/eu-central-1": central}},
		staticIdentity("team", "team-key", everywhere()), keySecret("capa-system", "team-key", "AKIATEAM"))
	first := scopeOf(t, p)
	second, err := p.Scope(t.Context(), observedCluster("c2", withIdentity(infrav1.ClusterStaticIdentityKind, "team")))
	if err != nil {
		t.Fatal(err)
	}
	a, b := start(t, p, first), start(t, p, second)
	eventually(t, "not both listen", func() bool { return listeners(p) == 2 })
	queues.Send(queueName, stateOf(t, i1, "stopped"), strings.Replace(stateOf(t, i2, "stopped"), "123456789012", "210987654321", 1))
	if e := a.next(); e.IDs[0].Name != i1 {
		t.Errorf("the first is told %+v", e)
	}
	if e := b.next(); e.IDs[0].Name != i2 {
		t.Errorf("the second is told %+v", e)
	}
	if len(a.events)+len(b.events) != 0 {
		t.Error("one is told of the other's account")
	}
}

// What a spec declares of an instance may be a volume's or an interface's: the
// last snapshot says whose.
func TestWatchTellsWhereAChangeShows(t *testing.T) {
	queues, aws := simulatedQueue(t)
	aws.on("ec2.DescribeVolumes", func(int, url.Values) (int, string) {
		return http.StatusOK, ec2Answer("DescribeVolumes", "<volumeSet><item><volumeId>vol-0123456789abcdef0</volumeId><attachmentSet><item><instanceId>"+i1+"</instanceId><status>attached</status></item></attachmentSet></item></volumeSet>", "")
	})
	aws.on("ec2.DescribeNetworkInterfaces", func(int, url.Values) (int, string) {
		eni := func(id, index string) string {
			return "<item><networkInterfaceId>" + id + "</networkInterfaceId><attachment><instanceId>" + i2 + "</instanceId><deviceIndex>" + index + "</deviceIndex><status>attached</status></attachment></item>"
		}
		return http.StatusOK, ec2Answer("DescribeNetworkInterfaces", "<networkInterfaceSet>"+eni("eni-0123456789abcdef0", "0")+eni("eni-0123456789abcdef1", "1")+"</networkInterfaceSet>", "")
	})
	aws.on("ec2.DescribeRouteTables", func(int, url.Values) (int, string) {
		return http.StatusOK, ec2Answer("DescribeRouteTables", "<routeTableSet><item><routeTableId>rtb-0123456789abcdef0</routeTableId><associationSet><item><subnetId>subnet-0123456789abcdef0</subnetId></item></associationSet></item></routeTableSet>", "")
	})
	p := watchProvider(t, Events{QueueName: queueName})
	scope := scopeOf(t, p)
	snap, err := p.Observe(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	for kind, err := range snap.Coverage {
		if err != nil {
			t.Fatal(kind, err)
		}
	}
	w := start(t, p, scope)
	for _, tc := range []struct {
		s    sample
		want string
	}{
		{call("ec2", "ModifyVolume", `{"ModifyVolumeRequest":{"VolumeId":"vol-0123456789abcdef0"}}`, "null"), "Volume/vol-0123456789abcdef0 Instance/" + i1},
		{call("ec2", "ModifyNetworkInterfaceAttribute", `{"networkInterfaceId":"eni-0123456789abcdef0"}`, "null"), "NetworkInterface/eni-0123456789abcdef0 Instance/" + i2},
		{call("ec2", "ModifyNetworkInterfaceAttribute", `{"networkInterfaceId":"eni-0123456789abcdef1"}`, "null"), "NetworkInterface/eni-0123456789abcdef1"},
		{call("ec2", "DeleteRoute", `{"routeTableId":"rtb-0123456789abcdef0"}`, "null"), "RouteTable/rtb-0123456789abcdef0 Subnet/subnet-0123456789abcdef0"},
	} {
		queues.Send(queueName, tc.s.body(t))
		if got := strings.Join(idTexts(w.next().IDs), " "); got != tc.want {
			t.Errorf("%s: told %s, want %s", tc.s.what, got, tc.want)
		}
	}
	// A target group that no load balancer of the snapshot has is nobody's here.
	queues.Send(queueName, samples()["health check changed"].body(t), stateOf(t, i1, "stopped"))
	if e := w.next(); e.What != "instance stopped" {
		t.Errorf("told %+v", e)
	}
	if p.EventCounts()[EventNothing] != 1 {
		t.Errorf("counts %v", p.EventCounts())
	}
}

// Own writes are told, and marked.
func TestWatchMarksOwnWrites(t *testing.T) {
	queues, aws := simulatedQueue(t)
	const arn = "arn:aws:iam::123456789012:user/holdfast"
	aws.on("sts.GetCallerIdentity", func(int, url.Values) (int, string) {
		return http.StatusOK, "<GetCallerIdentityResponse><GetCallerIdentityResult><Account>123456789012</Account><Arn>" + arn + "</Arn></GetCallerIdentityResult></GetCallerIdentityResponse>"
	})
	p := watchProvider(t, Events{QueueName: queueName})
	w := start(t, p, scopeOf(t, p))
	own := callBy(`{"type":"IAMUser","arn":"`+arn+`"}`, "ec2", "DeleteTags", `{"resourcesSet":{"items":[{"resourceId":"`+i1+`"}]}}`, "null", arn)
	queues.Send(queueName, strings.Replace(own.body(t), "aws-cli/2.31", "aws-sdk-go-v2/1.48.0 api/ec2#1.347.0 app/holdfast", 1))
	if e := w.next(); !e.Own || e.By != arn {
		t.Errorf("told %+v, want our own", e)
	}
	queues.Send(queueName, own.body(t))
	if e := w.next(); e.Own {
		t.Errorf("told %+v, and another program made it with our key", e)
	}
}

// An event that claims to be of the future must not outlast what comes after.
func TestWatchBelievesNoFuture(t *testing.T) {
	queues, _ := simulatedQueue(t)
	p := watchProvider(t, Events{QueueName: queueName})
	w := start(t, p, scopeOf(t, p))
	queues.Send(queueName, strings.Replace(stateOf(t, i1, "stopped"), "2026-11-30T10:00:00Z", "9999-01-01T00:00:00Z", 1))
	if e := w.next(); e.At.After(p.clock.Now().Add(time.Second)) {
		t.Errorf("happened at %s", e.At)
	}
}

func TestEventsValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		events Events
		want   string
	}{
		"nothing":     {Events{}, ""},
		"name":        {Events{QueueName: "holdfast-events"}, ""},
		"fifo":        {Events{QueueName: "events.fifo"}, "a standard queue"},
		"URL as name": {Events{QueueName: "https://sqs.eu-central-1.amazonaws.com/1/q"}, "queue name"},
		"place":       {Events{Queues: map[string]string{"eu-central-1": "https://x/1/q"}}, "ACCOUNT/REGION"},
		"no URL":      {Events{Queues: map[string]string{"123456789012/eu-central-1": "arn:aws:sqs:eu-central-1:123456789012:q"}}, "no queue URL"},
		"password":    {Events{Queues: map[string]string{"123456789012/eu-central-1": "https://u:hunter2@x/1/q"}}, "no queue URL"},
		"good":        {Events{Queues: map[string]string{"123456789012/eu-central-1": "https://sqs.eu-central-1.amazonaws.com/123456789012/q"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.events.Validate()
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error shows a password: %v", err)
			}
			if _, made := New(newNothing(), WithEvents(tc.events)); (made != nil) != (err != nil) {
				t.Errorf("New says %v", made)
			}
		})
	}
}

func newNothing() client.Reader { return struct{ client.Reader }{} }

func TestQueueRegion(t *testing.T) {
	for address, want := range map[string]string{
		"https://sqs.eu-west-1.amazonaws.com/123456789012/q":       "eu-west-1",
		"https://sqs.cn-north-1.amazonaws.com.cn/123456789012/q":   "cn-north-1",
		"http://127.0.0.1:5000/123456789012/q":                     "here",
		"https://vpce-1-x.sqs.eu-west-1.vpce.amazonaws.com/1234/q": "here",
		"https://sqs.evil.example.com/123456789012/q":              "here",
	} {
		o := optionsIn("here")
		inRegionOf(address)(o)
		if o.Region != want {
			t.Errorf("%s: region %s, want %s", address, o.Region, want)
		}
	}
}

func optionsIn(region string) *sqs.Options { return &sqs.Options{Region: region} }
