// Package sqssim is an in-process stand-in for Amazon SQS's standard queues,
// enough of them to watch one: look-up, attributes, long polling, visibility
// time-outs, deletion in batches and retention, in the JSON protocol that the
// SDKs speak.
//
// It serves what moto's SQS, the yardstick of the same tests, cannot be made to
// do: faults to order, and a demo without Python. It promises no order and
// gives a message out again when it was not deleted in time, as SQS does.
package sqssim

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Options configure a [Server].
type Options struct {
	// Account of the queues; empty means 123456789012.
	Account string
	// Clock tells all times; nil is the real clock.
	Clock clock.Clock
}

// Server holds queues. It is safe for concurrent use. Call Close.
type Server struct {
	options Options
	clock   clock.Clock
	http    *httptest.Server
	closed  chan struct{}
	once    sync.Once

	mu     sync.Mutex
	queues map[string]*queue
	faults map[string][]Fault
	calls  map[string]int
	serial int
	// changed is closed and replaced whenever a message may have come up.
	changed chan struct{}
}

type queue struct {
	retention time.Duration
	messages  []*message
}

type message struct {
	id, body, receipt string
	sent, visible     time.Time
	received          int
}

// Fault is one answer in place of the real one.
type Fault struct {
	// Status and Code of the error; Code is without its namespace.
	Status int
	Code   string
	// Drop closes the connection instead.
	Drop bool
	// Body, if set, is answered with the status as it is.
	Body string
}

// New starts a server on a free port of the loopback interface.
func New(options Options) *Server {
	if options.Account == "" {
		options.Account = "123456789012"
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	s := &Server{
		options: options, clock: options.Clock, closed: make(chan struct{}), changed: make(chan struct{}),
		queues: map[string]*queue{}, faults: map[string][]Fault{}, calls: map[string]int{},
	}
	s.http = httptest.NewServer(s)
	return s
}

// Close ends long polls and the listener. It may be called more than once.
func (s *Server) Close() {
	s.once.Do(func() {
		close(s.closed)
		s.http.CloseClientConnections()
		s.http.Close()
	})
}

// URL is the endpoint, as AWS_ENDPOINT_URL_SQS wants it.
func (s *Server) URL() string { return s.http.URL }

// QueueURL is that of a queue, whether it exists or not.
func (s *Server) QueueURL(name string) string { return s.URL() + "/" + s.options.Account + "/" + name }

// Create makes a queue, empty where it existed.
func (s *Server) Create(name string, retention time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queues[name] = &queue{retention: retention}
	s.wake()
}

// Delete removes a queue with all that is in it.
func (s *Server) Delete(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.queues, name)
	s.wake()
}

// Send puts messages into a queue that exists.
func (s *Server) Send(name string, bodies ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[name]
	if q == nil {
		panic("sqssim: no queue " + name)
	}
	for _, body := range bodies {
		s.serial++
		now := s.clock.Now()
		q.messages = append(q.messages, &message{id: fmt.Sprintf("00000000-0000-4000-8000-%012x", s.serial), body: body, sent: now, visible: now})
	}
	s.wake()
}

// Left is how many messages were neither deleted nor expired.
func (s *Server) Left(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := s.queues[name]
	if q == nil {
		return 0
	}
	q.expire(s.clock.Now())
	return len(q.messages)
}

// Fail answers the next calls of an action, "ReceiveMessage", with faults.
func (s *Server) Fail(action string, faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults[action] = append(s.faults[action], faults...)
	s.wake()
}

// Calls counts the calls of an action so far.
func (s *Server) Calls(action string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[action]
}

func (s *Server) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (q *queue) expire(now time.Time) {
	kept := q.messages[:0]
	for _, m := range q.messages {
		if now.Sub(m.sent) < q.retention {
			kept = append(kept, m)
		}
	}
	q.messages = kept
}

// problem is an error answer.
type problem struct {
	status        int
	code, message string
}

func noQueue() *problem {
	return &problem{http.StatusBadRequest, "QueueDoesNotExist", "The specified queue does not exist."}
}

// ServeHTTP serves the JSON protocol (Amazon SQS developer guide, "Making
// query API requests using AWS JSON protocol").
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	action := strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "AmazonSQS.")
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 2<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	out, failed := s.serve(r, action, body)
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	if failed == nil {
		_ = json.NewEncoder(w).Encode(out)
		return
	}
	if failed.code == "" {
		w.WriteHeader(failed.status)
		_, _ = io.WriteString(w, failed.message)
		return
	}
	w.WriteHeader(failed.status)
	_ = json.NewEncoder(w).Encode(map[string]string{"__type": "com.amazonaws.sqs#" + failed.code, "message": failed.message})
}

type input struct {
	QueueName, QueueURL string
	Max, Wait           int
	Visibility          *int
	Entries             []struct {
		ID            string `json:"Id"`
		ReceiptHandle string
	}
	MessageBody string
}

// UnmarshalJSON gives the members the names of the API.
func (in *input) UnmarshalJSON(b []byte) error {
	var raw struct {
		QueueName           string
		QueueURL            string `json:"QueueUrl"`
		MaxNumberOfMessages *int
		WaitTimeSeconds     int
		VisibilityTimeout   *int
		MessageBody         string
		Entries             []struct {
			ID            string `json:"Id"`
			ReceiptHandle string
		}
	}
	if err := json.Unmarshal(b, &raw); err != nil {
		return err
	}
	*in = input{QueueName: raw.QueueName, QueueURL: raw.QueueURL, Max: 1, Wait: raw.WaitTimeSeconds, Visibility: raw.VisibilityTimeout, MessageBody: raw.MessageBody}
	if raw.MaxNumberOfMessages != nil {
		in.Max = *raw.MaxNumberOfMessages
	}
	in.Entries = raw.Entries
	return nil
}

func (s *Server) serve(r *http.Request, action string, body []byte) (any, *problem) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls[action]++
	if failed := s.fault(action); failed != nil {
		return nil, failed
	}
	var in input
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, &problem{http.StatusBadRequest, "SerializationException", err.Error()}
	}
	name := in.QueueName
	if name == "" {
		name = path.Base(in.QueueURL)
	}
	q := s.queues[name]
	if q == nil {
		return nil, noQueue()
	}
	switch action {
	case "GetQueueUrl":
		return map[string]string{"QueueUrl": s.QueueURL(name)}, nil
	case "GetQueueAttributes":
		return map[string]any{"Attributes": map[string]string{"MessageRetentionPeriod": strconv.Itoa(int(q.retention / time.Second))}}, nil
	case "SendMessage":
		s.mu.Unlock()
		s.Send(name, in.MessageBody)
		s.mu.Lock()
		return map[string]string{"MD5OfMessageBody": sum(in.MessageBody), "MessageId": strconv.Itoa(s.serial)}, nil
	case "ReceiveMessage":
		return s.receive(r, name, &in)
	case "DeleteMessageBatch":
		return q.remove(&in), nil
	}
	return nil, &problem{http.StatusBadRequest, "UnsupportedOperation", "The action " + action + " is not modelled."}
}

// fault takes the next fault of an action. The caller holds the lock.
func (s *Server) fault(action string) *problem {
	next := s.faults[action]
	if len(next) == 0 {
		return nil
	}
	s.faults[action] = next[1:]
	switch f := next[0]; {
	case f.Drop:
		panic(http.ErrAbortHandler)
	case f.Body != "":
		return &problem{status: f.Status, message: f.Body}
	default:
		return &problem{f.Status, f.Code, "By the test's order."}
	}
}

// receive waits for messages without the lock, which the caller holds.
func (s *Server) receive(r *http.Request, name string, in *input) (any, *problem) {
	timeout := s.clock.NewTimer(time.Duration(in.Wait) * time.Second)
	defer timeout.Stop()
	for {
		q := s.queues[name]
		if q == nil {
			return nil, noQueue()
		}
		if failed := s.fault("ReceiveMessage"); failed != nil {
			return nil, failed
		}
		if out := s.take(q, in); len(out) > 0 || in.Wait == 0 {
			return map[string]any{"Messages": out}, nil
		}
		changed := s.changed
		s.mu.Unlock()
		over := false
		select {
		case <-changed:
		case <-timeout.C():
			over = true
		case <-r.Context().Done():
			over = true
		case <-s.closed:
			over = true
		}
		s.mu.Lock()
		if over {
			in.Wait = 0
		}
	}
}

func (s *Server) take(q *queue, in *input) []any {
	now := s.clock.Now()
	q.expire(now)
	hide := 30
	if in.Visibility != nil {
		hide = *in.Visibility
	}
	out := []any{}
	for _, m := range q.messages {
		if len(out) == in.Max {
			break
		}
		if m.visible.After(now) {
			continue
		}
		m.received++
		s.serial++
		m.receipt = strconv.Itoa(s.serial)
		m.visible = now.Add(time.Duration(hide) * time.Second)
		out = append(out, map[string]any{
			"MessageId": m.id, "ReceiptHandle": m.receipt, "Body": m.body, "MD5OfBody": sum(m.body),
			"Attributes": map[string]string{"SentTimestamp": strconv.FormatInt(m.sent.UnixMilli(), 10), "ApproximateReceiveCount": strconv.Itoa(m.received)},
		})
	}
	return out
}

func (q *queue) remove(in *input) any {
	good := []map[string]string{}
	for _, e := range in.Entries {
		for i, m := range q.messages {
			if m.receipt == e.ReceiptHandle {
				q.messages = append(q.messages[:i], q.messages[i+1:]...)
				break
			}
		}
		good = append(good, map[string]string{"Id": e.ID}) // of what is gone, too
	}
	return map[string]any{"Successful": good, "Failed": []any{}}
}

func sum(body string) string {
	h := md5.Sum([]byte(body))
	return hex.EncodeToString(h[:])
}
