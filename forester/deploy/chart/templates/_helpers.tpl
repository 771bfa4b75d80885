{{- define "forester.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "forester.selector" -}}
app.kubernetes.io/name: forester
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "forester.labels" -}}
{{ include "forester.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "forester.image" -}}
{{- with .Values.image -}}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end -}}
{{- end }}
{{- end }}

{{- /* Pod-level fields that the daemon and the CronJob share. */ -}}
{{- define "forester.pod" -}}
automountServiceAccountToken: false
serviceAccountName: {{ include "forester.name" . }}
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
{{- range $name := list "nodeSelector" "tolerations" "affinity" }}
{{- with index $.Values $name }}
{{ $name }}: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "forester.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* Variables of the daemon and of the CronJob: both read the settings. */ -}}
{{- define "forester.env" -}}
- {name: FORESTER_SECRETS_DIR, value: /run/secrets/forester}
- {name: FORESTER_LOG, value: {{ .Values.logLevel }}}
{{- /* Arguments of the daemon override these, or the chart sets them itself: two entries of one name break upgrades. */ -}}
{{- $elsewhere := dict "PROCESSOR_MODE" "filters.processorMode" "API_SERVER_PORT" "port" -}}
{{- $_ := set $elsewhere "JOURNAL_PATH" "journal.existing" -}}
{{- $_ := set $elsewhere "API_SERVER_PUBLIC_BIND" "networkPolicy" -}}
{{- $_ := set $elsewhere "SECRETS_DIR" "existingSecret" -}}
{{- range list "LOG" "RUST_LOG" -}}{{- $_ := set $elsewhere . "logLevel" -}}{{- end }}
{{- range $name, $value := .Values.settings }}
{{- with get $elsewhere (trimPrefix "FORESTER_" $name) }}
{{ fail (printf "settings.%s has no effect in this chart; use %s of the values" $name .) }}
{{- end }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}

{{- define "forester.secretVolume" -}}
name: secrets
secret: {secretName: {{ .Values.existingSecret }}, defaultMode: 0440}
{{- end }}
