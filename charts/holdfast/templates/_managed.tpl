{{/* The parts that run, by their names on the command line; empty is none. */}}
{{- define "holdfast.parts" -}}
{{- $parts := list -}}
{{- range $part := list "core" "kubeadm" "aws" "vsphere" -}}
{{- if (index $.Values.reconcilers $part).enabled }}{{ $parts = append $parts $part }}{{ end -}}
{{- end -}}
{{- join "," $parts -}}
{{- end -}}

{{- define "holdfast.webhookName" -}}
{{- printf "%s-webhook" (include "holdfast.fullname" .) -}}
{{- end -}}

{{/* The Secret that the webhooks' certificate is in. */}}
{{- define "holdfast.webhookSecret" -}}
{{- if eq .Values.webhooks.certificate.source "secret" -}}
{{- .Values.webhooks.certificate.secretName -}}
{{- else -}}
{{- include "holdfast.webhookName" . -}}
{{- end -}}
{{- end -}}

{{/* The part of the configuration file that is about managed mode. */}}
{{- define "holdfast.managedConfig" -}}
{{- $c := dict -}}
{{- with include "holdfast.parts" . -}}
{{- $r := $.Values.reconcilers -}}
{{- $c = dict
  "reconcilers" (splitList "," .)
  "reconcilersSyncPeriod" $r.syncPeriod
  "reconcilersBackoff" $r.backoff
  "reconcilersBackoffLimit" $r.backoffLimit
  "webhookBindAddress" (printf ":%d" (int $.Values.webhooks.port))
  "webhookCertSecret" (printf "%s/%s" $.Release.Namespace (include "holdfast.webhookSecret" $))
  "webhookService" (printf "%s/%s" $.Release.Namespace (include "holdfast.webhookName" $))
  "webhookConfigurations" (list (include "holdfast.clusterName" $)) -}}
{{- if eq $.Values.webhooks.certificate.source "selfManaged" }}{{ $_ := set $c "webhookCertRotate" true }}{{ end -}}
{{- with $r.featureGates }}{{ $_ := set $c "featureGates" . }}{{ end -}}
{{- with $r.concurrency }}{{ $_ := set $c "reconcilersConcurrency" . }}{{ end -}}
{{- with $r.watchFilter }}{{ $_ := set $c "reconcilersWatchFilter" . }}{{ end -}}
{{- if $r.takeover }}{{ $_ := set $c "reconcilersTakeover" true }}{{ end -}}
{{- end -}}
{{- toYaml $c -}}
{{- end -}}

{{/* What reconcilers need in namespaces, by part. */}}
{{- define "holdfast.managedRules" -}}
{{- $parts := splitList "," (include "holdfast.parts" .) -}}
{{- if or (has "core" $parts) (has "kubeadm" $parts) }}
# Objects of providers, whatever they are called.
- apiGroups: [bootstrap.cluster.x-k8s.io, controlplane.cluster.x-k8s.io, infrastructure.cluster.x-k8s.io]
  resources: ["*"]
  verbs: [get, list, watch, create, patch, delete]
# Where the API server's OwnerReferencesPermissionEnforcement is on, an owner that is
# waited for at deletion has to be one whose finalizers may be changed.
- apiGroups: [addons.cluster.x-k8s.io, bootstrap.cluster.x-k8s.io, cluster.x-k8s.io, controlplane.cluster.x-k8s.io]
  resources: ["*/finalizers"]
  verbs: [update]
# Certificates, kubeconfigs and bootstrap data.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, list, watch, create, update, patch]
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- if has "core" $parts }}
# What holds the objects of a topology together until their Cluster has been written.
- apiGroups: [""]
  resources: [secrets]
  verbs: [delete]
- apiGroups: [cluster.x-k8s.io]
  resources: [clusters, clusterclasses, machinedrainrules]
  verbs: [get, list, watch, patch]
- apiGroups: [cluster.x-k8s.io]
  resources: [machines, machinesets, machinedeployments, machinehealthchecks, machinepools]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [cluster.x-k8s.io]
  resources: [clusters/status, clusterclasses/status, machines/status, machinesets/status, machinedeployments/status, machinehealthchecks/status, machinepools/status]
  verbs: [patch]
- apiGroups: [addons.cluster.x-k8s.io]
  resources: [clusterresourcesets]
  verbs: [get, list, watch, patch]
- apiGroups: [addons.cluster.x-k8s.io]
  resources: [clusterresourcesets/status]
  verbs: [patch]
- apiGroups: [addons.cluster.x-k8s.io]
  resources: [clusterresourcesetbindings]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [ipam.cluster.x-k8s.io]
  resources: [ipaddressclaims, ipaddresses]
  verbs: [get, list, patch]
- apiGroups: [ipam.cluster.x-k8s.io]
  resources: [ipaddressclaims/status]
  verbs: [patch]
{{- end }}
{{- if has "kubeadm" $parts }}
- apiGroups: [cluster.x-k8s.io]
  resources: [clusters, machinepools, machinesets]
  verbs: [get, list, watch]
- apiGroups: [cluster.x-k8s.io]
  resources: [machines]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
# The lock by which one machine alone initialises a control plane, and what
# ClusterResourceSets apply.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch, delete]
{{- else }}
# Infrastructure alone, beside upstream's other programs.
{{- if has "aws" $parts }}
- apiGroups: [infrastructure.cluster.x-k8s.io]
  resources: [awsclusters, awsmachines]
  verbs: [get, list, watch, patch]
- apiGroups: [infrastructure.cluster.x-k8s.io]
  resources: [awsclusters/status, awsmachines/status]
  verbs: [patch]
{{- end }}
{{- if has "vsphere" $parts }}
- apiGroups: [infrastructure.cluster.x-k8s.io]
  resources: [vsphereclusters, vspheremachines]
  verbs: [get, list, watch, patch]
- apiGroups: [infrastructure.cluster.x-k8s.io]
  resources: [vsphereclusters/status, vspheremachines/status]
  verbs: [patch]
# The credentials of a VSphereCluster stay for as long as it does.
- apiGroups: [""]
  resources: [secrets]
  verbs: [patch]
{{- end }}
- apiGroups: [cluster.x-k8s.io]
  resources: [clusters, machines]
  verbs: [get, list, watch]
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
{{- end }}
{{- end -}}

{{/* The CRDs of upstream's parts, whose objects are migrated, but for ExtensionConfigs. */}}
{{- define "holdfast.migrated" -}}
{{- $parts := splitList "," (include "holdfast.parts" .) -}}
{{- if has "core" $parts }}
- clusterclasses.cluster.x-k8s.io
- clusterresourcesetbindings.addons.cluster.x-k8s.io
- clusterresourcesets.addons.cluster.x-k8s.io
- clusters.cluster.x-k8s.io
- extensionconfigs.runtime.cluster.x-k8s.io
- ipaddressclaims.ipam.cluster.x-k8s.io
- ipaddresses.ipam.cluster.x-k8s.io
- machinedeployments.cluster.x-k8s.io
- machinedrainrules.cluster.x-k8s.io
- machinehealthchecks.cluster.x-k8s.io
- machinepools.cluster.x-k8s.io
- machines.cluster.x-k8s.io
- machinesets.cluster.x-k8s.io
{{- end }}
{{- if has "kubeadm" $parts }}
- kubeadmconfigs.bootstrap.cluster.x-k8s.io
- kubeadmconfigtemplates.bootstrap.cluster.x-k8s.io
- kubeadmcontrolplanes.controlplane.cluster.x-k8s.io
- kubeadmcontrolplanetemplates.controlplane.cluster.x-k8s.io
{{- end }}
{{- end -}}

{{/* The CRDs that are converted. */}}
{{- define "holdfast.definitions" -}}
{{- $parts := splitList "," (include "holdfast.parts" .) -}}
{{- include "holdfast.migrated" . }}
{{- if has "aws" $parts }}
- awsclustercontrolleridentities.infrastructure.cluster.x-k8s.io
- awsclusterroleidentities.infrastructure.cluster.x-k8s.io
- awsclusters.infrastructure.cluster.x-k8s.io
- awsclusterstaticidentities.infrastructure.cluster.x-k8s.io
- awsclustertemplates.infrastructure.cluster.x-k8s.io
- awsmachines.infrastructure.cluster.x-k8s.io
- awsmachinetemplates.infrastructure.cluster.x-k8s.io
{{- end }}
{{- if has "vsphere" $parts }}
- vsphereclusteridentities.infrastructure.cluster.x-k8s.io
- vsphereclusters.infrastructure.cluster.x-k8s.io
- vsphereclustertemplates.infrastructure.cluster.x-k8s.io
- vspheredeploymentzones.infrastructure.cluster.x-k8s.io
- vspherefailuredomains.infrastructure.cluster.x-k8s.io
- vspheremachines.infrastructure.cluster.x-k8s.io
- vspheremachinetemplates.infrastructure.cluster.x-k8s.io
- vspherevms.infrastructure.cluster.x-k8s.io
{{- end }}
{{- end -}}

{{/* What belongs to no namespace, or is only looked for. */}}
{{- define "holdfast.managedClusterRules" -}}
{{- $parts := splitList "," (include "holdfast.parts" .) -}}
# Which version of a kind fulfils a contract is on its CRD; and objects are kept in
# the newest version that is stored.
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  verbs: [get, list, watch]
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames:
    {{- include "holdfast.definitions" . | trim | nindent 4 }}
  verbs: [patch]
{{- with include "holdfast.migrated" . | replace "- extensionconfigs.runtime.cluster.x-k8s.io\n" "" | trim }}
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions/status]
  resourceNames:
    {{- . | nindent 4 }}
  verbs: [patch]
{{- end }}
# The CA of the webhooks' certificate.
- apiGroups: [admissionregistration.k8s.io]
  resources: [mutatingwebhookconfigurations, validatingwebhookconfigurations]
  resourceNames: [{{ include "holdfast.clusterName" . }}]
  verbs: [get, patch]
{{- if not .Values.reconcilers.takeover }}
# Signs of upstream's own controller managers.
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [list]
- apiGroups: [apps]
  resources: [deployments]
  verbs: [list]
{{- end }}
# clusterctl's list of providers, each of which is told whether it is served.
- apiGroups: [clusterctl.cluster.x-k8s.io]
  resources: [providers]
  verbs: [list, watch, patch]
- apiGroups: [clusterctl.cluster.x-k8s.io]
  resources: [providers/status]
  verbs: [patch]
{{- if has "aws" $parts }}
# The identity "default", of those who name none.
- apiGroups: [infrastructure.cluster.x-k8s.io]
  resources: [awsclustercontrolleridentities]
  verbs: [create]
{{- end }}
{{- if has "core" $parts }}
# Watched by ClusterClasses.
- apiGroups: [runtime.cluster.x-k8s.io]
  resources: [extensionconfigs]
  verbs: [list, watch]
{{- end }}
{{- end -}}
