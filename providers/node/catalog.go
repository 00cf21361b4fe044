package node

import "github.com/holdfast-io/holdfast/providers"

// catalog lists every field of a Node that is compared.
var catalog = []providers.CatalogRow{
	row("/state", "Machine status.nodeRef", providers.Immutable,
		"existence: absent from the cluster's list, past the creation grace, and absent again when asked for by name", "Cluster API: Machine contract; Kubernetes API: Node"),
	row(pathProviderID, "Machine spec.providerID", providers.ReadOnly,
		"exactly; of a Node with another one nothing else is compared", "Cluster API: Machine contract, providerID"),
	row(pathVersion, "Machine spec.version", providers.Immutable,
		"the leading v is optional; what a vendor adds to a version that is declared without it is no difference; not while the Machine is updated in place",
		"Kubernetes API: NodeSystemInfo, kubeletVersion"),
	row(pathLabels+"/KEY", "kubelet's node-labels in the KubeadmConfig; Machine labels that Cluster API syncs: node-role.kubernetes.io, node-restriction.kubernetes.io and node.cluster.x-k8s.io with their subdomains",
		providers.InPlace, "case-sensitive, only wanted keys", "Cluster API: metadata propagation; Kubernetes reference: kubelet --node-labels"),
	row(pathTaints, "nodeRegistration.taints in the KubeadmConfig; Machine spec.taints with propagation Always",
		providers.InPlace, "each wanted one, as KEY=VALUE:EFFECT; taints that mark a Node as not ready yet are not held against it", "Kubernetes API: Taint; Cluster API: MachineTaint"),
}

func row(path, from string, m providers.Mutability, compare, source string) providers.CatalogRow {
	return providers.CatalogRow{Kind: providers.KindNode, Path: path, From: from, Mutability: m, Compare: compare, Source: source}
}
