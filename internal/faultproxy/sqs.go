package faultproxy

// OfSQS returns the faults that SendMessage can meet.
func OfSQS() []Fault {
	return []Fault{Refuse, Drop, Cut, ErrorBefore, ErrorAfter, Unavailable, Throttle}
}

var sqs = service{
	operation: targetOperation,
	answers:   answersInJSON("application/x-amz-json-1.0", "com.amazonaws.sqs#", "RequestThrottled"),
	passes:    whole,
}

// StartSQS starts a proxy for an engine with the API of SQS, as Start does.
func StartSQS(target string, plan func(n int, operation string) Fault) (p *Proxy, stop func()) {
	return sqs.start(target, plan)
}
