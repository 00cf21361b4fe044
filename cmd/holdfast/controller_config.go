package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/providers/aws"
	"github.com/holdfast-io/holdfast/reconcilers/core"
	"github.com/holdfast-io/holdfast/reconcilers/notify"
	"github.com/holdfast-io/holdfast/reconcilers/remediation"
)

// kindControllerConfiguration is the Kind of the configuration file; its
// apiVersion is that of the policies.
const kindControllerConfiguration = "ControllerConfiguration"

// controllerConfig is everything that can be set, by flag or in a file. A field
// is called the same in both: metricsBindAddress is --metrics-bind-address. Only
// notify has no flag.
type controllerConfig struct {
	Kubeconfig string `json:"kubeconfig,omitempty"`
	Context    string `json:"context,omitempty"`
	Namespace  string `json:"namespace,omitempty"`

	Policy        []string `json:"policy,omitempty"`
	PolicyObjects bool     `json:"policyObjects"`

	LeaderElect                 bool            `json:"leaderElect"`
	LeaderElectionID            string          `json:"leaderElectionId,omitempty"`
	LeaderElectionNamespace     string          `json:"leaderElectionNamespace,omitempty"`
	LeaderElectionLeaseDuration metav1.Duration `json:"leaderElectionLeaseDuration"`
	LeaderElectionRenewDeadline metav1.Duration `json:"leaderElectionRenewDeadline"`
	LeaderElectionRetryPeriod   metav1.Duration `json:"leaderElectionRetryPeriod"`

	MetricsBindAddress     string `json:"metricsBindAddress"`
	MetricsSecure          bool   `json:"metricsSecure"`
	MetricsCertDir         string `json:"metricsCertDir,omitempty"`
	HealthProbeBindAddress string `json:"healthProbeBindAddress"`
	PprofBindAddress       string `json:"pprofBindAddress,omitempty"`

	LogLevel  string `json:"logLevel"`
	LogFormat string `json:"logFormat"`

	Nodes   bool `json:"nodes"`
	Reports bool `json:"reports"`

	AWSEventQueue  string            `json:"awsEventQueue,omitempty"`
	AWSEventQueues map[string]string `json:"awsEventQueues,omitempty"`

	CreationGrace metav1.Duration `json:"creationGrace"`
	VerifyAfter   metav1.Duration `json:"verifyAfter"`
	PollInterval  metav1.Duration `json:"pollInterval"`
	ReadyWithin   metav1.Duration `json:"readyWithin"`
	StartSpread   metav1.Duration `json:"startSpread"`
	Concurrency   int             `json:"concurrency"`

	RemediationsKeep int             `json:"remediationsKeep"`
	RemediationsTTL  metav1.Duration `json:"remediationsTtl"`

	Reconcilers             []string        `json:"reconcilers,omitempty"`
	ReconcilersTakeover     bool            `json:"reconcilersTakeover,omitempty"`
	ReconcilersConcurrency  map[string]int  `json:"reconcilersConcurrency,omitempty"`
	ReconcilersSyncPeriod   metav1.Duration `json:"reconcilersSyncPeriod"`
	ReconcilersBackoff      metav1.Duration `json:"reconcilersBackoff"`
	ReconcilersBackoffLimit metav1.Duration `json:"reconcilersBackoffLimit"`
	ReconcilersWatchFilter  string          `json:"reconcilersWatchFilter,omitempty"`
	FeatureGates            map[string]bool `json:"featureGates,omitempty"`
	WebhookBindAddress      string          `json:"webhookBindAddress"`
	WebhookCertDir          string          `json:"webhookCertDir,omitempty"`
	WebhookCertSecret       string          `json:"webhookCertSecret,omitempty"`
	WebhookCertRotate       bool            `json:"webhookCertRotate,omitempty"`
	WebhookService          string          `json:"webhookService,omitempty"`
	WebhookConfigurations   []string        `json:"webhookConfigurations,omitempty"`

	// Notify is in the file alone: routes are more than a flag can hold.
	Notify notify.Config `json:"notify,omitzero"`
}

func defaultControllerConfig() controllerConfig {
	seconds := func(n int) metav1.Duration { return metav1.Duration{Duration: time.Duration(n) * time.Second} }
	return controllerConfig{
		PolicyObjects: true, Nodes: true,
		LeaderElect: true, LeaderElectionID: "holdfast", LeaderElectionLeaseDuration: seconds(15),
		LeaderElectionRenewDeadline: seconds(10), LeaderElectionRetryPeriod: seconds(2),
		MetricsBindAddress: ":8443", MetricsSecure: true, HealthProbeBindAddress: ":8081",
		LogLevel: "info", LogFormat: "json",
		CreationGrace: metav1.Duration{Duration: 5 * time.Minute}, StartSpread: seconds(10), Concurrency: 4,
		VerifyAfter: metav1.Duration{Duration: remediation.DefaultTimes.Settle}, PollInterval: metav1.Duration{Duration: remediation.DefaultTimes.Poll},
		ReadyWithin: metav1.Duration{Duration: remediation.DefaultTimes.Replace},
		// Enough of a history to look things up in, and not so much that it
		// weighs on the API server.
		RemediationsKeep: 50, RemediationsTTL: metav1.Duration{Duration: 7 * 24 * time.Hour},
		ReconcilersSyncPeriod: metav1.Duration{Duration: core.DefaultSyncPeriod}, ReconcilersBackoff: metav1.Duration{Duration: core.DefaultBackoff.First},
		ReconcilersBackoffLimit: metav1.Duration{Duration: core.DefaultBackoff.Most},
		WebhookBindAddress:      fmt.Sprintf(":%d", core.DefaultWebhookPort), WebhookCertDir: "/tmp/k8s-webhook-server/serving-certs",
	}
}

// register makes a flag of each field.
func (c *controllerConfig) register(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.Kubeconfig, "kubeconfig", c.Kubeconfig, "kubeconfig file of the management cluster; in a pod its own is the default")
	f.StringVar(&c.Context, "context", c.Context, "context of the kubeconfig")
	f.StringVarP(&c.Namespace, "namespace", "n", c.Namespace, "the only namespace to look at (default all)")
	f.StringArrayVar(&c.Policy, "policy", c.Policy, "file or folder of DriftPolicies, beside the built-in ones; read again when it changes; repeatable")
	f.BoolVar(&c.PolicyObjects, "policy-objects", c.PolicyObjects, "take DriftPolicy objects of the management cluster too")
	f.BoolVar(&c.LeaderElect, "leader-elect", c.LeaderElect, "act only while holding a lease, so that several replicas may run")
	f.StringVar(&c.LeaderElectionID, "leader-election-id", c.LeaderElectionID, "name of the lease")
	f.StringVar(&c.LeaderElectionNamespace, "leader-election-namespace", c.LeaderElectionNamespace, "namespace of the lease (default the pod's, else --namespace)")
	f.DurationVar(&c.LeaderElectionLeaseDuration.Duration, "leader-election-lease-duration", c.LeaderElectionLeaseDuration.Duration, "time after which a lease that is not renewed is taken over")
	f.DurationVar(&c.LeaderElectionRenewDeadline.Duration, "leader-election-renew-deadline", c.LeaderElectionRenewDeadline.Duration, "time after which a leader that cannot renew gives up")
	f.DurationVar(&c.LeaderElectionRetryPeriod.Duration, "leader-election-retry-period", c.LeaderElectionRetryPeriod.Duration, "time between tries to get or renew the lease")
	f.StringVar(&c.MetricsBindAddress, "metrics-bind-address", c.MetricsBindAddress, "address of /metrics; 0 switches it off")
	f.BoolVar(&c.MetricsSecure, "metrics-secure", c.MetricsSecure, "serve metrics by HTTPS, and only to those who may GET the path /metrics")
	f.StringVar(&c.MetricsCertDir, "metrics-cert-dir", c.MetricsCertDir, "folder with tls.crt and tls.key of /metrics (default: self-signed)")
	f.StringVar(&c.HealthProbeBindAddress, "health-probe-bind-address", c.HealthProbeBindAddress, "address of /healthz and /readyz; 0 switches it off")
	f.StringVar(&c.PprofBindAddress, "pprof-bind-address", c.PprofBindAddress, "address of Go's profiles, which anybody may read who reaches it (default off)")
	f.StringVar(&c.LogLevel, "log-level", c.LogLevel, "least level that is logged: "+strings.Join(logLevelNames(), ", "))
	f.StringVar(&c.LogFormat, "log-format", c.LogFormat, "json or text")
	f.BoolVar(&c.Nodes, "nodes", c.Nodes, "compare the Nodes of workload clusters too, by the kubeconfig Secrets of the clusters")
	f.BoolVar(&c.Reports, "reports", c.Reports, "keep OpenReports Report objects of each cluster and pool, for Policy Reporter (docs/reports.md)")
	f.StringVar(&c.AWSEventQueue, "aws-event-queue", c.AWSEventQueue, "name of the SQS queue with AWS events that each account and region has; empty reads none (docs/events.md)")
	f.StringToStringVar(&c.AWSEventQueues, "aws-event-queues", c.AWSEventQueues, "ACCOUNT/REGION=URL of SQS queues that are called otherwise or are elsewhere; repeatable")
	f.DurationVar(&c.CreationGrace.Duration, "creation-grace", c.CreationGrace.Duration, "age below which a resource that is not found is not called missing")
	f.DurationVar(&c.VerifyAfter.Duration, "verify-after", c.VerifyAfter.Duration, "time from a repair to the first read that may show it")
	f.DurationVar(&c.ReadyWithin.Duration, "ready-within", c.ReadyWithin.Duration, "time from the end of a replaced machine, or from a repair that stopped one, after which it has failed if the pool is not ready")
	f.DurationVar(&c.PollInterval.Duration, "poll-interval", c.PollInterval.Duration, "time between two looks at what Cluster API or a cloud does for a repair")
	f.DurationVar(&c.StartSpread.Duration, "start-spread", c.StartSpread.Duration, "time over which the first reads are spread")
	f.IntVar(&c.Concurrency, "concurrency", c.Concurrency, "how many places (account and region, vCenter) are read at once")
	f.IntVar(&c.RemediationsKeep, "remediations-keep", c.RemediationsKeep, "how many Remediations that succeeded or were cancelled a cluster keeps; 0 keeps them all")
	f.DurationVar(&c.RemediationsTTL.Duration, "remediations-ttl", c.RemediationsTTL.Duration, "time for which a Remediation that ended is kept; 0 keeps it for good")
	c.registerManaged(cmd)
	completeWith(cmd, "log-level", logLevelNames()...)
	completeWith(cmd, "log-format", "json", "text")
}

// configFile is the file's form: the configuration with a header.
type configFile struct {
	metav1.TypeMeta  `json:",inline"`
	controllerConfig `json:",inline"`
}

// load takes a file's values, and those flags over them that were given. flags
// is what the command line was parsed into.
func (c *controllerConfig) load(path string, flags *cobra.Command) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	file := configFile{controllerConfig: defaultControllerConfig()}
	if err := yaml.UnmarshalStrict(data, &file); err != nil {
		return fmt.Errorf("--config %s: %s", path, configTrouble(err))
	}
	if want := v1alpha1.GroupVersion.String(); file.APIVersion != want || file.Kind != kindControllerConfiguration {
		return fmt.Errorf("--config %s: it is a %q of %q; begin it with apiVersion: %s and kind: %s", path, file.Kind, file.APIVersion, want, kindControllerConfiguration)
	}
	given, out := reflect.ValueOf(c).Elem(), reflect.ValueOf(&file.controllerConfig).Elem()
	for i := range given.NumField() {
		if flags.Flags().Changed(flagOf(given.Type().Field(i))) {
			out.Field(i).Set(given.Field(i))
		}
	}
	*c = file.controllerConfig
	return nil
}

// configTrouble says what is wrong with a file in the words of who wrote it, who
// wrote no JSON.
func configTrouble(err error) string {
	text := err.Error()
	for _, by := range []string{"error converting YAML to JSON: ", "error unmarshaling JSON: ", "while decoding JSON: ", "json: "} {
		text = strings.TrimPrefix(text, by)
	}
	if strings.Contains(text, "unknown field") {
		text += "; its keys are the flags of holdfast controller in camelCase, and notify (docs/controller.md)"
	}
	return text
}

// flagOf gives the flag of a field: camelCase in words.
func flagOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	var b strings.Builder
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('-')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// events are where those of AWS come from.
func (c *controllerConfig) events() aws.Events {
	return aws.Events{QueueName: c.AWSEventQueue, Queues: c.AWSEventQueues}
}

// retention is how long ended records are kept.
func (c *controllerConfig) retention() remediation.Retention {
	return remediation.Retention{Keep: c.RemediationsKeep, TTL: c.RemediationsTTL.Duration}
}

// checkTimes holds each duration to the least that makes sense.
func (c *controllerConfig) checkTimes() (errs []error) {
	for _, t := range []struct {
		flag  string
		is    time.Duration
		least time.Duration
	}{
		{"--creation-grace", c.CreationGrace.Duration, 0},
		{"--verify-after", c.VerifyAfter.Duration, time.Second},
		{"--poll-interval", c.PollInterval.Duration, time.Second},
		{"--ready-within", c.ReadyWithin.Duration, time.Second},
		{"--start-spread", c.StartSpread.Duration, 0},
		{"--remediations-ttl", c.RemediationsTTL.Duration, 0},
	} {
		switch {
		case t.is >= t.least:
		case t.least == 0:
			errs = append(errs, fmt.Errorf("%s %s: want a time of 0 or more", t.flag, t.is))
		default:
			errs = append(errs, fmt.Errorf("%s %s: want at least %s", t.flag, t.is, t.least))
		}
	}
	return errs
}

// check finds what cannot work before anything is started.
func (c *controllerConfig) check() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if !slices.Contains(logLevelNames(), c.LogLevel) {
		wrong("--log-level %q: want one of %s", c.LogLevel, strings.Join(logLevelNames(), ", "))
	}
	if c.LogFormat != "json" && c.LogFormat != "text" {
		wrong("--log-format %q: want json or text", c.LogFormat)
	}
	if c.Concurrency < 1 {
		wrong("--concurrency %d: want at least 1", c.Concurrency)
	}
	if c.RemediationsKeep < 0 {
		wrong("--remediations-keep %d: want 0 or more", c.RemediationsKeep)
	}
	errs = append(errs, c.checkTimes()...)
	if _, err := c.managed(); err != nil {
		errs = append(errs, err)
	}
	if err := c.Notify.Validate(); err != nil {
		wrong("notify: %w", err)
	}
	if err := c.events().Validate(); err != nil {
		wrong("--aws-event-queue, --aws-event-queues: %w", err)
	}
	lease, renew, retry := c.LeaderElectionLeaseDuration.Duration, c.LeaderElectionRenewDeadline.Duration, c.LeaderElectionRetryPeriod.Duration
	if c.LeaderElect && (retry <= 0 || renew <= retry || lease <= renew) {
		wrong("--leader-election-lease-duration (%s) must be longer than --leader-election-renew-deadline (%s), and that longer than --leader-election-retry-period (%s)", lease, renew, retry)
	}
	if c.LeaderElect && c.LeaderElectionID == "" {
		wrong("--leader-election-id is empty: name the lease, or switch --leader-elect off")
	}
	return errors.Join(errs...)
}
