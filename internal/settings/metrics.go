package settings

import "strings"

// VarMetrics says whether the log lines of a function have metrics.
const VarMetrics = "ONCEBOX_METRICS"

// MetricsNamespace begins the namespaces of metrics. The name of the function follows.
const MetricsNamespace = "oncebox/"

// Metrics reads VarMetrics. It returns the namespace of the function's metrics, or "" if there are none. The environment
// has the name that Lambda gives to the function (Lambda Developer Guide, "Defined runtime environment variables").
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
