package vspherecluster

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/vmware/govmomi/vim25/types"
)

// administrator is the user agent of the package's own calls, which are not
// logged.
const administrator = "vspherecluster-administrator"

// Call is one call to the simulator.
type Call struct {
	// Method is the SOAP method, or verb, path and action for REST.
	Method string
	// Body is the request as sent.
	Body string
}

// Log has the calls of everybody but the administrator, and can make them
// fail.
type Log struct {
	mu    sync.Mutex
	calls []Call
	fail  func(Call, http.ResponseWriter) bool
	lose  func(Call) bool
}

// Calls gives the calls so far.
func (l *Log) Calls() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.calls)
}

// Reset forgets the calls so far.
func (l *Log) Reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = nil
}

// Fail has a function look at each further call first; where it gives true it
// has answered instead of the simulator. nil ends it.
func (l *Log) Fail(f func(Call, http.ResponseWriter) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = f
}

// Lose has a function look at each further call; where it gives true the
// simulator does what it is asked for, and the connection breaks before it has
// answered. nil ends it.
func (l *Log) Lose(f func(Call) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lose = f
}

// reading are the methods that leave the inventory as it is. Views, sessions
// and filters belong to the caller's session and end with it.
var reading = map[string]bool{
	"RetrieveServiceContent": true, "Login": true, "Logout": true, "CurrentTime": true,
	"CreateContainerView": true, "DestroyView": true, "RetrievePropertiesEx": true, "ContinueRetrievePropertiesEx": true,
	"FindByUuid": true, "FindAllByUuid": true,
	"CreatePropertyCollector": true, "DestroyPropertyCollector": true, "CreateFilter": true, "DestroyPropertyFilter": true,
	"WaitForUpdatesEx": true, "CancelWaitForUpdates": true,
	"QueryEvents": true, "CreateCollectorForEvents": true, "SetCollectorPageSize": true, "RewindCollector": true,
	"ReadNextEvents": true, "DestroyCollector": true, "PbmQueryProfile": true,
	"PbmRetrieveServiceContent": true, "PbmQueryAssociatedProfiles": true, "PbmRetrieveContent": true, "PbmCheckRequirements": true,
	"POST /rest/com/vmware/cis/session": true, "DELETE /rest/com/vmware/cis/session": true, "GET /rest/com/vmware/cis/session": true,
	"POST /rest/com/vmware/cis/session?~action=get":                                           true,
	"POST /rest/com/vmware/cis/tagging/tag-association?~action=list-attached-tags-on-objects": true,
	"POST /rest/com/vmware/cis/tagging/tag-association?~action=list-attached-tags":            true,
}

// Mutating gives the calls that are not known to leave the inventory as it
// is.
func (l *Log) Mutating() []string {
	var out []string
	for _, c := range l.Calls() {
		if c.Mutating() {
			out = append(out, c.Method)
		}
	}
	return out
}

// Mutating reports whether the call is not known to leave the inventory as it
// is.
func (c Call) Mutating() bool {
	get := strings.HasPrefix(c.Method, "GET /rest/com/vmware/cis/tagging/") || strings.HasPrefix(c.Method, "GET /about")
	return !reading[c.Method] && !get
}

func (l *Log) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.UserAgent() == administrator {
			next.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		call := Call{Method: methodOf(r, body), Body: string(body)}
		l.mu.Lock()
		l.calls = append(l.calls, call)
		fail, lose := l.fail, l.lose
		l.mu.Unlock()
		if fail != nil && fail(call, w) {
			return
		}
		if call.Mutating() { // it is carried out, whatever becomes of the caller
			r = r.WithContext(context.WithoutCancel(r.Context()))
		}
		if lose != nil && lose(call) {
			next.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
}

// methodOf names a SOAP call by the first element of its body.
func methodOf(r *http.Request, body []byte) string {
	if r.Method == http.MethodPost && bytes.Contains(body, []byte("Envelope")) {
		d := xml.NewDecoder(bytes.NewReader(body))
		inBody := false
		for {
			token, err := d.Token()
			if err != nil {
				break
			}
			start, ok := token.(xml.StartElement)
			switch {
			case !ok:
			case inBody:
				return start.Name.Local
			case start.Name.Local == "Body":
				inBody = true
			}
		}
	}
	name := r.Method + " " + r.URL.Path
	if action := r.URL.Query().Get("~action"); action != "" {
		name += "?~action=" + action
	}
	return name
}

// NotAuthenticated answers a SOAP call as a vCenter does that has forgotten
// the session.
func NotAuthenticated(w http.ResponseWriter) { Fault(w, &types.NotAuthenticated{}) }

// Fault answers a SOAP call with a fault of that type; what the fault holds is
// left out.
func Fault(w http.ResponseWriter, fault types.BaseMethodFault) {
	name := reflect.TypeOf(fault).Elem().Name()
	w.WriteHeader(http.StatusInternalServerError)
	_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?>
<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>
<soapenv:Fault><faultcode>ServerFaultCode</faultcode><faultstring>%[1]s, says the test.</faultstring><detail>
<%[1]sFault xmlns="urn:vim25" xsi:type="%[1]s"></%[1]sFault>
</detail></soapenv:Fault></soapenv:Body></soapenv:Envelope>`, name)
}
