{{- /* Names. A release that is named after the chart gives its name to all objects. */}}
{{- define "tidings.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end }}

{{- define "tidings.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tidings.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "tidings.scheme" -}}
{{ if .Values.tls.secretName }}https{{ else }}http{{ end }}
{{- end }}

{{- define "tidings.publicUrl" -}}
{{- if .Values.publicUrl -}}
{{ .Values.publicUrl }}
{{- else if .Values.cluster.enabled -}}
{{ fail "publicUrl is missing: all brokers of a cluster have the same, which cannot change later" }}
{{- else -}}
{{ printf "%s://%s.%s:%v" (include "tidings.scheme" .) (include "tidings.name" .) .Release.Namespace .Values.service.port }}
{{- end -}}
{{- end }}

{{- /* The host of the public URL, for an Ingress or a route. */}}
{{- define "tidings.host" -}}
{{- $url := required "publicUrl is missing: ingress and route have its host" .Values.publicUrl -}}
{{ (urlParse $url).host | splitList ":" | first }}
{{- end }}

{{- /* The Service of brokers that take posts. */}}
{{- define "tidings.posts" -}}
{{ include "tidings.name" . }}{{ if .Values.cluster.enabled }}-posts{{ end }}
{{- end }}
