package ec2sim

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const maxBody = 4 << 20

// ServeHTTP serves every service; see [Server.URL].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		http.Error(w, "read request: "+err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	answer := s.answer(r, body)
	s.handOn()
	switch answer.fate {
	case fateDrop:
		panic(http.ErrAbortHandler) // the documented way to close a connection without an answer
	case fateHang:
		select {
		case <-r.Context().Done():
		case <-s.closed:
		}
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", answer.contentType)
	w.Header().Set("X-Amzn-Requestid", answer.requestID)
	w.WriteHeader(answer.status)
	_, _ = w.Write(answer.body) // a caller that is gone cannot be told
}

type fate int

const (
	fateAnswer fate = iota
	fateDrop
	fateHang
)

type answer struct {
	status      int
	contentType string
	requestID   string
	body        []byte
	fate        fate
}

// request is what is known of a request before it is authenticated.
type request struct {
	service, action string
	form            url.Values
	body            []byte
	json            bool
}

// targets tell the service of a JSON request by what its target begins with.
var targets = map[string]string{"TrentService": serviceKMS, "secretsmanager": serviceSecrets}

// identify tells service and action by the API version, or by the target
// header of JSON services; the credential's scope tells the service of a
// request that has neither.
func identify(r *http.Request, body []byte) (request, *apiError) {
	req := request{body: body}
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		prefix, action, _ := strings.Cut(target, ".")
		req.json, req.action = true, action
		if req.service = targets[prefix]; req.service != "" {
			return req, nil
		}
		return req, failf("UnknownOperationException", "The target %s is not known", target)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return req, failf("MalformedQueryString", "The query string contains a syntax error: %s", err)
	}
	for name, values := range r.URL.Query() {
		form[name] = append(form[name], values...)
	}
	req.form, req.action = form, form.Get("Action")
	if version := form.Get("Version"); version != "" {
		req.service = versions[version]
		if req.service == "" {
			return req, failf("InvalidParameterValue", "Value (%s) for parameter Version is invalid", version)
		}
	} else {
		req.service = scopedService(r)
	}
	if req.action == "" {
		return req, failf("MissingAction", "The request must contain the parameter Action")
	}
	return req, nil
}

func (s *Server) answer(r *http.Request, body []byte) answer {
	req, problem := identify(r, body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	id := fmt.Sprintf("%08x-0000-4000-8000-%012x", s.options.Seed, s.requests)
	c := &call{now: s.clock.Now(), service: req.service, form: req.form, action: actions[req.service][req.action]}
	entry := &Call{
		Time: c.now, Service: req.service, Action: req.action,
		Mutating: c.action == nil || !c.action.read,
		DryRun:   req.form.Get("DryRun") == "true",
		Digest:   digest(req.form, body),
	}
	c.digest = digest(withoutToken(req.form), nil)
	var out any
	if problem == nil {
		out, problem = s.serve(r, req, c, entry)
	}
	result := answer{status: http.StatusOK, contentType: "text/xml;charset=UTF-8", requestID: id}
	if req.json {
		result.contentType = "application/x-amz-json-1.1"
	}
	recorded := problem
	if c.fault != nil {
		problem = c.fault.strike(problem, &result)
	}
	if !c.fault.before() {
		s.record(r, c, entry, id, out, recorded)
	}
	switch {
	case problem != nil:
		result.status, result.body = problem.Status, errorBody(req.service, problem, id)
		entry.Code = problem.Code
	case req.json:
		result.body = out.([]byte)
	default:
		key := req.service + req.action
		result.body = response(make([]byte, 0, s.sizes[key]+512), req.service, req.action, id, c.now, out)
		s.sizes[key] = len(result.body)
	}
	if c.fault != nil && c.fault.Kind == FaultMalformed {
		result.body = result.body[:len(result.body)*2/3]
	}
	entry.Status, entry.Page, entry.Fate = result.status, c.page, result.fate.String()
	s.calls = append(s.calls, *entry)
	return result
}

// serve authenticates, throttles, authorizes and performs one call.
func (s *Server) serve(r *http.Request, req request, c *call, entry *Call) (any, *apiError) {
	region, err := s.authenticate(r, req, c)
	entry.Account, entry.AccessKeyID = c.credential.Account, c.credential.AccessKeyID
	if err != nil {
		return nil, err
	}
	entry.Region = region.name
	c.region = region
	region.settle(c.now)
	c.page = pageNumber(req.form)
	c.fault = s.nextFault(c, req.action)
	if c.fault.before() {
		return nil, nil
	}
	if err := s.throttle(c); err != nil {
		return nil, err
	}
	if c.action == nil {
		return nil, failf("InvalidAction", "The action %s is not valid for this web service", req.action)
	}
	if err := c.authorize(); err != nil {
		return nil, err
	}
	if entry.DryRun && req.service == serviceEC2 {
		return nil, failf("DryRunOperation", "Request would have succeeded, but DryRun flag is set")
	}
	if req.json {
		return c.action.run(c, req.body)
	}
	params, err := parseParams(req.form)
	if err != nil {
		return nil, err
	}
	for _, common := range []string{"Action", "Version", "DryRun"} {
		delete(params.children, common)
	}
	if c.action.token {
		c.clientToken = req.form.Get("ClientToken")
	}
	in, err := c.action.decode(params)
	if err != nil {
		return nil, err
	}
	return c.perform(in)
}

// digest is of the parameters in their canonical order: it tells equal
// requests apart from others and keeps user data out of the log.
func digest(form url.Values, body []byte) string {
	h := sha256.New()
	if form == nil {
		h.Write(body)
	}
	names := make([]string, 0, len(form))
	for name := range form {
		names = append(names, name)
	}
	slices.Sort(names)
	var b bytes.Buffer
	for _, name := range names {
		fmt.Fprintf(&b, "%q=%q\n", name, form[name])
	}
	h.Write(b.Bytes())
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func withoutToken(form url.Values) url.Values {
	out := url.Values{}
	for name, values := range form {
		if name != "ClientToken" {
			out[name] = values
		}
	}
	return out
}
