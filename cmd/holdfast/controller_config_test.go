package main

import (
	"bytes"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-io/holdfast/reconcilers/remediation"
)

// TestConfigurationIsFlags: what can be set by a flag can be set in the file
// under the same name, and the other way round, with the same default.
func TestConfigurationIsFlags(t *testing.T) {
	cmd := newControllerCommand()
	fields := reflect.TypeFor[controllerConfig]()
	var names []string
	for i := range fields.NumField() {
		if name := flagOf(fields.Field(i)); name != "notify" { // routes are more than a flag can hold
			names = append(names, name)
		}
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "config" && f.Name != "help" && !slices.Contains(names, f.Name) {
			t.Errorf("--%s cannot be set in a file", f.Name)
		}
	})
	for _, name := range names {
		if cmd.Flags().Lookup(name) == nil {
			t.Errorf("%s of the file has no flag", name)
		}
	}
}

const header = "apiVersion: drift.holdfast.io/v1alpha1\nkind: ControllerConfiguration\n"

func TestConfigurationFile(t *testing.T) {
	path := write(t, "config.yaml", header+"namespace: prod\nlogLevel: debug\nleaderElect: false\ncreationGrace: 7m\npolicy: [a, b]\n"+
		"remediationsKeep: 3\nnotify:\n  routes:\n  - {name: ops, url: {file: /a}, only: {severity: high}, rate: {every: 1m}}\n")
	c, flags := defaultControllerConfig(), &cobra.Command{}
	c.register(flags)
	if err := flags.ParseFlags([]string{"--log-level=trace", "--concurrency=2"}); err != nil {
		t.Fatal(err)
	}
	if err := c.load(path, flags); err != nil {
		t.Fatal(err)
	}
	if c.Namespace != "prod" || c.LeaderElect || c.CreationGrace.Duration != 7*time.Minute || !slices.Equal(c.Policy, []string{"a", "b"}) {
		t.Errorf("the file's values are not taken: %+v", c)
	}
	if routes := c.Notify.Routes; len(routes) != 1 || routes[0].URL.File != "/a" || routes[0].Rate.Every.Duration != time.Minute {
		t.Errorf("the file's routes are not taken: %+v", routes)
	}
	if got, want := c.retention(), (remediation.Retention{Keep: 3, TTL: 168 * time.Hour}); got != want {
		t.Errorf("retention is %+v, want %+v", got, want)
	}
	if c.LogLevel != "trace" || c.Concurrency != 2 {
		t.Errorf("flags that were given do not win: %+v", c)
	}
	if c.MetricsBindAddress != ":8443" {
		t.Errorf("what neither says has no default: %+v", c)
	}
}

func TestBadConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		args []string
		say  string
	}{
		"unknown key":     {file: header + "metricsBindAdress: x\n", say: `unknown field "metricsBindAdress"`},
		"key given twice": {file: header + "namespace: a\nnamespace: b\n", say: "already set"},
		"wrong kind":      {file: "apiVersion: drift.holdfast.io/v1alpha1\nkind: DriftPolicy\n", say: "kind: ControllerConfiguration"},
		"no header":       {file: "namespace: a\n", say: "begin it with"},
		"no duration":     {file: header + "creationGrace: 5\n", say: "creationGrace"},
		"bad duration":    {file: header + "startSpread: fast\n", say: "config.yaml: time: invalid duration \"fast\"\n"},
		"spread":          {args: []string{"--start-spread=-5s"}, say: "--start-spread -5s"},
		"bad level":       {args: []string{"--log-level=loud"}, say: `--log-level "loud": want one of error, info, debug, trace`},
		"bad lease times": {args: []string{"--leader-election-renew-deadline=20s"}, say: "must be longer than"},
		"no concurrency":  {file: header + "concurrency: 0\n", say: "--concurrency 0"},
		"hasty":           {args: []string{"--verify-after=0s"}, say: "--verify-after 0s: want at least 1s"},
		"impatient":       {args: []string{"--ready-within=0s"}, say: "--ready-within 0s: want at least 1s"},
		"queue's name":    {args: []string{"--aws-event-queue=events.fifo"}, say: `event queue name "events.fifo"`},
		"queue's place":   {args: []string{"--aws-event-queues=frankfurt=https://sqs.example/1/q"}, say: "want ACCOUNT/REGION"},
		"keep":            {args: []string{"--remediations-keep=-1"}, say: "--remediations-keep -1"},
		"ttl":             {file: header + "remediationsTtl: -1h\n", say: "--remediations-ttl -1h0m0s"},
		"URL in the file": {file: header + "notify: {routes: [{name: ops, url: \"slack://hook:x@webhook\"}]}\n", say: "notify"},
		"route":           {file: header + "notify: {routes: [{name: ops, url: {file: a, env: B}}]}\n", say: "notify: route ops: url: want exactly one"},
		"route's filter":  {file: header + "notify: {routes: [{name: ops, url: {file: a}, only: {severty: high}}]}\n", say: `unknown field "severty"`},
		"absent policies": {args: []string{"--policy=/does/not/exist"}, say: "cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			args := append([]string{"controller", "--kubeconfig", write(t, "kubeconfig", emptyKubeconfig)}, c.args...)
			if c.file != "" {
				args = append(args, "--config", write(t, "config.yaml", c.file))
			}
			o := holdfast(t, args...)
			if o.code == exitOK || !strings.Contains(o.stderr, c.say) {
				t.Errorf("exit %d, want an error with %q:\n%s", o.code, c.say, o.stderr)
			}
		})
	}
}

const emptyKubeconfig = `apiVersion: v1
kind: Config
current-context: c
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: c, context: {cluster: c}}]
`

// TestLogKeepsSecrets: an address that an error quotes loses its password, in
// both formats.
func TestLogKeepsSecrets(t *testing.T) {
	for _, format := range []string{"json", "text"} {
		var b bytes.Buffer
		c := defaultControllerConfig()
		c.LogFormat = format
		log := newLogger(&c, &b)
		log.Info("Connected", "address", "https://user:hunter2@vcenter.example/sdk")
		log.V(4).Info("Hidden")
		if s := b.String(); strings.Contains(s, "hunter2") || !strings.Contains(s, "vcenter.example") || strings.Contains(s, "Hidden") {
			t.Errorf("%s: %s", format, s)
		}
	}
}

// TestFileHasNoOtherForm keeps the file's header and values in one document.
func TestFileHasNoOtherForm(t *testing.T) {
	data, err := yaml.Marshal(configFile{controllerConfig: defaultControllerConfig()})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "controllerConfig") || !strings.Contains(string(data), "metricsSecure: true") {
		t.Errorf("%s", data)
	}
}
