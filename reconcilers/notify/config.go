package notify

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast-io/holdfast/policies"
)

// Config says who is told of what.
type Config struct {
	Routes []Route `json:"routes,omitempty"`
}

// Route is one place that is told, under a name that logs and metrics show.
type Route struct {
	Name string `json:"name"`
	// URL names the service and holds its credentials, as shoutrrr spells it:
	// slack://hook:TOKEN@webhook, generic+https://host/path?template=json.
	URL Source `json:"url"`
	// Only narrows what is told; empty lists are no narrowing.
	Only Filter `json:"only,omitzero"`
	// Rate bounds the messages.
	Rate Rate `json:"rate,omitzero"`
	// MaxLength bounds one message, in characters; zero is what the service
	// takes, at most 3,000.
	MaxLength int `json:"maxLength,omitempty"`
}

// Source says where a URL stands. Exactly one of its members is set. It is
// read again for each message, so that a rotated credential needs no restart.
type Source struct {
	// File is the path of a file that holds it, alone.
	File string `json:"file,omitempty"`
	// Env is the name of an environment variable.
	Env string `json:"env,omitempty"`
	// Secret is a key of a Secret.
	Secret *SecretKey `json:"secret,omitempty"`
}

// SecretKey is one key of a Secret.
type SecretKey struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Key       string `json:"key"`
}

// Filter selects what is told. What it leaves out is not told later either.
type Filter struct {
	// Severity is the least severity: low tells of low to critical. Empty is
	// all.
	Severity policies.Severity `json:"severity,omitempty"`
	// Clusters are NAMESPACE/NAME, with * and ? as in file names.
	Clusters []string `json:"clusters,omitempty"`
	// Modes are the policy modes that the finding was decided under.
	Modes []policies.Mode `json:"modes,omitempty"`
	// About are Drift (findings that come up), Resolved (findings that go) and
	// Remediation (its phases).
	About []About `json:"about,omitempty"`
}

// About is a sort of news.
type About string

// Sorts of news.
const (
	AboutDrift       About = "Drift"
	AboutResolved    About = "Resolved"
	AboutRemediation About = "Remediation"
)

// Rate is a token bucket: Burst messages at once, and one more after each
// Every. What comes faster gathers into fewer messages; nothing is lost by it.
type Rate struct {
	Every metav1.Duration `json:"every,omitzero"`
	Burst int             `json:"burst,omitempty"`
}

// Defaults of a Rate.
const (
	defaultEvery = 30 * time.Second
	defaultBurst = 3
)

// severities from the worst.
var severities = []policies.Severity{policies.Critical, policies.High, policies.Medium, policies.Low, policies.Info}

var modes = []policies.Mode{policies.ModeObserve, policies.ModeDryRun, policies.ModeEnforce}

// Validate says all that is wrong. It reads no URL.
func (c *Config) Validate() error {
	var errs []error
	seen := map[string]bool{}
	for i := range c.Routes {
		r := &c.Routes[i]
		name := r.Name
		if !goodName(name) {
			errs = append(errs, fmt.Errorf("routes[%d]: name %.40q: want 1 to 63 of a-z, 0-9 and -", i, name))
			name = fmt.Sprintf("routes[%d]", i)
		} else if seen[name] {
			errs = append(errs, fmt.Errorf("routes[%d]: name %q is there twice", i, name))
		}
		seen[r.Name] = true
		if err := r.validate(); err != nil {
			errs = append(errs, fmt.Errorf("route %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

func goodName(s string) bool {
	return s != "" && len(s) <= 63 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

func (r *Route) validate() error {
	errs := append(r.validateURL(), r.Only.validate()...)
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if r.Rate.Every.Duration < 0 || r.Rate.Burst < 0 {
		fail("rate: want no negative values")
	}
	if r.MaxLength < 0 || r.MaxLength != 0 && r.MaxLength < minLength {
		fail("maxLength: want at least %d, or 0 for the service's own", minLength)
	}
	return errors.Join(errs...)
}

func (r *Route) validateURL() (errs []error) {
	set := 0
	for _, is := range []bool{r.URL.File != "", r.URL.Env != "", r.URL.Secret != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		errs = append(errs, errors.New("url: want exactly one of file, env and secret; a URL itself is a credential and does not belong here"))
	}
	if s := r.URL.Secret; s != nil && (s.Namespace == "" || s.Name == "" || s.Key == "") {
		errs = append(errs, errors.New("url.secret: want namespace, name and key"))
	}
	return errs
}

func (f *Filter) validate() (errs []error) {
	fail := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if s := f.Severity; s != "" && !slices.Contains(severities, s) {
		fail("only.severity: %.40q is none of %v", s, severities)
	}
	for _, m := range f.Modes {
		if !slices.Contains(modes, m) {
			fail("only.modes: %.40q is none of %v", m, modes)
		}
	}
	for _, pattern := range f.Clusters {
		if _, err := path.Match(pattern, ""); err != nil || strings.Count(pattern, "/") != 1 {
			fail("only.clusters: %.80q: want NAMESPACE/NAME, where * and ? stand for anything but /", pattern)
		}
	}
	abouts := []About{AboutDrift, AboutResolved, AboutRemediation}
	for _, a := range f.About {
		if !slices.Contains(abouts, a) {
			fail("only.about: %.40q is none of %v", a, abouts)
		}
	}
	return errs
}

// tells reports whether a piece of news passes.
func (f *Filter) tells(n *news) bool {
	if f.Severity != "" && slices.Index(severities, n.severity) > slices.Index(severities, f.Severity) {
		return false
	}
	if len(f.Modes) > 0 && !slices.Contains(f.Modes, n.mode) {
		return false
	}
	if len(f.About) > 0 && !slices.Contains(f.About, n.about) {
		return false
	}
	return len(f.Clusters) == 0 || slices.ContainsFunc(f.Clusters, func(pattern string) bool {
		ok, _ := path.Match(pattern, n.cluster.String()) // the pattern was validated
		return ok
	})
}
