{{- /* Deployment of a component: root, name, own (its values), serves (whether it has the API). */ -}}
{{- define "prover.deployment" -}}
{{- $root := .root -}}
{{- $values := include "prover.component" . | fromYaml -}}
{{- $queue := $root.Values.redis.existingSecret -}}
{{- $source := $root.Values.keys.source -}}
{{- $served := include "prover.served" (dict "root" $root "values" $values "serves" .serves) | fromYaml -}}
{{- if and (eq $values.gpu.device "cpu") $values.gpu.count -}}
{{- fail (printf "gpu of %s: device cpu uses no GPU; set gpu.count to 0, or gpu.device to cuda or auto" .name) -}}
{{- else if and (hasPrefix "cuda" $values.gpu.device) (not $values.gpu.count) -}}
{{- fail (printf "gpu of %s: device %s needs a GPU; set gpu.count to at least 1" .name $values.gpu.device) -}}
{{- end -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ include "prover.name" $root }}-{{ .name }}
  labels: {{- include "prover.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .name }}
spec:
  {{- if not .scaled }}
  replicas: {{ $values.replicas }}
  {{- end }}
  # The keys may be downloaded first.
  progressDeadlineSeconds: 3600
  strategy:
    {{- if not (include "prover.rolls" $root) }}
    # The claim is for one node.
    type: Recreate
    {{- else if and $values.gpu.count (not .serves) }}
    # A new pod could wait for another GPU for ever. Meanwhile jobs wait in the queue.
    rollingUpdate: {maxUnavailable: 1, maxSurge: 0}
    {{- else }}
    rollingUpdate: {maxUnavailable: 0, maxSurge: 1}
    {{- end }}
  selector:
    matchLabels: {{- include "prover.selector" $root | nindent 6 }}
      app.kubernetes.io/component: {{ .name }}
  template:
    metadata:
      labels: {{- include "prover.labels" $root | nindent 8 }}
        app.kubernetes.io/component: {{ .name }}
      {{- with $values.podAnnotations }}
      annotations: {{- toYaml . | nindent 8 }}
      {{- end }}
    spec:
      serviceAccountName: {{ include "prover.name" $root }}
      automountServiceAccountToken: false
      # A Service named prover would set PROVER_… variables.
      enableServiceLinks: false
      terminationGracePeriodSeconds: {{ add $values.drainDelaySeconds $values.drainDeadlineSeconds 15 }}
      {{- with $root.Values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext: {{- include "prover.podSecurity" $root | nindent 8 }}
      {{- if eq $source "init" }}
      {{- $selected := dict "root" $root "selection" (include "prover.ownOrKeys" (dict "root" $root "values" $values) | fromYaml) }}
      initContainers:
        - {{- include "prover.keysContainer" (dict "root" $root "name" "download" "args" (include "prover.downloadArgs" $selected)) | nindent 10 }}
        {{- if $root.Values.keys.prepare }}
        - {{- include "prover.keysContainer" (dict "root" $root "name" "prepare" "args" (include "prover.prepareArgs" $selected)) | nindent 10 }}
        {{- end }}
      {{- else if eq $source "job" }}
      # A worker without the key of a job would fail the job.
      initContainers:
        - {{- include "prover.keysWait" (dict "root" $root "values" $values) | nindent 10 }}
      {{- end }}
      containers:
        - name: prover
          image: {{ include "prover.image" (merge (dict "appVersion" $root.Chart.AppVersion) $values.image) }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          args:
            - start
            - --keys-dir=/keys
            - --metrics-address=[::]:9998
            {{- if .serves }}
            - --prover-address=[::]:3001
            {{- if and $queue (not $values.proveJobs) }}
            - --no-workers
            {{- end }}
            {{- else }}
            - --queue-only
            {{- end }}
            {{- with $served.runMode }}
            - --run-mode={{ . }}
            {{- end }}
            {{- range $served.circuits }}
            - --circuit={{ . }}
            {{- end }}
            - --preload-keys={{ $values.preload }}
            {{- with $values.threads }}
            - --threads={{ . }}
            {{- end }}
            {{- with $values.maxConcurrency }}
            - --max-concurrency={{ . }}
            {{- if not (or $.serves (hasKey $values.settings "PROVER_QUEUE__SLOTS") (hasKey $values.settings "PROVER_MAX_CONCURRENCY")) }}
            - --queue-slots={{ min . 100 }}
            {{- end }}
            {{- end }}
            - --device={{ $values.gpu.device }}
            - --drain-delay={{ $values.drainDelaySeconds }}
            - --drain-deadline={{ $values.drainDeadlineSeconds }}
          {{- with include "prover.env" (dict "root" $root "serves" .serves "settings" $values.settings) | trim }}
          env: {{- . | nindent 12 }}
          {{- end }}
          ports:
            {{- if .serves }}
            - {name: api, containerPort: 3001}
            {{- end }}
            - {name: metrics, containerPort: 9998}
          # Without the delay each start begins with a failed probe.
          startupProbe:
            httpGet: {path: /startupz, port: metrics}
            initialDelaySeconds: 5
            periodSeconds: 2
            timeoutSeconds: 5
            failureThreshold: 60
          readinessProbe:
            httpGet: {path: /readyz, port: metrics}
            periodSeconds: 5
            timeoutSeconds: 5
          livenessProbe:
            httpGet: {path: /livez, port: metrics}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 3
          resources:
            {{- $resources := deepCopy $values.resources }}
            {{- if $values.gpu.count }}
            {{- $resources = mergeOverwrite $resources (dict "limits" (dict $values.gpu.resource $values.gpu.count)) }}
            {{- end }}
            {{- toYaml $resources | nindent 12 }}
          securityContext: {{- include "prover.containerSecurity" $root | nindent 12 }}
          volumeMounts:
            {{- if ne $source "image" }}
            - {name: keys, mountPath: /keys{{ if eq $source "job" }}, readOnly: true{{ end }}}
            {{- end }}
            - {name: tmp, mountPath: /tmp}
            {{- if $queue }}
            - {name: redis, mountPath: /run/secrets/redis, readOnly: true}
            {{- end }}
            {{- if and .serves $root.Values.apiKeys.existingSecret }}
            - {name: api-keys, mountPath: /run/secrets/api-keys, readOnly: true}
            {{- end }}
      volumes:
        {{- if include "prover.hasClaim" $root }}
        - {name: keys, persistentVolumeClaim: {claimName: {{ include "prover.claim" $root }}}}
        {{- else if eq $source "init" }}
        - {name: keys, emptyDir: {sizeLimit: {{ $root.Values.keys.claim.size }}}}
        {{- end }}
        - {name: tmp, emptyDir: {sizeLimit: 256Mi}}
        {{- if $queue }}
        - name: redis
          secret: {secretName: {{ $queue }}, defaultMode: 0440, items: [{key: url, path: url}]}
        {{- end }}
        {{- if and .serves $root.Values.apiKeys.existingSecret }}
        - name: api-keys
          secret: {secretName: {{ $root.Values.apiKeys.existingSecret }}, defaultMode: 0440, items: [{key: api-keys, path: api-keys}]}
        {{- end }}
      {{- with $values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with include "prover.affinity" (dict "root" $root "name" .name "affinity" $values.affinity) }}
      affinity: {{- . | nindent 8 }}
      {{- end }}
      {{- if include "prover.rolls" $root }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels: {{- include "prover.selector" $root | nindent 14 }}
              app.kubernetes.io/component: {{ .name }}
      {{- end }}
{{- end }}

{{- define "prover.env" -}}
{{- if .root.Values.redis.existingSecret }}
- {name: REDIS_URL_FILE, value: /run/secrets/redis/url}
{{- end }}
{{- if and .serves .root.Values.apiKeys.existingSecret }}
- {name: PROVER_HTTP__API_KEYS_FILE, value: /run/secrets/api-keys/api-keys}
{{- end }}
{{- with .root.Values.redis.trial }}
{{- if and .enabled (not (hasKey $.settings "PROVER_QUEUE__MEMORY_LIMIT_BYTES")) }}
- {name: PROVER_QUEUE__MEMORY_LIMIT_BYTES, value: {{ include "prover.trialQueueBytes" .maxMemory | quote }}}
{{- end }}
{{- end }}
{{- range $name, $value := .settings }}
- {name: {{ $name }}, value: {{ $value | quote }}}
{{- end }}
{{- end }}
