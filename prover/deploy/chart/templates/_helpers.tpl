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

{{- /* Values of a component: those of `component`, then its own. Tag and digest belong to their repository. */ -}}
{{- define "prover.component" -}}
{{- $image := .root.Values.image -}}
{{- if (.own.image | default dict).repository -}}{{- $image = pick $image "pullPolicy" -}}{{- end -}}
{{- toYaml (mergeOverwrite (deepCopy .root.Values.component) (dict "image" (deepCopy $image)) (deepCopy .own)) -}}
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
{{- if or (not (include "prover.hasClaim" .)) (has "ReadWriteMany" $modes) }}true{{ end -}}
{{- end }}

{{- /* Affinity of a pod that mounts the keys: root, name, affinity. All such pods, the Job's included, are on one node if
the claim cannot be mounted on more; the first one may choose it, because it matches the only required term itself. */ -}}
{{- define "prover.affinity" -}}
{{- $affinity := deepCopy (.affinity | default dict) -}}
{{- if not (include "prover.rolls" .root) -}}
{{- $ours := dict "key" "app.kubernetes.io/name" "operator" "In" "values" (list "prover" "prover-keys") -}}
{{- $selector := dict "matchLabels" (dict "app.kubernetes.io/instance" .root.Release.Name) "matchExpressions" (list $ours) -}}
{{- $pods := $affinity.podAffinity | default dict -}}
{{- if $pods.requiredDuringSchedulingIgnoredDuringExecution -}}
{{- $message := "affinity of %s has a required podAffinity, with which no pod could start: the keys are on a claim for one node, for which the chart requires a podAffinity of its own. Make it preferred, or use a claim with ReadWriteMany (keys.claim.accessModes)" -}}
{{- fail (printf $message .name) -}}
{{- end -}}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" $selector -}}
{{- $_ := set $pods "requiredDuringSchedulingIgnoredDuringExecution" (list $term) -}}
{{- $_ := set $affinity "podAffinity" $pods -}}
{{- end -}}
{{- with $affinity -}}{{ toYaml . }}{{- end -}}
{{- end }}

{{- /* Options that select keys: runMode, circuits. */ -}}
{{- define "prover.selection" -}}
{{- with .runMode }}
- --run-mode={{ . }}
{{- end }}
{{- range .circuits }}
- --circuit={{ . }}
{{- end }}
- --keys-dir=/keys
{{- end }}

{{- /* runMode and circuits of a component; without both, those of `keys`: root, values of the component. */ -}}
{{- define "prover.ownOrKeys" -}}
{{- $own := or .values.runMode .values.circuits -}}
{{- toYaml (pick (ternary .values .root.Values.keys (not (empty $own))) "runMode" "circuits") -}}
{{- end }}

{{- /* runMode and circuits of an instance: root, values, serves. A job without its key would fail, so an instance that takes
jobs takes only those of keys that the chart installs. */ -}}
{{- define "prover.served" -}}
{{- $takesJobs := and .root.Values.redis.existingSecret (or (not .serves) .values.proveJobs) -}}
{{- if and $takesJobs (ne .root.Values.keys.source "image") -}}
{{ include "prover.ownOrKeys" . }}
{{- else -}}
{{ toYaml (pick .values "runMode" "circuits") }}
{{- end -}}
{{- end }}

{{- /* root, selection. */ -}}
{{- define "prover.downloadArgs" -}}
- download
{{- include "prover.selection" .selection }}
{{- with .root.Values.keys.downloadUrl }}
- --download-url={{ . }}
{{- end }}
{{- end }}

{{- /* root, selection. */ -}}
{{- define "prover.prepareArgs" -}}
- keys
- prepare
{{- include "prover.selection" .selection }}
{{- if eq .root.Values.keys.fold "always" }}
- --fold
{{- else if eq .root.Values.keys.fold "never" }}
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

{{- /* A container that ends when the Job has installed the keys of a pod: root, values of the component. */ -}}
{{- define "prover.keysWait" -}}
name: keys
image: {{ include "prover.image" (merge (dict "appVersion" .root.Chart.AppVersion) .values.image) }}
imagePullPolicy: {{ .values.image.pullPolicy }}
# The log names the keys that are missing: those without a size.
command:
  - tini
  - -s
  - --
  - sh
  - -c
  - while list=$(prover "$@") || exit; echo "$list" | grep -E '^[^ ]+ +- '; do sleep 10; done
  - keys
args:
  - keys
  - list
  {{- include "prover.selection" (include "prover.ownOrKeys" . | fromYaml) | trim | nindent 2 }}
resources: {{- toYaml .values.resources | nindent 2 }}
securityContext: {{- include "prover.containerSecurity" .root | nindent 2 }}
volumeMounts:
  - {name: keys, mountPath: /keys, readOnly: true}
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

{{- /* Bytes of a quantity of Kubernetes, such as 3Gi, 500M or 1e9. */ -}}
{{- define "prover.bytes" -}}
{{- $decimal := dict "" 1.0 "m" 0.001 "k" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "P" 1e15 "E" 1e18 -}}
{{- $binary := dict "Ki" 1024.0 "Mi" 1048576.0 "Gi" 1073741824.0 "Ti" 1099511627776.0 "Pi" 1125899906842624.0 -}}
{{- $number := regexFind "^[0-9.]+([eE][+-]?[0-9]+)?" . -}}
{{- mulf (float64 $number) (get (merge $binary $decimal) (trimPrefix $number .)) -}}
{{- end }}

{{- /* Maximum bytes of bodies in each queue. Redis needs up to a third more: all nine fit into nine tenths of the trial
Redis, beyond which submissions are refused. */ -}}
{{- define "prover.trialQueueBytes" -}}
{{- $unit := ternary 1073741824 1048576 (hasSuffix "gb" .) -}}
{{- div (mul (regexFind "^[0-9]+" . | int64) $unit 3) 40 -}}
{{- end }}

{{- /* Fails for bounds of replicas that exclude each other: name, values. */ -}}
{{- define "prover.replicaBounds" -}}
{{- if gt (int .values.minReplicas) (int .values.maxReplicas) -}}
{{- fail (printf "%s: minReplicas (%v) is above maxReplicas (%v)" .name .values.minReplicas .values.maxReplicas) -}}
{{- end -}}
{{- end }}

{{- /* Queues that hold the jobs of a run mode and of some circuits, without a network and of each; all without both. */ -}}
{{- define "prover.queues" -}}
{{- $found := dict -}}
{{- if eq .runMode "rpc" -}}
{{- $_ := set $found "update" true -}}
{{- else if .runMode -}}
{{- $found = dict "address_append" true "append" true "update" true -}}
{{- end -}}
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
