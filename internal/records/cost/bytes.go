package cost

// LogLine is one kind of line in the logs, with its size.
type LogLine struct {
	Name  string
	Bytes int
}

// These are the lines of the logs, in bytes. TestLogBytes in tests measures the lines that oncebox writes. For lines
// that Lambda writes it measures the form that AWS documents, with usual values in it.
var (
	claimLine       = LogLine{"the claim function: a request, with its metrics", 565}
	batchLine       = LogLine{"the dedupe function: a batch, with its metrics", 919}
	accessLine      = LogLine{"the API: a request in its access log", 307}
	platformStart   = LogLine{"Lambda, format JSON, INFO: `platform.start`", 136}
	platformReport  = LogLine{"Lambda, format JSON, INFO: `platform.report`", 235}
	textStart       = LogLine{"Lambda, format text: `START`", 66}
	textEnd         = LogLine{"Lambda, format text: `END`", 52}
	textReport      = LogLine{"Lambda, format text: `REPORT`", 141}
	metricsOfAClaim = LogLine{"of the line of a claim: its metrics", 258}
)

// LogLines lists all kinds of lines in the logs.
var LogLines = []LogLine{
	claimLine, metricsOfAClaim, batchLine, accessLine, platformStart, platformReport, textStart, textEnd, textReport,
}

// USD returns the price of a million such lines.
func (l LogLine) USD() float64 { return float64(l.Bytes) * 1e6 / gibibyte * LogGB }

const gibibyte = 1 << 30
