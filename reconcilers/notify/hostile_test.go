package notify

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/nicholas-fedor/shoutrrr/pkg/router"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/detector"
	"github.com/holdfast-io/holdfast/policies"
	"github.com/holdfast-io/holdfast/providers"
)

// slackHook stands for hooks.slack.com: shoutrrr sends nowhere else.
type slackHook struct {
	mu     sync.Mutex
	paths  []string
	bodies []string
	answer string
}

func newSlackHook(t *testing.T) *slackHook {
	t.Helper()
	h := &slackHook{answer: "ok"}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.paths = append(h.paths, r.Host+r.URL.Path)
		h.bodies = append(h.bodies, string(body))
		_, _ = io.WriteString(w, h.answer)
	}))
	before := http.DefaultTransport
	there := &http.Transport{DialTLSContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		d := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true}}
		return d.DialContext(ctx, network, server.Listener.Addr().String())
	}}
	http.DefaultTransport = there
	t.Cleanup(func() {
		http.DefaultTransport = before
		there.CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
	})
	return h
}

const slackURL = "slack://hook:TCANARY01-BCANARY02-canarycanarycanarycanary@webhook"

// texts are all that Slack would show.
func (h *slackHook) texts(t *testing.T) string {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for _, body := range h.bodies {
		var m struct {
			Text        string
			Attachments []struct{ Text, Title, Fallback string }
		}
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			t.Fatal(err)
		}
		out = append(out, m.Text)
		for _, a := range m.Attachments {
			out = append(out, a.Title, a.Text, a.Fallback)
		}
	}
	return strings.Join(out, "\n")
}

func (h *slackHook) requests() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.bodies)
}

func TestSlack(t *testing.T) {
	h := newSlackHook(t)
	w := newWorld(t, routeTo(t, slackURL))
	w.consume(swept())
	w.consume(swept(drift("a")))
	w.until("nothing was sent", func() bool { return h.requests() == 1 })
	if h.paths[0] != "hooks.slack.com/services/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" {
		t.Errorf("sent to %s", h.paths[0])
	}
	want := "Holdfast: `prod/eu-1`: 1 new finding (1 high)\n" +
		"high: AWSMachine `a`, Instance `i-a`: `/instanceType` is `m5.xlarge`, wanted `m5.large`; replace"
	var got []string
	for _, line := range strings.Split(h.texts(t), "\n") {
		if line != "" {
			got = append(got, line)
		}
	}
	if s := strings.Join(got, "\n"); s != want {
		t.Errorf("got\n%s\nwant\n%s", s, want)
	}
	h.mu.Lock()
	h.answer = "invalid_token"
	h.mu.Unlock()
	w.consume(swept(drift("a"), drift("b")))
	w.until("the refusal is not noticed", func() bool { return w.count(outcomeRetried) > 0 })
	h.mu.Lock()
	h.answer = "ok"
	h.mu.Unlock()
	w.until("not sent", func() bool { return w.count(outcomeSent) == 2 })
}

// payloads are what somebody could put into a tag, a name or a user's name.
func hostilePayloads() []string {
	base := []string{
		"<!channel> all", "<!here|x>", "<!everyone>", "<@U012AB3CD>", "<#C024BE7LR>", "<!subteam^S1>", "<http://evil.example.com|Approve>",
		"@channel", "@here", "@everyone", "@all", "@room", "@**all**", "@U1", "<@&1234>", "<users/all>", `<at user_id="all">x</at>`,
		"http://evil.example.com/x", "HTTPS://EVIL.EXAMPLE.COM", "www.evil.com", "evil.com", "evil.co.uk/x", "mailto:a@evil.com", "ftp://x/y", "slack://x",
		"[Approve](http://evil.example.com)", "![x](http://evil.example.com/p.png)", "[x]: http://evil.com", "`code` out", "``` block", "`<!channel>`",
		"*bold* _it_ ~s~", "# heading", "#general", "> quote", "| a | b |", "~town-square",
		"line\nHoldfast: prod/eu-1: 0 findings", "cr\rhidden", "\x1b[31mred\x1b[0m", "\x07bell", "nul\x00", "\u202egnp.exe", "\u200bzero\u200dwidth", "\u2028sep", "\xff\xfe", "\U000e0041tag",
		"<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "{{.Title}}", "${jndi:ldap://evil.com/a}", "%s%n", "=cmd()", "&lt;!channel&gt;", "&amp;",
		strings.Repeat("a", 5000), strings.Repeat("@channel ", 500), strings.Repeat("`", 300), strings.Repeat("z\u0351", 300),
	}
	var out []string
	for _, a := range base {
		out = append(out, a, "x "+a+" y", strings.ToUpper(a), a+a)
	}
	return out
}

// hostileBatch has the payload in every text that a cloud or a person may set.
func hostileBatch(p string) *batch {
	b := newBatch(detector.ClusterRef{Namespace: p, Name: p})
	n := &news{
		about: AboutDrift, key: "1", severity: policies.High, mode: policies.ModeObserve, owner: providers.OwnerRef{Kind: "AWSMachine", Name: p},
		resource: detector.ResourceRef{Kind: "Instance", ID: p, Name: p}, status: detector.Drifted, reason: p, follows: "reported only", by: p,
		diffs: []difference{{path: "/tags/" + p, want: p, have: p}, {path: p, have: p}, {path: p, want: p}},
	}
	b.add(n)
	missing := *n
	missing.key, missing.status, missing.diffs = "2", detector.Missing, nil
	b.add(&missing)
	gone := *n
	gone.key, gone.about = "3", AboutResolved
	b.add(&gone)
	act := *n
	act.about, act.phase, act.message, act.follows, act.action = AboutRemediation, v1alpha1.PhaseLatched, p, p, "replace"
	b.add(&act)
	return b
}

var (
	mention = regexp.MustCompile(`(?i)@[\pL\pN*]|<[!@#a-z/]`)
	link    = regexp.MustCompile(`(?i)[a-z]://|\bwww\.[a-z]|\]\(|mailto:|evil\.co|example\.com`)
	control = regexp.MustCompile(`[\x00-\x09\x0b-\x1f\x7f\x{202a}-\x{202e}\x{2028}\x{2029}\x{200d}]`)
)

type dialectKind struct {
	max                           int
	title, exact, spans, entities bool
}

// No text mentions anybody, becomes a link, forges a line or steers what shows
// it, in any service.
func TestHostileText(t *testing.T) {
	payloads := hostilePayloads()
	if len(payloads) < 200 {
		t.Fatalf("only %d payloads", len(payloads))
	}
	seen := map[dialectKind]bool{}
	for name, d := range dialects {
		t.Run(name, func(t *testing.T) {
			some := payloads
			if like := (dialectKind{d.max, d.title, d.exact, d.spans, d.entities}); seen[like] {
				return
			} else if seen[like] = true; d.max < maxLength {
				some = payloads[len(payloads)-24:] // of the short ones the long texts
			}
			for _, p := range some {
				b := hostileBatch(p)
				m := d.message(b, d.max)
				all := m.title + "\n" + m.body
				if !utf8.ValidString(all) || control.MatchString(all) {
					t.Errorf("%.60q: control characters in %.300q", p, all)
				}
				// A line for each piece of news, and one for the title.
				if got := strings.Count(m.body, "\n") + 1; got > 6 {
					t.Errorf("%.60q: forges lines: %q", p, m.body)
				}
				if n := utf8.RuneCountInString(m.body); n > d.max {
					t.Errorf("%.60q: %d characters, more than %d", p, n, d.max)
				}
				if d.exact {
					continue
				}
				if d.spans && strings.Count(all, "`")%2 != 0 {
					t.Errorf("%.60q: a span is open: %q", p, all)
				}
				if found := mention.FindString(all); found != "" {
					t.Errorf("%.60q: mentions by %q in %.300q", p, found, all)
				}
				if found := link.FindString(all); found != "" {
					t.Errorf("%.60q: links by %q in %.300q", p, found, all)
				}
			}
		})
	}
}

// The same through the whole of it, to a server that stands for Slack.
func TestHostileTextInSlack(t *testing.T) {
	h := newSlackHook(t)
	w := newWorld(t, routeTo(t, slackURL))
	o := swept(drift("a", func(d *policies.Decision) {
		d.Finding.Resource.ID = "<!channel>"
		d.Finding.Diffs[0].Have = providers.String("<http://evil.example.com|Approve> @here")
	}))
	o.ChangedBy = map[providers.ID]string{{Kind: "Instance", Name: "<!channel>"}: "<@U012AB3CD>"}
	w.consume(o)
	w.until("nothing was sent", func() bool { return h.requests() == 1 })
	text := h.texts(t)
	if strings.ContainsAny(text, "<>") || mention.MatchString(text) || link.MatchString(text) {
		t.Errorf("Slack is told %q", text)
	}
	if !strings.Contains(text, "&lt;!channel&gt;") {
		t.Errorf("the id is not legible: %q", text)
	}
}

// Plain values stay as they are, so that they can be read and copied.
func TestPlainTextStays(t *testing.T) {
	slack := dialects["slack"]
	for _, plain := range []string{"m5.large", "c7g.16xlarge", "i4i.metal-24xl", "i-0123456789abcdef0", "10.0.0.0/16", "2001:db8::/32", "/rootVolume/size", "80", "sg-1, sg-2", "1.2.3.4", "v1.34.2", "prod/eu-1", "arn:aws:sts::123456789012:assumed-role/Admin/alice"} {
		if got := slack.value(plain, maxReason); got != "`"+plain+"`" {
			t.Errorf("%q became %q", plain, got)
		}
	}
	generic := dialects["generic"]
	if got := generic.value("nodes.cluster-api-provider-aws.sigs.k8s.io @x <y>", maxReason); got != "nodes.cluster-api-provider-aws.sigs.k8s.io @x <y>" {
		t.Errorf("a program gets %q", got)
	}
}

// Each service that shoutrrr has is known here, or refused.
func TestDialectsAreComplete(t *testing.T) {
	for _, name := range (&router.ServiceRouter{}).ListServices() {
		if _, known := dialects[name]; !known && name != "logger" {
			t.Errorf("how %s reads a message is not known", name)
		}
	}
}

// loopbackOnly keeps a test from reaching the services themselves.
func loopbackOnly(t *testing.T) {
	before := http.DefaultTransport
	local := &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		if !strings.HasPrefix(address, "127.0.0.1:") {
			return nil, errors.New("this test stays on the machine")
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	http.DefaultTransport = local
	t.Cleanup(func() { http.DefaultTransport = before; local.CloseIdleConnections() })
}

// What may go wrong with a URL is said without the URL, whatever is quoted of
// it, in errors and in logs.
func TestURLsAreNeverShown(t *testing.T) {
	const canary = "canary"
	loopbackOnly(t)
	refused := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Error(w, r.URL.String(), http.StatusForbidden) }))
	defer refused.Close()
	closed := httptest.NewServer(nil)
	closed.Close()
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	for _, raw := range []string{
		"generic+" + refused.URL + "/canary/path?token=canaryToken",
		"generic+" + closed.URL + "/canary/path?token=canaryToken&@auth=canaryHeader",
		"generic+http://canary:canaryPassword@127.0.0.1:1/x",
		"generic+http://127.0.0.1:1/%63anary canary", "generic+http://127.0.0.1:1/canary%zz",
		"slack://hook:canary@webhook", "slack://canary", "discord://canaryToken@canaryID", "telegram://canary@telegram?chats=canary", "telegram://canary:x@telegram",
		"teams://canary@canary/canary/canary?host=canary", "smtp://canary:canaryPassword@127.0.0.1:1/?from=canary@x&to=canary@x",
		"gotify://127.0.0.1:1/canaryToken?disabletls=yes", "ntfy://canary:canaryPw@127.0.0.1:1/canary?scheme=http", "pushover://shoutrrr:canary@canary/",
		"matrix://canary:canaryPw@127.0.0.1:1/?disableTLS=yes", "mattermost://canary@127.0.0.1:1/canaryToken?disabletls=yes", "rocketchat://canary@127.0.0.1:1/canary/canary",
		"zulip://canary:canary@127.0.0.1:1/?stream=canary", "opsgenie://127.0.0.1:1/canary", "pagerduty://127.0.0.1:1/canary", "ifttt://canary/?events=canary",
		"logger://canary", "unknown://canary", "https://hooks.slack.com/services/canary", "canary", "http://canary", ":canary://", "slack://%zzcanary", "",
	} {
		t.Run(strings.NewReplacer(canary, "…", "/", "_").Replace(raw), func(t *testing.T) {
			var log strings.Builder
			ctx := logr.NewContext(t.Context(), funcr.New(func(prefix, args string) { log.WriteString(prefix + args + "\n") }, funcr.Options{Verbosity: 10}))
			r := newRoute(routeTo(t, raw), clocktesting.NewFakeClock(start), nil)
			err := r.send(ctx, hostileBatch("x"))
			if err == nil {
				t.Skip("the service takes it")
			}
			done, cancel := context.WithCancel(ctx)
			cancel()
			n := &Notifier{routes: []*route{r}, state: newState(start)}
			_ = n.Start(done)
			r.add(outcomeDead)
			logr.FromContextOrDiscard(ctx).Error(err, "Gave up a notification")
			shown := err.Error() + log.String() + fmt.Sprintf("%v %+v %#v", errors.Unwrap(err), r.URL, r.URL)
			if strings.Contains(strings.ToLower(shown), canary) {
				t.Errorf("shown: %s", shown)
			}
		})
	}
	a, err := parseAddress(slackURL, "test")
	if err != nil {
		t.Fatal(err)
	}
	if s := fmt.Sprintf("%v %+v %#v %s", a, a, a, a); strings.Contains(strings.ToLower(s), canary) {
		t.Errorf("an address shows itself: %s", s)
	}
}

// Sensitive fields show neither value, and credentials in a value's URL are
// redacted even for programs.
func TestSecretsInValues(t *testing.T) {
	h := newHook(t)
	w := newWorld(t, routeTo(t, h.url("?template=json")))
	w.consume(swept(drift("a", func(d *policies.Decision) {
		d.Finding.Diffs = []detector.Diff{
			{Path: "/userData", Want: providers.String("canary-want"), Have: providers.String("canary-have"), Sensitive: true},
			{Path: "/tags/proxy", Want: providers.String("http://u:canary@proxy:3128"), Have: providers.String("x")},
		}
	})))
	w.until("nothing was sent", func() bool { return len(h.seen()) == 1 })
	if body := h.seen()[0]; strings.Contains(body, "canary") || !strings.Contains(body, "/userData differs") {
		t.Errorf("told %s", body)
	}
}
