package settings

import "strings"

// VarMetrics says whether the log lines of a function have metrics.
const VarMetrics = "ONCEBOX_METRICS"

// MetricsNamespace is the beginning of the namespaces of metrics. The name of the function follows.
const MetricsNamespace = "oncebox/"

// Metrics reads VarMetrics. It returns the namespace of the function's metrics, or "" if metrics are off. Lambda puts
// the name of the function into the environment (Lambda Developer Guide, "Defined runtime environment variables").
func (p *Parser) Metrics(environ []string) (namespace string) {
	if !p.Switch(VarMetrics, false) {
		return ""
	}
	for _, v := range environ {
		if name, ok := strings.CutPrefix(v, "AWS_LAMBDA_FUNCTION_NAME="); ok && name != "" {
			return MetricsNamespace + name
		}
	}
	return MetricsNamespace + "function"
}
