{{- define "prover.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "prover.selector" -}}
app.kubernetes.io/name: prover
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "prover.labels" -}}
{{ include "prover.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "prover.image" -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default .appVersion }}
{{- end }}
{{- end }}

{{- define "prover.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "prover.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* Values of a component: those of `component`, then its own. */ -}}
{{- define "prover.component" -}}
{{- toYaml (mergeOverwrite (deepCopy .root.Values.component) (dict "image" (deepCopy .root.Values.image)) (deepCopy .own)) -}}
{{- end }}

{{- define "prover.claim" -}}
{{- .Values.keys.claim.existing | default (printf "%s-keys" (include "prover.name" .)) -}}
{{- end }}

{{- /* "true" if the keys are on a claim. */ -}}
{{- define "prover.hasClaim" -}}
{{- if or (eq .Values.keys.source "job") (and (eq .Values.keys.source "init") .Values.keys.claim.enabled) }}true{{ end -}}
{{- end }}

{{- /* "true" if pods of two nodes can have the keys at once. */ -}}
{{- define "prover.rolls" -}}
{{- $modes := .Values.keys.claim.accessModes -}}
{{- if or (not (include "prover.hasClaim" .)) (has "ReadWriteMany" $modes) (has "ReadOnlyMany" $modes) }}true{{ end -}}
{{- end }}

{{- define "prover.selection" -}}
{{- with .Values.keys.runMode }}
- --run-mode={{ . }}
{{- end }}
{{- range .Values.keys.circuits }}
- --circuit={{ . }}
{{- end }}
- --keys-dir=/keys
{{- end }}

{{- define "prover.downloadArgs" -}}
- download
{{- include "prover.selection" . }}
{{- with .Values.keys.downloadUrl }}
- --download-url={{ . }}
{{- end }}
{{- end }}

{{- define "prover.prepareArgs" -}}
- keys
- prepare
{{- include "prover.selection" . }}
{{- if eq .Values.keys.fold "always" }}
- --fold
{{- else if eq .Values.keys.fold "never" }}
- --no-fold
{{- end }}
{{- end }}

{{- /* A container that works on the keys: name, args. */ -}}
{{- define "prover.keysContainer" -}}
name: {{ .name }}
image: {{ include "prover.image" (merge (dict "appVersion" .root.Chart.AppVersion) .root.Values.image) }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
args: {{- .args | nindent 2 }}
resources: {{- toYaml .root.Values.keys.resources | nindent 2 }}
securityContext: {{- include "prover.containerSecurity" . | nindent 2 }}
volumeMounts:
  - {name: keys, mountPath: /keys}
  - {name: tmp, mountPath: /tmp}
{{- end }}

{{- define "prover.redisAddress" -}}
{{- if .Values.redis.address -}}
{{ .Values.redis.address }}
{{- else if .Values.redis.trial.enabled -}}
{{ include "prover.name" . }}-redis.{{ .Release.Namespace }}.svc:6379
{{- else -}}
{{ fail "autoscaling needs redis.address (host:port)" }}
{{- end }}
{{- end }}

{{- /* Queues that hold the jobs of some circuits, without a network and of each; without circuits all of them. */ -}}
{{- define "prover.queues" -}}
{{- $found := dict -}}
{{- range .circuits -}}
{{- if regexMatch "address[-_]append" . -}}{{- $_ := set $found "address_append" true -}}
{{- else if regexMatch "append" . -}}{{- $_ := set $found "append" true -}}
{{- else -}}{{- $_ := set $found "update" true -}}
{{- end -}}
{{- end -}}
{{- $queues := list -}}
{{- range $circuit := $found | keys | sortAlpha | default (list "address_append" "append" "update") -}}
{{- $queues = concat $queues (list $circuit (print $circuit "_mainnet") (print $circuit "_devnet")) -}}
{{- end -}}
{{- $queues | join "," -}}
{{- end }}
