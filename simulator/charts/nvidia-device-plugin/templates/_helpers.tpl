{{- define "lab.name" -}}
{{- .Values.nameOverride | default .Chart.Name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- /* The release's name alone if it says the chart's name already, as in NVIDIA's chart. */ -}}
{{- define "lab.fullname" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- $both := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- .Values.fullnameOverride | default $both | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "lab.namespace" -}}
{{- .Values.namespaceOverride | default .Release.Namespace -}}
{{- end -}}

{{- define "lab.podLabels" -}}
app.kubernetes.io/name: {{ include "lab.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- with .Values.selectorLabelsOverride }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "lab.selector" -}}
{{- if .Values.selectorLabelsOverride -}}
{{ toYaml .Values.selectorLabelsOverride }}
{{- else -}}
{{ include "lab.podLabels" . }}
{{- end -}}
{{- end -}}

{{- define "lab.labels" -}}
helm.sh/chart: {{ printf "%s-%s" (include "lab.name" .) .Chart.Version }}
{{ include "lab.podLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "lab.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default (printf "v%s" .Chart.AppVersion) }}
{{- end -}}

{{- /* Name of the ConfigMap with the named configurations; empty if there are none. */ -}}
{{- define "lab.configMap" -}}
{{- if .Values.config.name -}}
{{ .Values.config.name }}
{{- else if .Values.config.map -}}
{{ include "lab.fullname" . }}-configs
{{- end -}}
{{- end -}}

{{- /* config-manager: (dict "root" . "name" container "program" to-signal "once" bool) */ -}}
{{- define "lab.configManager" -}}
- name: {{ .name }}
  image: {{ include "lab.image" .root }}
  command: [config-manager]
  env:
    - {name: ONESHOT, value: {{ .once | quote }}}
    - {name: KUBECONFIG, value: ""}
    - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    - {name: NODE_LABEL, value: nvidia.com/device-plugin.config}
    - {name: CONFIG_FILE_SRCDIR, value: /available-configs}
    - {name: CONFIG_FILE_DST, value: /config/config.yaml}
    - {name: DEFAULT_CONFIG, value: {{ .root.Values.config.default | quote }}}
    - {name: FALLBACK_STRATEGIES, value: {{ join "," .root.Values.config.fallbackStrategies | quote }}}
    - {name: SEND_SIGNAL, value: {{ not .once | quote }}}
    - {name: SIGNAL, value: {{ ternary "" "1" .once | quote }}}
    - {name: PROCESS_TO_SIGNAL, value: {{ ternary "" .program .once | quote }}}
  volumeMounts:
    - {name: available-configs, mountPath: /available-configs}
    - {name: config, mountPath: /config}
{{- end -}}

{{- /* One DaemonSet: (dict "root" . "name" its-name "program" command "env" list-of-name-and-value
       "security" context-or-none "nodeSelector" more-or-none) */ -}}
{{- define "lab.daemonSet" -}}
{{- $root := .root -}}
{{- $values := .root.Values -}}
{{- $configMap := include "lab.configMap" .root -}}
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ .name | trunc 63 | trimSuffix "-" }}
  namespace: {{ include "lab.namespace" $root }}
  labels: {{- include "lab.labels" $root | nindent 4 }}
spec:
  selector:
    matchLabels: {{- include "lab.selector" $root | nindent 6 }}
  updateStrategy: {{- toYaml $values.updateStrategy | nindent 4 }}
  template:
    metadata:
      labels: {{- include "lab.podLabels" $root | nindent 8 }}
      annotations:
        {{- if $values.config.map }}
        checksum/config: {{ toYaml $values.config.map | sha256sum }}
        {{- end }}
        {{- with $values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      priorityClassName: {{ $values.priorityClassName }}
      {{- with $values.runtimeClassName }}
      runtimeClassName: {{ . }}
      {{- end }}
      {{- with $values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.podSecurityContext }}
      securityContext: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if $configMap }}
      serviceAccountName: {{ include "lab.fullname" $root }}-service-account
      shareProcessNamespace: true
      initContainers:
        {{- dict "root" $root "name" (printf "%s-init" .program) "program" .program "once" true
            | include "lab.configManager" | nindent 8 }}
      {{- end }}
      containers:
        {{- if $configMap }}
        {{- dict "root" $root "name" (printf "%s-sidecar" .program) "program" .program "once" false
            | include "lab.configManager" | nindent 8 }}
        {{- end }}
        - name: {{ .program }}-ctr
          image: {{ include "lab.image" $root }}
          imagePullPolicy: {{ $values.image.pullPolicy }}
          command: [{{ .program }}]
          env:
            {{- range .env }}
            - {name: {{ .name }}, value: {{ .value | quote }}}
            {{- end }}
            {{- if $configMap }}
            - {name: CONFIG_FILE, value: /config/config.yaml}
            {{- end }}
            - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
          {{- with .security }}
          securityContext: {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- with $values.resources }}
          resources: {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- if $configMap }}
          volumeMounts:
            - {name: available-configs, mountPath: /available-configs}
            - {name: config, mountPath: /config}
          {{- end }}
      {{- if $configMap }}
      volumes:
        - {name: available-configs, configMap: {name: {{ $configMap }}}}
        - {name: config, emptyDir: {}}
      {{- end }}
      {{- with merge (dict) (.nodeSelector | default dict) $values.nodeSelector }}
      nodeSelector: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.affinity }}
      affinity: {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $values.tolerations }}
      tolerations: {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end -}}

{{- /* Environment from values, as NVIDIA's templates do it: one of another type than expected is left out silently.
       (dict "values" .Values "types" (dict "migStrategy" "string" ...)  "names" (dict "migStrategy" "MIG_STRATEGY" ...)) */ -}}
{{- define "lab.environment" -}}
{{- $list := list -}}
{{- range $key, $name := .names -}}
{{- $value := get $.values $key -}}
{{- if has (kindOf $value) (get $.types $key | default (list "string")) -}}
{{- $list = append $list (dict "name" $name "value" (toString $value)) -}}
{{- end -}}
{{- end -}}
{{- toJson $list -}}
{{- end -}}
