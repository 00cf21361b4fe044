{{/* The container's environment: where credentials come from. */}}
{{- define "holdfast.env" -}}
env:
  # The pod that events about policy files are about.
  {{- range $name, $field := dict "POD_NAME" "metadata.name" "POD_NAMESPACE" "metadata.namespace" "POD_UID" "metadata.uid" }}
  - name: {{ $name }}
    valueFrom:
      fieldRef:
        fieldPath: {{ $field }}
  {{- end }}
  {{- with include "holdfast.goMemLimit" . }}
  - name: GOMEMLIMIT
    value: {{ . }}
  {{- end }}
  - name: HOLDFAST_CAPA_NAMESPACE
    value: {{ .Values.aws.controllerNamespace }}
  {{- with .Values.aws.region }}
  - name: AWS_REGION
    value: {{ . }}
  {{- end }}
  {{- with .Values.aws.credentialsSecret }}
  {{- range $key := list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" "AWS_SESSION_TOKEN" }}
  - name: {{ $key }}
    valueFrom:
      secretKeyRef:
        name: {{ $.Values.aws.credentialsSecret }}
        key: {{ $key }}
        {{- if eq $key "AWS_SESSION_TOKEN" }}
        optional: true
        {{- end }}
  {{- end }}
  {{- end }}
  - name: VSPHERE_CONTROLLER_NAMESPACE
    value: {{ .Values.vsphere.controllerNamespace }}
  {{- with .Values.vsphere.server }}
  - name: VSPHERE_SERVER
    value: {{ . | quote }}
  {{- end }}
  {{- with .Values.vsphere.credentialsSecret }}
  - name: VSPHERE_USERNAME
    valueFrom:
      secretKeyRef:
        name: {{ . }}
        key: username
  - name: VSPHERE_PASSWORD
    valueFrom:
      secretKeyRef:
        name: {{ . }}
        key: password
  {{- end }}
  {{- with .Values.vsphere.caConfigMap }}
  - name: VSPHERE_CA_FILE
    value: /etc/holdfast/vsphere-ca/ca.crt
  {{- end }}
  {{- with .Values.extraEnv }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end -}}
