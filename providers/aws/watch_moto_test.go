package aws

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// motoQueue makes the documented queue on moto.
func motoQueue(t *testing.T) (client *sqs.Client, url string) {
	t.Helper()
	isolate(t, motoServer.URL)
	if err := motoServer.Reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client = sqs.NewFromConfig(cfg)
	out, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: ptr(queueName), Attributes: map[string]string{"MessageRetentionPeriod": "3600"}})
	if err != nil {
		t.Fatal(err)
	}
	return client, *out.QueueUrl
}

// eventBridge calls moto's EventBridge, for which this module has no SDK.
func eventBridge(t *testing.T, action string, in any) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, motoServer.URL, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-amz-json-1.1")
	req.Header.Set("X-Amz-Target", "AWSEvents."+action)
	req.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20261130/eu-central-1/events/aws4_request, SignedHeaders=host, Signature=0")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusOK || bytes.Contains(answer, []byte(`"FailedEntryCount": 1`)) {
		t.Fatalf("%s: %s %s", action, resp.Status, answer)
	}
}

// withAccount makes moto hand on whole events, as EventBridge does: without a
// transformer moto leaves the account out.
var withAccount = map[string]any{
	"InputPathsMap": map[string]string{"detail": "$.detail", "detail-type": "$.detail-type", "source": "$.source", "account": "$.account", "region": "$.region", "time": "$.time"},
	"InputTemplate": `{"version": "0", "detail-type": "<detail-type>", "source": "<source>", "account": "<account>", "time": <time>, "region": "<region>", "resources": [], "detail": <detail>}`,
}

// The documented rules, as moto's EventBridge understands them, hand events to
// moto's SQS, and the watch reads them there: every sample of what is
// understood arrives once and as it was meant.
func TestWatchEndToEnd(t *testing.T) {
	motoQueue(t)
	for name, p := range documentedPatterns(t) {
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		eventBridge(t, "PutRule", map[string]any{"Name": name, "EventPattern": string(raw)})
		eventBridge(t, "PutTargets", map[string]any{"Rule": name, "Targets": []any{
			map[string]any{"Id": "holdfast", "Arn": "arn:aws:sqs:eu-central-1:123456789012:" + queueName, "InputTransformer": withAccount},
		}})
	}
	// All is sent before anything is deleted: moto loses what is sent to a
	// queue while it deletes from it.
	var want, got []string
	for _, s := range samples() {
		eventBridge(t, "PutEvents", map[string]any{"Entries": []any{map[string]any{"Source": s.source, "DetailType": s.detailType, "Detail": s.detail}}})
		if s.want() != EventTold {
			continue
		}
		gap := s.gap || len(s.groups) > 0 // nothing was observed: a target group may be anybody's
		want = append(want, fmt.Sprint(s.ids, s.what, s.by, gap))
	}
	p := watchProvider(t, Events{QueueName: queueName})
	w := start(t, p, scopeOf(t, p))
	for range want {
		e := w.next()
		got = append(got, fmt.Sprint(idTexts(e.IDs), e.What, e.By, e.Gap))
	}
	slices.Sort(want)
	slices.Sort(got)
	for i := range want {
		if want[i] != got[i] {
			t.Errorf("want %s\n got %s", want[i], got[i])
		}
	}
	if counts := p.EventCounts(); counts[EventMalformed]+counts[EventElsewhere]+counts[EventFailed]+counts[EventUnknown] != 0 {
		t.Errorf("counts %v: the rules let through what is thrown away", counts)
	}
}

// Real SQS, as moto understands it: several batches, deletion, a queue that is
// deleted under the watch, and one that never was.
func TestWatchMoto(t *testing.T) {
	client, url := motoQueue(t)
	p := watchProvider(t, Events{QueueName: queueName})
	scope := scopeOf(t, p)
	want := map[string]bool{}
	for i := range 35 {
		id := fmt.Sprintf("i-0123456789abc%04x", i)
		want[id] = true
		if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &url, MessageBody: ptr(stateOf(t, id, "stopped"))}); err != nil {
			t.Fatal(err)
		}
	}
	w := start(t, p, scope)
	for len(want) > 0 {
		e := w.next()
		delete(want, e.IDs[0].Name)
	}
	eventually(t, "messages are left", func() bool {
		out, err := client.GetQueueAttributes(t.Context(), &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []sqstypes.QueueAttributeName{"All"}})
		return err == nil && out.Attributes["ApproximateNumberOfMessages"] == "0" && out.Attributes["ApproximateNumberOfMessagesNotVisible"] == "0"
	})
	if _, err := client.DeleteQueue(t.Context(), &sqs.DeleteQueueInput{QueueUrl: &url}); err != nil {
		t.Fatal(err)
	}
	if err := w.end(); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("the queue is gone, and the watch says %v", err)
	}
	if err := start(t, p, scope).end(); err == nil || !strings.Contains(err.Error(), "create it in account") {
		t.Errorf("there is no queue, and the watch says %v", err)
	}
	central := watchProvider(t, Events{Queues: map[string]string{"123456789012/eu-central-1": url}})
	if err := start(t, central, scopeOf(t, central)).end(); err == nil || !strings.Contains(err.Error(), url) {
		t.Errorf("there is no queue at its URL, and the watch says %v", err)
	}
}
