package kinesishandler

import (
	"cmp"
	"errors"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/settings"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
)

// The variables of the function.
const (
	varDedupeTable     = "ONCEBOX_DEDUPE_TABLE"
	varFormat          = "ONCEBOX_FORMAT"
	varIDPath          = "ONCEBOX_ID_PATH"
	varFingerprintPath = "ONCEBOX_FINGERPRINT_PATH"
	varVolatile        = "ONCEBOX_VOLATILE"
	varContextsPath    = "ONCEBOX_CONTEXTS_PATH"
	varIDs             = "ONCEBOX_IDS"
	varSink            = "ONCEBOX_SINK"
	varDeadLetters     = "ONCEBOX_DEAD_LETTERS"
	varNotifyQueueURL  = "ONCEBOX_NOTIFY_QUEUE_URL"
	varScope           = "ONCEBOX_SCOPE"
	varWindow          = "ONCEBOX_WINDOW"
	varHorizon         = "ONCEBOX_HORIZON"
	varNatural         = "ONCEBOX_NATURAL"
	varSynthetic       = "ONCEBOX_SYNTHETIC"
	varCheckpoint      = "ONCEBOX_CHECKPOINT"
	varConcurrency     = "ONCEBOX_CONCURRENCY"
	varLogLevel        = "ONCEBOX_LOG_LEVEL"

	// varFunctionName is Lambda's own.
	varFunctionName = "AWS_LAMBDA_FUNCTION_NAME"
)

var known = []string{
	varDedupeTable, varFormat, varIDPath, varFingerprintPath, varVolatile, varContextsPath, varIDs, varSink,
	varDeadLetters, varNotifyQueueURL, varScope, varWindow, varHorizon, varNatural, varSynthetic, varCheckpoint,
	varConcurrency, varLogLevel,
}

// The defaults and limits of times.
const (
	DefaultWindow  = 48 * time.Hour
	DefaultHorizon = 14 * 24 * time.Hour

	// A stream keeps records for at least this long, and that long a failed
	// one may come again (Kinesis: "Changing the data retention period").
	leastHorizon = 24 * time.Hour
	// Twice as much still is a time.Duration.
	longest = 100 * 365 * 24 * time.Hour
)

// maxConcurrency leaves room among the 1,024 file descriptors of a Lambda
// function (Developer Guide, "Lambda quotas").
const maxConcurrency = 1000

// scopeName is the rule of scopes that are set. It is not asked of a stream's
// name: streams are often named by tools, with capitals. The length stands
// apart: in the pattern it costs 50 KB at every start.
var scopeName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

const maxScope = 63

// SinkSetting is where unique records go: one of the two.
type SinkSetting struct {
	Stream string // a Kinesis stream in the function's account and region
	File   string // a file of NDJSON
}

// Options are the settings of the handler, wherever it runs.
type Options struct {
	Format          dedupe.Format
	Sink            SinkSetting
	DeadLetterStore string // as deadletter.Open takes it
	NotifyQueueURL  string // "": no notifier
	Scope           string // "": the name of the stream that records come from
	Retention       dedupe.Retention
	PassNatural     bool
	PassSynthetic   bool
	Checkpoint      bool
	Consumer        string // the function's name, for Checkpoint
	Concurrency     int    // ledger requests at a time, where the engine has such
	LogLevel        slog.Level

	// Chunk is how many user records are decided and sent at a time; 0 is
	// dedupe.DefaultChunk. No variable sets it: smaller chunks cost the sink
	// requests, of larger ones less is done by the deadline. Tests of what happens between
	// chunks set it.
	Chunk int
}

// Settings are the settings of the Lambda function.
type Settings struct {
	DedupeTable string
	Options
}

// ParseSettings reads the Lambda function's settings from an environment in the
// form of os.Environ. Every variable named ONCEBOX_... counts: an unknown one is
// a misspelt or misplaced setting and is refused. An empty variable is one that
// is not set. The error lists everything that is wrong, by variable and with
// what is allowed, and repeats no values.
func ParseSettings(environ []string) (Settings, error) {
	p := parser{settings.NewParser(environ)}
	p.RefuseOthers(known)
	s := Settings{DedupeTable: p.Table(varDedupeTable), Options: p.options(environ)}
	if s.Checkpoint && s.Consumer == "" {
		p.Wrong(varCheckpoint, "is on and "+varFunctionName+", which names the consumer, is not set", "off outside of Lambda")
	}
	return s, p.Err()
}

// ParseOptions reads the settings of a handler that runs elsewhere, as in
// `oncebox invoke dedupe`: the store is the caller's, and other ONCEBOX_...
// variables are not looked at. A checkpoint belongs to the consumer "oncebox"
// where Lambda does not name one. The error is as that of ParseSettings.
func ParseOptions(environ []string) (Options, error) {
	p := parser{settings.NewParser(environ)}
	o := p.options(environ)
	o.Consumer = cmp.Or(o.Consumer, "oncebox")
	return o, p.Err()
}

type parser struct{ *settings.Parser }

func (p parser) options(environ []string) Options {
	o := Options{
		Format:          p.format(),
		Sink:            p.sink(),
		DeadLetterStore: p.failureStore(),
		NotifyQueueURL:  p.failureQueueURL(),
		Scope:           p.scope(),
		Retention:       p.retention(),
		PassNatural:     !p.Switch(varNatural, true),
		PassSynthetic:   !p.Switch(varSynthetic, true),
		Checkpoint:      p.Switch(varCheckpoint, false),
		Consumer:        functionName(environ),
		Concurrency:     p.Number(varConcurrency, dynamostore.DefaultConcurrency, 1, maxConcurrency),
		LogLevel:        p.LogLevel(varLogLevel),
	}
	p.ids()
	if folder, ok := strings.CutPrefix(o.DeadLetterStore, "dir:"); ok && o.Sink.File != "" && filepath.Clean(folder) == filepath.Clean(o.Sink.File) {
		p.Wrong(varDeadLetters, "is the file of "+varSink, "a folder of its own")
	}
	return o
}

func functionName(environ []string) string {
	for _, v := range environ {
		if name, ok := strings.CutPrefix(v, varFunctionName+"="); ok {
			return name
		}
	}
	return ""
}

// pathVariables name the variables of format.Options.
var pathVariables = map[string]string{
	"IDPath": varIDPath, "FingerprintPath": varFingerprintPath, "ContextsPath": varContextsPath, "Volatile": varVolatile,
}

// standIn is a path that meets no other, for one that is wrong.
const standIn = "oncebox-stand-in"

// format reads the paths. A wrong one is noted and taken out, so that what is
// wrong with the others comes to light too.
func (p parser) format() dedupe.Format {
	o := format.Options{
		IDPath: p.idPath(), FingerprintPath: p.Text(varFingerprintPath),
		ContextsPath: p.Text(varContextsPath), Volatile: p.List(varVolatile),
	}
	for {
		f, err := format.NewJSON(o)
		wrong, ok := errors.AsType[*format.OptionError](err)
		if !ok {
			return f
		}
		p.wrongPath(wrong)
		switch wrong.Option {
		case "IDPath":
			o.IDPath = standIn
		case "FingerprintPath":
			o.FingerprintPath = ""
		case "ContextsPath":
			o.ContextsPath = standIn + "-contexts"
		default:
			o.Volatile = nil
		}
	}
}

// wrongPath tells of a path in the words of the variables.
func (p parser) wrongPath(wrong *format.OptionError) {
	what := strings.ReplaceAll(wrong.Detail, "; ", ", ")
	for option, variable := range pathVariables {
		what = strings.ReplaceAll(what, option, variable)
	}
	p.Wrong(pathVariables[wrong.Option], what, pathForms[wrong.Option])
}

const (
	pathForm  = "names and array indexes with dots between, as in event.id"
	namesForm = "names with dots between, as in event.contexts"
)

var pathForms = map[string]string{
	"IDPath": pathForm, "FingerprintPath": pathForm, "ContextsPath": namesForm, "Volatile": "paths with commas between: " + pathForm,
}

func (p parser) idPath() string {
	text := p.Text(varIDPath)
	switch kind := p.Text(varFormat); {
	case kind == "snowplow":
		p.Wrong(varFormat, "has a format that comes later", "not set, and "+varIDPath)
	case kind != "":
		p.Wrong(varFormat, "is not a format", "not set, and "+varIDPath)
	case text == "":
		p.Wrong(varIDPath, "is missing", pathForm)
	}
	return cmp.Or(text, standIn)
}

// ids reads the policy of ids, of which there is one now.
func (p parser) ids() {
	switch p.Text(varIDs) {
	case "", "first-keeps":
	case "derived", "rename-all":
		p.Wrong(varIDs, "has a policy that comes later", "first-keeps")
	default:
		p.Wrong(varIDs, "is not a policy", "first-keeps")
	}
}

func (p parser) sink() SinkSetting {
	const allowed = "kinesis:NAME or ndjson:PATH"
	text := p.Required(varSink, allowed)
	kind, name, _ := strings.Cut(text, ":")
	switch {
	case text == "":
	case kind == "kinesis":
		if _, err := kinesissink.New(nil, name); err != nil {
			p.Wrong(varSink, "does not name a Kinesis stream", allowed+", a stream's name being 1 to 128 of a-z, A-Z, 0-9, _, . and -")
		}
		return SinkSetting{Stream: name}
	case kind == "ndjson" && name != "":
		return SinkSetting{File: name}
	case slices.Contains([]string{"s3", "dynamodb"}, kind):
		p.Wrong(varSink, "has a sink that comes later", allowed)
	default:
		p.Wrong(varSink, "is none of its forms", allowed)
	}
	return SinkSetting{}
}

func (p parser) failureStore() string {
	const allowed = "s3://BUCKET/PREFIX or dir:PATH"
	text := p.Required(varDeadLetters, allowed)
	if text == "" {
		return ""
	}
	if _, err := deadletter.ParseSetting(text); err != nil {
		p.Wrong(varDeadLetters, "is none of its forms", allowed)
	}
	return text
}

func (p parser) failureQueueURL() string {
	text := p.Text(varNotifyQueueURL)
	if text == "" {
		return ""
	}
	if _, err := deadletter.NewQueue(nil, text); err != nil {
		p.Wrong(varNotifyQueueURL, "is not the URL of a standard SQS queue", "https://sqs.REGION.amazonaws.com/ACCOUNT/NAME, and no FIFO queue")
	}
	return text
}

func (p parser) scope() string {
	text := p.Text(varScope)
	if text != "" && (len(text) > maxScope || !scopeName.MatchString(text)) {
		p.Wrong(varScope, "is not a scope", "1 to 63 of a-z, 0-9 and -, the first not a -")
	}
	return text
}

func (p parser) retention() dedupe.Retention {
	return dedupe.Retention{
		Window: p.Duration(varWindow, DefaultWindow, time.Second, longest, "a Go duration of at least 1s, as in 48h"),
		Horizon: p.Duration(varHorizon, DefaultHorizon, leastHorizon, longest,
			"a Go duration of at least the stream's retention, which is 24h or more, as in 336h"),
	}
}
