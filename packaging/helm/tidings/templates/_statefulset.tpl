{{- /* The variables that the arguments name. */}}
{{- define "tidings.env" -}}
{{- $name := include "tidings.name" . -}}
- name: PUBLIC_URL
  valueFrom: {configMapKeyRef: {name: {{ $name }}, key: public-url}}
{{- if .Values.cluster.enabled }}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: CLUSTER
  valueFrom: {configMapKeyRef: {name: {{ $name }}, key: cluster}}
# libpq reads it. A passfile would be readable by the group of the volume.
- name: PGPASSWORD
  valueFrom:
    secretKeyRef:
      {{- toYaml .Values.cluster.journal.passwordSecret | nindent 6 }}
{{- end }}
{{- end }}

{{- define "tidings.mounts" -}}
- {name: data, mountPath: /var/lib/tidings}
- {name: config, mountPath: /etc/tidings/config, readOnly: true}
{{- if .Values.cluster.enabled }}
- {name: journal, mountPath: /etc/tidings/journal, readOnly: true}
{{- end }}
{{- if .Values.tls.secretName }}
- {name: tls, mountPath: /etc/tidings/tls, readOnly: true}
{{- end }}
{{- range $i, $secret := .Values.secrets }}
- {name: secret-{{ $i }}, mountPath: /etc/tidings/secrets/{{ $secret.name }}, readOnly: true}
{{- end }}
{{- end }}

{{- define "tidings.probe" -}}
httpGet: {path: {{ .path | quote }}, port: http{{ if eq .scheme "https" }}, scheme: HTTPS{{ end }}}
{{- end }}

{{- /* A StatefulSet of brokers: `root` is the context of the template, `component` is "broker" or
       "reader", the latter of a cluster alone. */}}
{{- define "tidings.statefulset" -}}
{{- $component := .component -}}
{{- $isReader := eq .component "reader" -}}
{{- with .root -}}
{{- $name := include "tidings.name" . -}}
{{- $scheme := include "tidings.scheme" . -}}
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ $name }}{{ if $isReader }}-reader{{ end }}
  labels:
    {{- include "tidings.selector" . | nindent 4 }}
    app.kubernetes.io/component: {{ $component }}
spec:
  serviceName: {{ $name }}
  {{- if $isReader }}
  replicas: {{ .Values.cluster.readers }}
  {{- else if .Values.cluster.enabled }}
  replicas: {{ .Values.cluster.replicas }}
  # The first broker begins the cluster before the others start.
  podManagementPolicy: OrderedReady
  {{- else }}
  # A data directory has one broker. For more of them: cluster.enabled.
  replicas: 1
  {{- end }}
  selector:
    matchLabels:
      {{- include "tidings.selector" . | nindent 6 }}
      app.kubernetes.io/component: {{ $component }}
  template:
    metadata:
      labels:
        {{- include "tidings.selector" . | nindent 8 }}
        app.kubernetes.io/component: {{ $component }}
        {{- with .Values.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- if or .Values.restartOnChange .Values.podAnnotations }}
      annotations:
        {{- if .Values.restartOnChange }}
        checksum/config: {{ include (print .Template.BasePath "/configmap.yaml") . | sha256sum }}
        {{- end }}
        {{- with .Values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
    spec:
      terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
      enableServiceLinks: false
      automountServiceAccountToken: false
      {{- with .Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      securityContext:
        {{- toYaml .Values.podSecurityContext | nindent 8 }}
      {{- with .Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .Values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- if .Values.cluster.enabled }}
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: {{ if $isReader }}ScheduleAnyway{{ else }}DoNotSchedule{{ end }}
          labelSelector:
            matchLabels:
              {{- include "tidings.selector" . | nindent 14 }}
              app.kubernetes.io/component: {{ $component }}
      {{- end }}
      {{- if and .Values.cluster.enabled (not $isReader) }}
      # The first broker begins the cluster, if the database has none.
      initContainers:
        - name: begin
          image: {{ include "tidings.image" . }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          args:
            - cluster
            - init
            - --unless-begun
            - --data=/var/lib/tidings/data
            - --cluster=$(CLUSTER)
            - --cluster-durable-by={{ .Values.cluster.durableBy }}
            - --public-url=$(PUBLIC_URL)
          env:
            {{- include "tidings.env" . | nindent 12 }}
          volumeMounts:
            {{- include "tidings.mounts" . | nindent 12 }}
          securityContext:
            {{- toYaml .Values.securityContext | nindent 12 }}
      {{- end }}
      containers:
        - name: tidingsd
          image: {{ include "tidings.image" . }}
          imagePullPolicy: {{ .Values.image.pullPolicy }}
          args:
            - --config=/etc/tidings/config/tidingsd.ini
            - --public-url=$(PUBLIC_URL)
            {{- if .Values.cluster.enabled }}
            - --cluster=$(CLUSTER)
            - --cluster-name=$(POD_NAME)
            {{- end }}
            {{- if $isReader }}
            - --cluster-read-only
            {{- end }}
          ports:
            - {name: http, containerPort: 8787}
          env:
            {{- include "tidings.env" . | nindent 12 }}
            {{- with .Values.env }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          volumeMounts:
            {{- include "tidings.mounts" . | nindent 12 }}
          securityContext:
            {{- toYaml .Values.securityContext | nindent 12 }}
          # A broker with a large data directory takes its time.
          startupProbe:
            {{- include "tidings.probe" (dict "path" "/healthz" "scheme" $scheme) | nindent 12 }}
            periodSeconds: 2
            failureThreshold: 300
          # A broker without PostgreSQL, or with a full disk, gets no better by a restart.
          livenessProbe:
            {{- include "tidings.probe" (dict "path" "/healthz" "scheme" $scheme) | nindent 12 }}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          {{- if $isReader }}
          # It takes no posts at any time, and serves reads while PostgreSQL is away.
          {{- end }}
          readinessProbe:
            {{- $ready := ternary "/readyz?for=reads" "/readyz" $isReader }}
            {{- include "tidings.probe" (dict "path" $ready "scheme" $scheme) | nindent 12 }}
            periodSeconds: 1
            timeoutSeconds: 1
            failureThreshold: 2
          resources:
            {{- toYaml .Values.resources | nindent 12 }}
      volumes:
        - name: config
          configMap: {name: {{ $name }}}
        {{- if .Values.cluster.enabled }}
        - name: journal
          secret:
            secretName: {{ .Values.cluster.journal.caSecret.name }}
            items: [{key: {{ .Values.cluster.journal.caSecret.key }}, path: ca.crt}]
        {{- end }}
        {{- with .Values.tls.secretName }}
        - name: tls
          secret: {secretName: {{ . }}, defaultMode: 0400}
        {{- end }}
        {{- range $i, $secret := .Values.secrets }}
        - name: secret-{{ $i }}
          secret: {secretName: {{ $secret.name }}, defaultMode: 0400}
        {{- end }}
  volumeClaimTemplates:
    - metadata:
        name: data
        {{- with .Values.persistence.annotations }}
        annotations:
          {{- toYaml . | nindent 10 }}
        {{- end }}
      spec:
        accessModes: [ReadWriteOnce]
        {{- with .Values.persistence.storageClass }}
        storageClassName: {{ . }}
        {{- end }}
        resources: {requests: {storage: {{ .Values.persistence.size }}}}
{{- end }}
{{- end }}
