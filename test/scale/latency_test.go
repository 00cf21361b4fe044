package scale

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/moto"
	"github.com/holdfast-io/holdfast/test/running"
	"github.com/holdfast-io/holdfast/test/sqssim"
)

const queueName = "holdfast-events"

// motoQueue makes a queue on moto, and gives what puts the simulator's events
// into it, in order, as a rule of EventBridge does.
func motoQueue(t testing.TB) (onEvent func(ec2sim.Event), environ map[string]string) {
	t.Helper()
	server, err := moto.Start(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	queues := sqs.NewFromConfig(aws.Config{Region: "eu-central-1", BaseEndpoint: aws.String(server.URL),
		Credentials: credentials.NewStaticCredentialsProvider("AKIAEXAMPLEEXAMPLE00", "example", "")})
	made, err := queues.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(queueName), Attributes: map[string]string{"MessageRetentionPeriod": "3600"}})
	if err != nil {
		t.Fatal(err)
	}
	events, ended := make(chan ec2sim.Event, 100_000), make(chan struct{})
	go func() {
		defer close(ended)
		for e := range events {
			if _, err := queues.SendMessage(context.Background(), &sqs.SendMessageInput{QueueUrl: made.QueueUrl, MessageBody: aws.String(e.Body)}); err != nil {
				t.Errorf("send an event to moto: %v", err)
			}
		}
	}()
	t.Cleanup(func() {
		close(events)
		<-ended
	})
	return func(e ec2sim.Event) { events <- e }, map[string]string{"AWS_ENDPOINT_URL_SQS": server.URL}
}

// simQueue is a queue on sqssim. moto loses what is sent to a queue while
// something is deleted from it, which is all the time where there are many events.
func simQueue(t testing.TB) (onEvent func(ec2sim.Event), environ map[string]string) {
	t.Helper()
	queues := sqssim.New(sqssim.Options{})
	t.Cleanup(queues.Close)
	queues.Create(queueName, time.Hour)
	return func(e ec2sim.Event) { queues.Send(queueName, e.Body) }, map[string]string{"AWS_ENDPOINT_URL_SQS": queues.URL()}
}

// conditions keeps when each Machine's condition came to say what, as a watch
// of the API server tells.
type conditions struct {
	mu      sync.Mutex
	at      map[string]time.Time // by NAMESPACE/NAME and status
	last    map[string]string    // by NAMESPACE/NAME, for a failed test
	changed chan struct{}
}

func watchConditions(t testing.TB, c client.WithWatch) *conditions {
	t.Helper()
	out := &conditions{at: map[string]time.Time{}, last: map[string]string{}, changed: make(chan struct{})}
	w, err := c.Watch(t.Context(), &clusterv1.MachineList{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	go func() {
		last := map[string]metav1.ConditionStatus{}
		for e := range w.ResultChan() {
			m, ok := e.Object.(*clusterv1.Machine)
			if !ok || e.Type == watch.Deleted {
				continue
			}
			now := meta.FindStatusCondition(m.Status.Conditions, driftv1.ConditionDriftDetected)
			key := m.Namespace + "/" + m.Name
			if now == nil || now.Status == last[key] {
				continue
			}
			last[key] = now.Status
			out.mu.Lock()
			out.at[key+" "+string(now.Status)] = time.Now()
			out.last[key] = fmt.Sprintf("%s (%s): %s", now.Status, now.Reason, now.Message)
			close(out.changed)
			out.changed = make(chan struct{})
			out.mu.Unlock()
		}
	}()
	return out
}

// of gives when a Machine's condition last came to a status, if ever.
func (c *conditions) of(m *clusterv1.Machine, status metav1.ConditionStatus) (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at, told := c.at[m.Namespace+"/"+m.Name+" "+string(status)]
	return at, told
}

// since waits until a Machine's condition has come to a status after a moment,
// and says how long after it.
func (c *conditions) since(ctx context.Context, m *clusterv1.Machine, status metav1.ConditionStatus, from time.Time) (time.Duration, error) {
	for {
		c.mu.Lock()
		changed := c.changed
		c.mu.Unlock()
		at, _ := c.of(m, status)
		if at.After(from) {
			return at.Sub(from), nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			c.mu.Lock()
			last := c.last[m.Namespace+"/"+m.Name]
			c.mu.Unlock()
			return 0, fmt.Errorf("machine %s has not come to %s after %s, but to %s: %w", m.Name, status, time.Since(from).Round(time.Second), last, context.Cause(ctx))
		}
	}
}

// watched is a fleet whose events reach the program by a queue.
func watched(t testing.TB, queue func(testing.TB) (func(ec2sim.Event), map[string]string), clusters int, each int32) (*world, *running.Daemon) {
	t.Helper()
	onEvent, environ := queue(t)
	var ready atomic.Bool
	w := newWorld(t, func(e ec2sim.Event) {
		if ready.Load() { // the building of the fleet is nobody's news
			onEvent(e)
		}
	})
	for i := range clusters {
		w.build(t, fmt.Sprintf("c-%02d", i), each)
	}
	ready.Store(true)
	for key, value := range w.environ() {
		environ[key] = value
	}
	d := running.Start(t, running.Options{Kubeconfig: w.api.Kubeconfig, Environ: environ, Policy: quiet(0, "observe"), Args: []string{"--aws-event-queue", queueName}})
	w.inSync(t)
	return w, d
}

// machine is the nth worker of a cluster.
func (w *world) machine(cluster, n int) (m *clusterv1.Machine, instance string) {
	e := w.envs[cluster]
	at := slices.IndexFunc(e.Machines, func(m *clusterv1.Machine) bool {
		return m.Labels[clusterv1.MachineDeploymentNameLabel] == e.Cluster.Name+"-general"
	})
	return e.Machines[at+n], *e.AWSMachines[at+n].Spec.InstanceID
}

const patience = time.Minute

// A tag that changes is on the Machine's condition because of the event alone:
// nothing else has the cloud read.
func TestEventReachesTheCondition(t *testing.T) {
	w, d := watched(t, motoQueue, 2, 10)
	seen := watchConditions(t, w.client)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m, id := w.machine(1, 2)
	other, _ := w.machine(0, 2)
	for _, step := range []struct {
		value string
		want  metav1.ConditionStatus
	}{{"", metav1.ConditionTrue}, {"general", metav1.ConditionFalse}} {
		reads := d.Reads(t, "Event")
		w.retag(t, id, "Pool", step.value)
		took, err := seen.since(ctx, m, step.want, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s after %s", step.want, took.Round(time.Millisecond))
		if d.Reads(t, "Event") <= reads {
			t.Error("no event was what had the machine read")
		}
	}
	for _, cause := range []string{"Schedule", "Requested", "PolicyChanged", "Retry"} {
		if n := d.Reads(t, cause); n > 0 {
			t.Errorf("%d reads because of %s", n, cause)
		}
	}
	if _, told := seen.of(other, metav1.ConditionTrue); told {
		t.Errorf("%s of another cluster is said to drift", other.Name)
	}
}

// percentiles sorts times and gives the middle one and the one that only a
// hundredth exceeds.
func percentiles(lags []time.Duration) (p50, p99 time.Duration) {
	slices.Sort(lags)
	return lags[len(lags)/2], lags[min(len(lags)-1, len(lags)*99/100)]
}

// BenchmarkEventToConditionAWS takes the time from a call that changes an
// instance until a watch of the API server shows the condition, among a thousand
// machines in ten clusters, with a few changes a second.
func BenchmarkEventToConditionAWS(b *testing.B) {
	const clusters, each, changes = 10, 100, 200
	var lags []time.Duration
	for b.Loop() {
		w, _ := watched(b, simQueue, clusters, each)
		seen := watchConditions(b, w.client)
		lags = make([]time.Duration, changes)
		ctx, cancel := context.WithTimeout(b.Context(), 10*time.Minute)
		var group sync.WaitGroup
		for i := range changes {
			m, id := w.machine(i%clusters, i/clusters)
			w.retag(b, id, "Pool", "")
			at := time.Now()
			group.Go(func() {
				var err error
				if lags[i], err = seen.since(ctx, m, metav1.ConditionTrue, at); err != nil {
					b.Error(err)
				}
			})
			time.Sleep(200 * time.Millisecond)
		}
		group.Wait()
		cancel()
	}
	p50, p99 := percentiles(lags)
	b.ReportMetric(p50.Seconds(), "p50-s")
	b.ReportMetric(p99.Seconds(), "p99-s")
}
