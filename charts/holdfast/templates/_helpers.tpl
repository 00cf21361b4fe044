{{- define "holdfast.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "holdfast.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "holdfast.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "holdfast.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What has no namespace is called after the release's, so that a second
     installation elsewhere does not meet it. */}}
{{- define "holdfast.clusterName" -}}
{{- if eq .Release.Namespace (include "holdfast.fullname" .) -}}
{{- .Release.Namespace -}}
{{- else -}}
{{- printf "%s-%s" .Release.Namespace (include "holdfast.fullname" .) -}}
{{- end -}}
{{- end -}}

{{- define "holdfast.selectorLabels" -}}
app.kubernetes.io/name: {{ include "holdfast.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "holdfast.labels" -}}
{{ include "holdfast.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/part-of: holdfast
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "holdfast.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "holdfast.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "holdfast.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "holdfast.policiesConfigMap" -}}
{{- default (printf "%s-policies" (include "holdfast.fullname" .)) .Values.policiesConfigMap -}}
{{- end -}}

{{/* The configuration file. `config` cannot hold what stands before it: the
     schema of the values has none of those keys. */}}
{{- define "holdfast.config" -}}
{{- $c := dict
  "apiVersion" "drift.holdfast.io/v1alpha1"
  "kind" "ControllerConfiguration"
  "policyObjects" .Values.policyObjects
  "nodes" .Values.nodes
  "reports" .Values.reports.enabled
  "leaderElect" true
  "leaderElectionId" (include "holdfast.fullname" .)
  "leaderElectionNamespace" .Release.Namespace
  "metricsBindAddress" (printf ":%d" (int .Values.metrics.port))
  "healthProbeBindAddress" ":8081"
  "logLevel" .Values.logLevel
  "logFormat" .Values.logFormat -}}
{{- if or .Values.policies .Values.policiesConfigMap -}}
{{- $_ := set $c "policy" (list "/etc/holdfast/policies") -}}
{{- end -}}
{{- with .Values.watchNamespace }}{{ $_ := set $c "namespace" . }}{{ end -}}
{{- with .Values.aws.eventQueue }}{{ $_ := set $c "awsEventQueue" . }}{{ end -}}
{{- with .Values.aws.eventQueues }}{{ $_ := set $c "awsEventQueues" . }}{{ end -}}
{{- with .Values.metrics.tls.secretName }}{{ $_ := set $c "metricsCertDir" "/etc/holdfast/metrics-tls" }}{{ end -}}
{{- with .Values.notify }}{{ $_ := set $c "notify" . }}{{ end -}}
{{- toYaml (merge $c (include "holdfast.managedConfig" . | fromYaml) .Values.config) -}}
{{- end -}}

{{/* Four fifths of the memory limit, so that garbage does not stand beside what is
     in use; nothing where the limit is in no unit that Go knows. */}}
{{- define "holdfast.goMemLimit" -}}
{{- $limit := toString (dig "limits" "memory" "" .Values.resources) -}}
{{- if regexMatch "^[0-9]+Gi$" $limit -}}
{{- printf "%dMiB" (div (mul (int64 (trimSuffix "Gi" $limit)) 1024 4) 5) -}}
{{- else if regexMatch "^[0-9]+Mi$" $limit -}}
{{- printf "%dMiB" (div (mul (int64 (trimSuffix "Mi" $limit)) 4) 5) -}}
{{- end -}}
{{- end -}}

{{/* What Prometheus needs to believe the endpoint. */}}
{{- define "holdfast.monitorTLS" -}}
{{- if .monitor.tlsConfig -}}
{{- toYaml .monitor.tlsConfig -}}
{{- else if .root.Values.metrics.tls.secretName -}}
ca:
  secret:
    name: {{ .root.Values.metrics.tls.secretName }}
    key: ca.crt
serverName: {{ include "holdfast.fullname" .root }}.{{ .root.Release.Namespace }}.svc
{{- else -}}
insecureSkipVerify: true
{{- end -}}
{{- end -}}
