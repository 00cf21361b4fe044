package management

import (
	"cmp"
	"context"
	"crypto/rsa"
	"crypto/x509"
	"fmt"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudv1 "sigs.k8s.io/cluster-api/test/infrastructure/inmemory/pkg/cloud/api/v1alpha1"
	"sigs.k8s.io/cluster-api/util/secret"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The static pods of a control plane's host, by kubeadm's names.
const (
	podEtcd       = "etcd"
	podAPIServer  = "kube-apiserver"
	podController = "kube-controller-manager"
	podScheduler  = "kube-scheduler"
)

// serve has a control plane's host run its static pods: it joins etcd and
// answers as API server. A host that comes back runs the member that it ran.
func (l *workload) serve(ctx context.Context, management client.Reader, h *host) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	member, err := l.member(ctx, h)
	if err != nil {
		return err
	}
	for _, p := range []*corev1.Pod{member, l.pod(podAPIServer, h), l.pod(podController, h), l.pod(podScheduler, h)} {
		if err := l.ensure(ctx, p); err != nil {
			return err
		}
		if err := l.setReady(ctx, p, true); err != nil {
			return err
		}
	}
	if err := l.elect(ctx); err != nil {
		return err
	}
	for _, s := range []struct {
		pod     string
		purpose secret.Purpose
		start   func(listener, pod string, cert *x509.Certificate, key *rsa.PrivateKey) error
		runs    func(listener, pod string) bool
	}{
		{podEtcd, secret.EtcdCA, l.all.servers.AddEtcdMember, l.all.servers.HasEtcdMember},
		{podAPIServer, secret.ClusterCA, l.all.servers.AddAPIServer, l.all.servers.HasAPIServer},
	} {
		pod := s.pod + "-" + h.node
		if s.runs(l.name.String(), pod) {
			continue
		}
		cert, key, err := authority(ctx, management, l.name, s.purpose)
		if err != nil {
			return err
		}
		if err := s.start(l.name.String(), pod, cert, key); err != nil {
			return fmt.Errorf("start %s of workload cluster %s: %w", pod, l.name, err)
		}
	}
	return l.bootstrap(ctx, h)
}

// pod is a static pod as its mirror shows in the API.
func (l *workload) pod(component string, h *host) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: component + "-" + h.node,
			Labels:      map[string]string{"component": component, "tier": "control-plane"},
			Annotations: map[string]string{annotationMirror: component},
		},
		Spec:   corev1.PodSpec{NodeName: h.node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func (l *workload) setReady(ctx context.Context, pod *corev1.Pod, ready bool) error {
	status := corev1.ConditionFalse
	if ready {
		status = corev1.ConditionTrue
	}
	return l.edit(ctx, pod, func() {
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status}}
	})
}

// member gives the etcd pod of a host with ids that are the cluster's own.
// Upstream's etcd keeps its state in annotations of these pods.
func (l *workload) member(ctx context.Context, h *host) (*corev1.Pod, error) {
	members, err := l.members(ctx)
	if err != nil {
		return nil, err
	}
	cluster, id := "1", 1
	for _, m := range members {
		cluster = m.Annotations[cloudv1.EtcdClusterIDAnnotationName]
		n, err := strconv.Atoi(m.Annotations[cloudv1.EtcdMemberIDAnnotationName])
		if err != nil {
			return nil, fmt.Errorf("etcd member %s: %w", m.Name, err)
		}
		id = max(id, n+1)
	}
	pod := l.pod(podEtcd, h)
	pod.Annotations[cloudv1.EtcdClusterIDAnnotationName] = cluster
	pod.Annotations[cloudv1.EtcdMemberIDAnnotationName] = strconv.Itoa(id)
	return pod, nil
}

// members lists the etcd pods in the order of their ids, removed members too.
func (l *workload) members(ctx context.Context) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := l.client.List(ctx, list, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"component": podEtcd}); err != nil {
		return nil, fmt.Errorf("list etcd members of workload cluster %s: %w", l.name, err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
		return cmp.Compare(a.Annotations[cloudv1.EtcdMemberIDAnnotationName], b.Annotations[cloudv1.EtcdMemberIDAnnotationName])
	})
	return list.Items, nil
}

// elect sees to it that etcd has a leader exactly while it has a quorum:
// upstream's etcd has the leader that the annotations name, dead or alive, and
// answers nothing without one, as an etcd without quorum does.
func (l *workload) elect(ctx context.Context) error {
	members, err := l.members(ctx)
	if err != nil {
		return err
	}
	voting := slices.DeleteFunc(members, func(p corev1.Pod) bool {
		_, removed := p.Annotations[cloudv1.EtcdMemberRemoved]
		return removed
	})
	var alive []corev1.Pod
	led := false
	for _, p := range voting {
		if !podReady(&p) {
			continue
		}
		alive = append(alive, p)
		led = led || p.Annotations[cloudv1.EtcdLeaderFromAnnotationName] != ""
	}
	quorum := len(alive) > len(voting)/2
	for i := range voting {
		p := &voting[i]
		if quorum && podReady(p) {
			continue
		}
		if err := l.annotate(ctx, p, ""); err != nil {
			return err
		}
	}
	if !quorum || led {
		return nil
	}
	return l.annotate(ctx, &alive[0], time.Now().Format(time.RFC3339))
}

func (l *workload) annotate(ctx context.Context, p *corev1.Pod, leader string) error {
	if p.Annotations[cloudv1.EtcdLeaderFromAnnotationName] == leader {
		return nil
	}
	return l.edit(ctx, p, func() {
		if leader == "" {
			delete(p.Annotations, cloudv1.EtcdLeaderFromAnnotationName)
			return
		}
		p.Annotations[cloudv1.EtcdLeaderFromAnnotationName] = leader
	})
}

func podReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// silence has the static pods of a host stop answering, while the API still
// shows them.
func (l *workload) silence(ctx context.Context, h *host) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, component := range []string{podEtcd, podAPIServer, podController, podScheduler} {
		if err := l.setReady(ctx, l.pod(component, h), false); err != nil {
			return err
		}
	}
	return l.stopServers(ctx, h)
}

// dropControlPlane takes the static pods of a host away.
func (l *workload) dropControlPlane(ctx context.Context, h *host) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, component := range []string{podEtcd, podAPIServer, podController, podScheduler} {
		if err := l.remove(ctx, l.pod(component, h)); err != nil {
			return err
		}
	}
	return l.stopServers(ctx, h)
}

func (l *workload) stopServers(ctx context.Context, h *host) error {
	name := l.name.String()
	if err := l.all.servers.DeleteEtcdMember(name, podEtcd+"-"+h.node); err != nil {
		return err
	}
	// The last one closes the port.
	if err := l.all.servers.DeleteAPIServer(name, podAPIServer+"-"+h.node); err != nil {
		return err
	}
	return l.elect(ctx)
}

// bootstrap makes what kubeadm leaves behind in a cluster, and by which
// KubeadmControlPlane knows that it is initialised. It is a cluster without
// CoreDNS, which KubeadmControlPlane would upgrade by steps that upstream's
// in-memory server does not keep up with.
func (l *workload) bootstrap(ctx context.Context, h *host) error {
	system := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: name}
	}
	const getNodes = "kubeadm:get-nodes"
	for _, o := range []client.Object{
		&rbacv1.ClusterRole{
			ObjectMeta: metav1.ObjectMeta{Name: getNodes},
			Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"nodes"}}},
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: getNodes},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: getNodes},
			Subjects:   []rbacv1.Subject{{Kind: rbacv1.GroupKind, Name: "system:bootstrappers:kubeadm:default-node-token"}},
		},
		&corev1.ConfigMap{ObjectMeta: system("kubeadm-config"), Data: map[string]string{"ClusterConfiguration": ""}},
		&appsv1.DaemonSet{ObjectMeta: system("kube-proxy"), Spec: appsv1.DaemonSetSpec{Template: running("kube-proxy", h.version)}},
	} {
		if err := l.ensure(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func running(name, version string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: "registry.k8s.io/" + name + ":" + version}}}}
}
