package settings

// renamed lists the settings that have a new name: variables, and context values of the stack. A setting under its old
// name is refused, since ignoring it would silently change what the program does.
var renamed = [...]struct{ old, new string }{
	{"ONCEBOX_FAILURE_STORE", "ONCEBOX_DEAD_LETTERS"},
	{"ONCEBOX_FAILURE_QUEUE_URL", "ONCEBOX_NOTIFY_QUEUE_URL"},
	{"ONCEBOX_PARKED", "ONCEBOX_DEAD_LETTERS"},
	{"oncebox:failure-bucket", "oncebox:dead-letter-bucket"},
	{"oncebox:bell-queue-arn", "oncebox:notify-queue-arn"},
	{"ONCEBOX_CHECKPOINT", "ONCEBOX_ACKS"},
	{"oncebox:checkpoint", "oncebox:acks"},
}

// NewName returns the new name of a setting that was renamed, or "".
func NewName(old string) string {
	for _, r := range renamed {
		if r.old == old {
			return r.new
		}
	}
	return ""
}
