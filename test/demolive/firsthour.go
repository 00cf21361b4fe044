package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-logr/logr"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	driftv1 "github.com/holdfast-io/holdfast/api/v1alpha1"
	"github.com/holdfast-io/holdfast/test/ec2sim"
	"github.com/holdfast-io/holdfast/test/management"
)

const (
	// hourNamespace is where the reader's cluster is.
	hourNamespace = "prod"
	// hourWorkers is how many workers it has.
	hourWorkers = 3
	// environmentFile is what the reader's shell sources. It is the last thing that
	// is made: once it is there, so is the rest.
	environmentFile = "env.sh"
)

// firstHour puts up a management cluster and an AWS for the reader of
// docs/first-hour.md, without any Holdfast, and keeps them until it is interrupted.
func firstHour(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var dir, binary, tools string
	f := flag.NewFlagSet("demolive first-hour", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&dir, "dir", "", "folder for what the reader needs")
	f.StringVar(&binary, "holdfast", "", "the holdfast program to install")
	f.StringVar(&tools, "tools", "", "programs to put beside it, by path, with commas between")
	switch err := f.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	case dir == "" || binary == "" || f.NArg() > 0:
		_, _ = fmt.Fprintln(stderr, "error: --dir and --holdfast are needed, and nothing else is taken: run make first-hour")
		return exitUsage
	}
	klog.SetLogger(logr.Discard())
	st := newStage(ctx)
	h := &hour{stage: st, dir: dir, out: stdout}
	ready := false
	failure := st.perform(func() {
		h.build(binary, strings.Split(tools, ","))
		ready = true
		<-ctx.Done()
	})
	if failure != nil && (ready || ctx.Err() == nil) {
		_, _ = fmt.Fprintf(stderr, "error: %s\n", lines(failure.Error()))
		return exitFailed
	}
	_, _ = fmt.Fprintln(stdout, "\nEverything that this has started has been stopped.")
	return exitOK
}

// hour is the world of the page.
type hour struct {
	*stage
	dir string
	out io.Writer
}

func (h *hour) build(binary string, tools []string) {
	begun := time.Now()
	h.must(os.RemoveAll(h.dir))
	h.must(os.MkdirAll(filepath.Join(h.dir, "bin"), 0o700))
	h.Cleanup(func() { _ = os.RemoveAll(h.dir) })
	h.say("Starting a management cluster with Cluster API's own reconcilers, and a simulated AWS …")
	ground := management.Start(h.stage, management.In(hourNamespace))
	h.forgetHoldfast(ground)
	p := &play{stage: h.stage}
	on, forward := p.events()
	cloud := ground.StartAWS(ec2sim.Options{OnEvent: forward})
	cluster := ground.AWSCluster(h.ctx, management.AWS{Workers: hourWorkers})
	cluster.WaitReady(h.ctx)
	on()
	h.programs(binary, tools)
	h.carelessProgram(cloud)
	variables := append(ground.Variables(), "AWS_ENDPOINT_URL_SQS="+p.queueURL, "FIRST_HOUR="+h.dir)
	for _, name := range []string{"METRICS", "PROBES", "PROMETHEUS"} {
		address, err := freeAddress()
		h.must(err)
		variables = append(variables, name+"="+address)
	}
	path := h.environment(variables)
	h.say("%.0f s later the cluster %s/%s runs: 1 control-plane machine, %d workers.", time.Since(begun).Seconds(), hourNamespace, cluster.Name, hourWorkers)
	h.say("\nLeave this running, and in another terminal:\n\n    . %s\n\nCtrl-C here ends it all.", path)
}

func (h *hour) say(format string, args ...any) {
	_, _ = fmt.Fprintf(h.out, format+"\n", args...) // whoever does not read goes without
}

// forgetHoldfast takes Holdfast's definitions away: the chart brings them.
func (h *hour) forgetHoldfast(g *management.Ground) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinitionList"))
	h.must(g.Client.List(h.ctx, list))
	for i := range list.Items {
		if strings.HasSuffix(list.Items[i].Name, "."+driftv1.GroupVersion.Group) {
			h.must(client.IgnoreNotFound(g.Client.Delete(h.ctx, &list.Items[i])))
		}
	}
}

// programs puts into the reader's PATH what the page runs.
func (h *hour) programs(binary string, tools []string) {
	self, err := os.Executable()
	h.must(err)
	links := map[string]string{"holdfast": binary, "kubectl-holdfast": binary, "kubectl": kubectl()}
	for _, tool := range tools {
		if tool != "" {
			links[filepath.Base(tool)] = tool
		}
	}
	for name, to := range links {
		to, err := filepath.Abs(to)
		h.must(err)
		h.must(os.Symlink(to, filepath.Join(h.dir, "bin", name)))
	}
	h.script("holdfast-pod", fmt.Sprintf("exec %s pod --dir %s \"$@\"\n", quote(self), quote(filepath.Join(h.dir, "pod"))))
}

// carelessProgram is the one by which the reader changes things behind Cluster
// API's back: as somebody else than Holdfast.
func (h *hour) carelessProgram(cloud *management.AWSCloud) {
	self, err := os.Executable()
	h.must(err)
	h.script("careless", fmt.Sprintf("AWS_ACCESS_KEY_ID=%s AWS_SECRET_ACCESS_KEY=%s exec %s careless \"$@\"\n",
		quote(cloud.Operator.AccessKeyID), quote(cloud.Operator.SecretAccessKey), quote(self)))
}

func (h *hour) script(name, text string) {
	h.must(os.WriteFile(filepath.Join(h.dir, "bin", name), []byte("#!/bin/sh\n"+text), 0o700))
}

// environment writes what the reader's shell sources, and gives its path.
func (h *hour) environment(variables []string) string {
	var b strings.Builder
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		fmt.Fprintf(&b, "export %s=%s\n", name, quote(value))
	}
	fmt.Fprintf(&b, "export PATH=%s:\"$PATH\"\n", quote(filepath.Join(h.dir, "bin")))
	path := filepath.Join(h.dir, environmentFile)
	h.must(os.WriteFile(path+".next", []byte(b.String()), 0o600))
	h.must(os.Rename(path+".next", path))
	return path
}

// quote is a word of a POSIX shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
