package aws

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// fakeAWS answers AWS's query APIs with what a test says, for failures that no
// simulator makes to order. What a test leaves out is an empty, complete
// answer; callers belong to account 123456789012.
type fakeAWS struct {
	*httptest.Server

	mu      sync.Mutex
	answers map[string]answerFunc
	calls   []fakeCall
	// accounts are the accounts of access keys.
	accounts map[string]string
}

// answerFunc gives the nth answer, counted from 1, to one action.
type answerFunc func(n int, form url.Values) (status int, body string)

type fakeCall struct {
	action string // "ec2.DescribeInstances"
	key    string // the caller's access key
	form   url.Values
}

func newFakeAWS(t testing.TB) *fakeAWS {
	t.Helper()
	f := &fakeAWS{answers: map[string]answerFunc{}, accounts: map[string]string{}}
	f.Server = httptest.NewServer(f)
	t.Cleanup(f.Close)
	isolate(t, f.URL)
	return f
}

func (f *fakeAWS) on(action string, answer answerFunc) { f.answers[action] = answer }

var services = map[string]string{"2016-11-15": "ec2", "2012-06-01": "elb", "2015-12-01": "elbv2", "2011-06-15": "sts"}

var credential = regexp.MustCompile(`Credential=([^/]+)/`)

func (f *fakeAWS) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm() // a form that does not parse has no action
	c := fakeCall{action: services[r.PostForm.Get("Version")] + "." + r.PostForm.Get("Action"), form: r.PostForm}
	if target := r.Header.Get("X-Amz-Target"); target != "" { // KMS speaks JSON
		c.action = "kms." + target[strings.LastIndexByte(target, '.')+1:]
		var in struct{ Marker string }
		_ = json.NewDecoder(r.Body).Decode(&in)
		c.form = url.Values{"Marker": {in.Marker}}
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	}
	if m := credential.FindStringSubmatch(r.Header.Get("Authorization")); m != nil {
		c.key = m[1]
	}
	f.mu.Lock()
	f.calls = append(f.calls, c)
	n := 0
	for _, past := range f.calls {
		if past.action == c.action {
			n++
		}
	}
	answer := f.answers[c.action]
	f.mu.Unlock()
	status, body := http.StatusOK, f.standard(c)
	if answer != nil {
		status, body = answer(n, c.form)
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "text/xml")
	}
	w.WriteHeader(status)
	_, _ = fmt.Fprint(w, body)
}

func (f *fakeAWS) standard(c fakeCall) string {
	_, action, _ := strings.Cut(c.action, ".")
	switch {
	case c.action == "sts.GetCallerIdentity":
		account := f.accounts[c.key]
		if account == "" {
			account = "123456789012"
		}
		return "<GetCallerIdentityResponse><GetCallerIdentityResult><Account>" + account + "</Account></GetCallerIdentityResult></GetCallerIdentityResponse>"
	case c.action == "sts.AssumeRole":
		account := strings.Split(c.form.Get("RoleArn"), ":")[4]
		f.mu.Lock()
		f.accounts["ASIA"+account] = account
		f.mu.Unlock()
		return "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIA" + account + "</AccessKeyId><SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken><Expiration>2100-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"
	case strings.HasPrefix(c.action, "kms."):
		return `{"Aliases":[],"Truncated":false}`
	case strings.HasPrefix(c.action, "ec2."):
		return ec2Answer(action, "", "")
	default:
		return "<" + action + "Response><" + action + "Result/></" + action + "Response>"
	}
}

// ec2Answer makes an EC2 answer.
func ec2Answer(action, body, nextToken string) string {
	if nextToken != "" {
		body += "<nextToken>" + nextToken + "</nextToken>"
	}
	return "<" + action + "Response><requestId>r</requestId>" + body + "</" + action + "Response>"
}

// instanceItems makes a reservation with running instances.
func instanceItems(ids ...string) string {
	var b strings.Builder
	for _, id := range ids {
		b.WriteString("<item><instanceId>" + id + "</instanceId><instanceState><name>running</name></instanceState></item>")
	}
	return "<reservationSet><item><instancesSet>" + b.String() + "</instancesSet></item></reservationSet>"
}

// refuse makes an error answer of EC2's, and of the others' form where a test
// asks for it.
func refuse(code, message string) (int, string) {
	status := http.StatusBadRequest
	if code == "RequestLimitExceeded" || code == "Unavailable" {
		status = http.StatusServiceUnavailable
	}
	return status, "<Response><Errors><Error><Code>" + code + "</Code><Message>" + message + "</Message></Error></Errors><RequestID>r</RequestID></Response>"
}

func refuseQuery(code, message string) (int, string) {
	return http.StatusForbidden, "<ErrorResponse><Error><Type>Sender</Type><Code>" + code + "</Code><Message>" + message + "</Message></Error><RequestId>r</RequestId></ErrorResponse>"
}

// count gives the calls of an action so far.
func (f *fakeAWS) count(action string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, c := range f.calls {
		if c.action == action {
			n++
		}
	}
	return n
}

// of gives the calls of an action.
func (f *fakeAWS) of(action string) []fakeCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []fakeCall
	for _, c := range f.calls {
		if c.action == action {
			out = append(out, c)
		}
	}
	return out
}
