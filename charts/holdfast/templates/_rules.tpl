{{/* The verbs in use, as docs/controller-observe.yaml, docs/controller-reports.yaml
     and docs/controller-enforce.yaml have them; a test compares them. */}}

{{- define "holdfast.observeRules" -}}
# What is compared, and what it is compared with.
- apiGroups: [cluster.x-k8s.io]
  resources: [clusters, machines]
  verbs: [get, list, watch]
- apiGroups: [cluster.x-k8s.io]
  resources: [machinesets, machinedeployments, machinehealthchecks, machinepools]
  verbs: [list]
- apiGroups: [bootstrap.cluster.x-k8s.io, controlplane.cluster.x-k8s.io]
  resources: ["*"]
  verbs: [list]
- apiGroups: [infrastructure.cluster.x-k8s.io]
  resources: ["*"]
  verbs: [get, list, watch]
# Identities' credentials, the kubeconfigs of workload clusters, and the URLs of
# notifications.
- apiGroups: [""]
  resources: [secrets]
  verbs: [get]
# Conditions.
- apiGroups: [cluster.x-k8s.io]
  resources: [clusters/status, machines/status]
  verbs: [patch]
- apiGroups: [infrastructure.cluster.x-k8s.io]
  resources: [awsclusters/status, awsmachines/status, vsphereclusters/status, vspheremachines/status]
  verbs: [patch]
# The answer to a request for a sweep, an annotation.
- apiGroups: [cluster.x-k8s.io]
  resources: [clusters]
  verbs: [patch]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
# What is done about drift.
- apiGroups: [drift.holdfast.io]
  resources: [remediations]
  verbs: [get, list, watch]
{{- if .Values.reports.enabled }}
# Reports.
- apiGroups: [openreports.io]
  resources: [reports]
  verbs: [get, list, create, patch, delete]
{{- end }}
{{- end -}}

{{/* What belongs to no namespace. */}}
{{- define "holdfast.observeClusterRules" -}}
# The namespaces that identities allow.
- apiGroups: [""]
  resources: [namespaces]
  verbs: [get]
  {{- with .Values.watchNamespace }}
  resourceNames: [{{ . }}]
  {{- end }}
{{- if .Values.policyObjects }}
# Policies.
- apiGroups: [drift.holdfast.io]
  resources: [driftpolicies]
  verbs: [get, list, watch]
- apiGroups: [drift.holdfast.io]
  resources: [driftpolicies/status]
  verbs: [update]
{{- end }}
# Who may read metrics.
- apiGroups: [authentication.k8s.io]
  resources: [tokenreviews]
  verbs: [create]
- apiGroups: [authorization.k8s.io]
  resources: [subjectaccessreviews]
  verbs: [create]
{{- end -}}

{{- define "holdfast.enforceRules" -}}
# Records, written before anything is done, and deleted when they are old.
- apiGroups: [drift.holdfast.io]
  resources: [remediations]
  verbs: [create, update, delete]
- apiGroups: [drift.holdfast.io]
  resources: [remediations/status]
  verbs: [update]
# Replacing through Cluster API: annotations and conditions that its controllers
# honour, deletion of a Machine that is replaced, and one machine more before.
- apiGroups: [cluster.x-k8s.io]
  resources: [machines]
  verbs: [patch, delete]
- apiGroups: [cluster.x-k8s.io]
  resources: [machines/status]
  verbs: [patch]
- apiGroups: [cluster.x-k8s.io]
  resources: [machinesets]
  verbs: [get]
- apiGroups: [cluster.x-k8s.io]
  resources: [machinedeployments]
  verbs: [get, patch]
- apiGroups: [controlplane.cluster.x-k8s.io]
  resources: ["*"]
  verbs: [get]
# Draining a node before a patch that stops its machine.
- apiGroups: [cluster.x-k8s.io]
  resources: [machinedrainrules]
  verbs: [list]
{{- end -}}

{{/* A role and its binding to the ServiceAccount. "namespace" is empty for a
     ClusterRole. */}}
{{- define "holdfast.role" -}}
{{- $kind := ternary "Role" "ClusterRole" (ne .namespace "") -}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "holdfast.labels" .root | nindent 4 }}
rules:
  {{- .rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ $kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "holdfast.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ $kind }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "holdfast.serviceAccountName" .root }}
    namespace: {{ .root.Release.Namespace }}
{{ end -}}
