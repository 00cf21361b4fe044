package notify

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/nicholas-fedor/shoutrrr/pkg/router"
	"github.com/nicholas-fedor/shoutrrr/pkg/types"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast-io/holdfast/providers"
)

// maxURL bounds a notification URL.
const maxURL = 8 << 10

// address is a notification URL, which is a credential. It never shows itself.
type address struct {
	raw, service string
	dialect      dialect
}

// String keeps the URL out of logs and errors.
func (a *address) String() string { return a.service + " (hidden)" }

// GoString keeps the URL out of logs and errors.
func (a *address) GoString() string { return a.String() }

// read reads a URL from where it stands.
func (s *Source) read(ctx context.Context, reader client.Reader) (*address, error) {
	switch {
	case s.File != "":
		data, err := os.ReadFile(s.File)
		if err != nil {
			return nil, fmt.Errorf("read the URL: %w", err)
		}
		return parseAddress(string(data), "file "+s.File)
	case s.Env != "":
		value, set := os.LookupEnv(s.Env)
		if !set {
			return nil, fmt.Errorf("read the URL: the environment variable %s is not set", s.Env)
		}
		return parseAddress(value, "environment variable "+s.Env)
	case s.Secret != nil && reader != nil:
		key := client.ObjectKey{Namespace: s.Secret.Namespace, Name: s.Secret.Name}
		var secret corev1.Secret
		if err := reader.Get(ctx, key, &secret); err != nil {
			return nil, fmt.Errorf("read the URL: Secret %s: %w", key, err)
		}
		value, set := secret.Data[s.Secret.Key]
		if !set {
			return nil, fmt.Errorf("read the URL: Secret %s has no key %q", key, s.Secret.Key)
		}
		return parseAddress(string(value), "Secret "+key.String())
	}
	return nil, errors.New("read the URL: nothing says where it stands")
}

// parseAddress tells the service. Errors do not show the URL.
func parseAddress(raw, from string) (*address, error) {
	raw = strings.TrimSpace(raw)
	scheme, _, found := strings.Cut(raw, "://")
	service, _, _ := strings.Cut(strings.ToLower(scheme), "+")
	switch {
	case raw == "":
		return nil, fmt.Errorf("the %s is empty: want a notification URL of shoutrrr", from)
	case len(raw) > maxURL || strings.ContainsAny(raw, " \t\r\n") || !found:
		return nil, fmt.Errorf("the %s holds no URL: want one of shoutrrr, alone, such as slack://hook:TOKEN@webhook", from)
	}
	if _, err := url.Parse(raw); err != nil {
		return nil, fmt.Errorf("the %s holds no URL that can be parsed: want one of shoutrrr, such as slack://hook:TOKEN@webhook", from)
	}
	d, known := dialects[service]
	if !known {
		if service == "https" || service == "http" {
			return nil, fmt.Errorf("the %s holds a plain %s URL: want generic+%s://… for a webhook, or the service's own form", from, service, service)
		}
		return nil, fmt.Errorf("the %s names a service that is not known: want one of %s", from, strings.Join(services(), ", "))
	}
	return &address{raw: raw, service: service, dialect: d}, nil
}

func services() []string {
	out := make([]string, 0, len(dialects))
	for name := range dialects {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// send hands a message to the service. It blocks for as long as the service
// does: shoutrrr knows no contexts. What it quotes in errors is redacted, and
// its panics are errors.
func (a *address) send(m message) (err error) {
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("send by %s: the URL is not what the service wants", a.service)
		}
	}()
	service, err := (&router.ServiceRouter{}).Locate(a.raw)
	if err != nil {
		return a.redacted(err)
	}
	params := types.Params{}
	for key, value := range a.dialect.params {
		params[key] = value
	}
	if a.dialect.title {
		params[types.TitleKey] = m.title
	}
	if a.dialect.exact {
		for key, value := range m.facts {
			params[key] = value
		}
	}
	return a.redacted(service.Send(m.body, &params))
}

var anyURL = regexp.MustCompile(`(?i)[a-z][a-z0-9+.-]*://[^\s"'<>]*`)

// redacted makes an error that shows nothing of the URL, whatever a client
// quotes of it or makes of it.
func (a *address) redacted(err error) error {
	if err == nil {
		return nil
	}
	text := strings.ReplaceAll(err.Error(), a.raw, "***")
	text = anyURL.ReplaceAllString(text, "***")
	for _, secret := range a.secrets() {
		text = strings.ReplaceAll(text, secret, "***")
	}
	return fmt.Errorf("send by %s: %s", a.service, providers.Cleaner{Max: 300}.Clean(text))
}

// secrets are the pieces of the URL that may be credentials, the longest
// first: user, password, path, query and, but for webhooks, the host, each as
// a whole and in its parts.
func (a *address) secrets() []string {
	u, err := url.Parse(a.raw)
	if err != nil {
		return nil
	}
	var whole []string
	if u.User != nil {
		password, _ := u.User.Password()
		whole = append(whole, u.User.Username(), password, u.User.String())
	}
	whole = append(whole, u.Path, u.RawPath, u.Fragment)
	for _, values := range u.Query() {
		whole = append(whole, values...)
	}
	if a.service != "generic" {
		whole = append(whole, u.Host)
	}
	var out []string
	for _, w := range whole {
		out = append(out, w, url.QueryEscape(w), url.PathEscape(w))
		out = append(out, strings.FieldsFunc(w, func(r rune) bool { return strings.ContainsRune("/:,-@=&. ", r) })...)
	}
	out = slices.DeleteFunc(out, func(s string) bool { return len(s) < 4 })
	slices.SortFunc(out, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(out)
}
