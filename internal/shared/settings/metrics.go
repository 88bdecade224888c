package settings

import "strings"

// MetricsNamespace is the beginning of the namespaces of metrics. The name of the function follows.
const MetricsNamespace = "oncebox/"

// Namespace returns the namespace of the metrics of a function. Lambda puts the name of the function into the
// environment (Lambda Developer Guide, "Defined runtime environment variables").
func Namespace(environ []string) string {
	for _, v := range environ {
		if name, ok := strings.CutPrefix(v, "AWS_LAMBDA_FUNCTION_NAME="); ok && name != "" {
			return MetricsNamespace + name
		}
	}
	return MetricsNamespace + "function"
}
