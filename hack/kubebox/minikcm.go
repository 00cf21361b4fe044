package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/controller-manager/pkg/informerfactory"
	"k8s.io/kubernetes/pkg/controller/garbagecollector"
	"k8s.io/kubernetes/pkg/controller/namespace"
)

// Workers of each controller. A test's cluster has tens of objects.
const minikcmWorkers = 5

// minikcm is the part of kube-controller-manager without which Cluster API does
// not work: the garbage collector and the namespace controller. The real
// program would bring forty controllers more, and looks for CRDs that came
// after its start only every 30 seconds, which each test would wait for.
func minikcm(args []string) int {
	flags := flag.NewFlagSet("minikcm", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "file that says how to reach the API server")
	resync := flags.Duration("resync", time.Second, "pause between looks for new kinds of objects")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := runMinikcm(ctx, *kubeconfig, *resync); err != nil {
		fmt.Fprintln(os.Stderr, "minikcm:", err)
		return 1
	}
	return 0
}

func runMinikcm(ctx context.Context, kubeconfig string, resync time.Duration) error {
	if kubeconfig == "" || resync <= 0 {
		return errors.New("needs --kubeconfig FILE, and a --resync above zero")
	}
	cfg, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	cfg.QPS, cfg.Burst = 500, 1000
	typed, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	bare, err := metadata.NewForConfig(cfg)
	if err != nil {
		return err
	}
	run, err := minikcmControllers(ctx, typed, bare, resync)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for _, r := range run {
		all.Go(r)
	}
	all.Wait()
	return nil
}

// minikcmControllers gives the loops to run, each until ctx ends. Their
// informers have started.
func minikcmControllers(ctx context.Context, typed *kubernetes.Clientset, bare metadata.Interface, resync time.Duration) ([]func(), error) {
	discovery := typed.Discovery()
	objects := informers.NewSharedInformerFactory(typed, 0)
	metadatas := metadatainformer.NewSharedInformerFactory(bare, 0)
	started := make(chan struct{})
	ignored := map[schema.GroupResource]struct{}{}
	for r := range garbagecollector.DefaultIgnoredResources() {
		ignored[r] = struct{}{}
	}
	collector, err := garbagecollector.NewGarbageCollector(ctx, typed, bare,
		restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(discovery)), ignored,
		informerfactory.NewInformerFactory(objects, metadatas), started)
	if err != nil {
		return nil, fmt.Errorf("set up the garbage collector: %w", err)
	}
	namespaces := namespace.NewNamespaceController(ctx, typed, bare, discovery.ServerPreferredNamespacedResources,
		objects.Core().V1().Namespaces(), 5*time.Minute, corev1.FinalizerKubernetes)
	objects.Start(ctx.Done())
	metadatas.Start(ctx.Done())
	close(started)
	return []func(){
		func() { collector.Run(ctx, minikcmWorkers, resync) },
		func() { collector.Sync(ctx, discovery, resync) },
		func() { namespaces.Run(ctx, minikcmWorkers) },
	}, nil
}
