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

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/oncebox/oncebox/internal/settings"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/sink/sqssink"
)

// The variables of the dedupe function.
const (
	varDedupeTable       = "ONCEBOX_DEDUPE_TABLE"
	varFormat            = "ONCEBOX_FORMAT"
	varRawID             = "ONCEBOX_RAW_ID"
	varSourceRecords     = "ONCEBOX_SOURCE_RECORDS"
	varIDPath            = "ONCEBOX_ID_PATH"
	varFingerprintPath   = "ONCEBOX_FINGERPRINT_PATH"
	varVolatile          = "ONCEBOX_VOLATILE"
	varContextsPath      = "ONCEBOX_CONTEXTS_PATH"
	varIDs               = "ONCEBOX_IDS"
	varSink              = "ONCEBOX_SINK"
	varDeadLetters       = "ONCEBOX_DEAD_LETTERS"
	varScope             = "ONCEBOX_SCOPE"
	varWindow            = "ONCEBOX_WINDOW"
	varHorizon           = "ONCEBOX_HORIZON"
	varNatural           = "ONCEBOX_NATURAL"
	varSynthetic         = "ONCEBOX_SYNTHETIC"
	varAcks              = "ONCEBOX_ACKS"
	varPoisonLimit       = "ONCEBOX_POISON_LIMIT"
	varSourceAggregation = "ONCEBOX_SOURCE_AGGREGATION"
	varLedger            = "ONCEBOX_LEDGER"
	varLogLevel          = "ONCEBOX_LOG_LEVEL"

	// Lambda sets these (Developer Guide, "Defined runtime environment variables").
	varFunctionName = "AWS_LAMBDA_FUNCTION_NAME"
	varMemorySize   = "AWS_LAMBDA_FUNCTION_MEMORY_SIZE" // in MiB
)

var known = []string{
	varDedupeTable, varFormat, varRawID, varIDPath, varFingerprintPath, varVolatile, varContextsPath, varIDs, varSink,
	varDeadLetters, varScope, varWindow, varHorizon, varNatural, varSynthetic, varAcks, varPoisonLimit, varSourceRecords,
	varSourceAggregation, varLedger, settings.VarMetrics, varLogLevel,
}

// Variables returns the names of all variables of the function. Programs that share the environment with it can use
// them to distinguish its variables from misspelt names.
func Variables() []string { return slices.Clone(known) }

// The defaults and limits of durations.
const (
	DefaultWindow  = 48 * time.Hour
	DefaultHorizon = 14 * 24 * time.Hour

	// shortestHorizon is the shortest retention of a stream. A failed record may come again for this long (Kinesis:
	// "Changing the data retention period").
	shortestHorizon = 24 * time.Hour
	// longest is short enough that window plus horizon fit into a time.Duration.
	longest = 100 * 365 * 24 * time.Hour
)

// scopeName is the rule for scopes that are set. The name of a stream need not follow it: tools often name streams with
// capitals. The length is checked separately: in the pattern it would take 50 KB at every start.
var scopeName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

const maxScope = 63

// IsScope reports whether a text may be the scope of a function: a scope that was set, or the default of a source,
// which is the name of a stream, sqs:QUEUE, dynamodb:TABLE or logs:GROUP. AWS allows 1 to 512 letters, digits and
// _ - / . # in the names of log groups, and some of these in the names of streams, queues and tables (CloudWatch Logs
// API Reference, CreateLogGroup).
func IsScope(text string) bool {
	const longest, allowed = len("logs:") + 512, ":abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-/.#"
	return text != "" && len(text) <= longest && strings.Trim(text, allowed) == ""
}

// scopeOfMarkers cannot be a scope. If dead letters have their scope as a folder, as in the stack, letters in this
// folder would be taken for the markers of other letters.
const scopeOfMarkers = "done"

// Options are the settings of a handler that do not depend on its store.
type Options struct {
	Format          dedupe.Format
	Framing         dedupe.Framing // of payloads that hold several records; nil: a payload is a record
	Sink            SinkSetting
	DeadLetterStore string           // a setting of deadletter.Open: s3://BUCKET/PREFIX or dir:PATH, with ?notify=URL
	Scope           string           // "": the name of the stream, or sqs:QUEUE, dynamodb:TABLE or logs:GROUP
	Retention       dedupe.Retention // zero: DefaultWindow and DefaultHorizon
	PassNatural     bool
	PassSynthetic   bool
	Derive          bool // every record is delivered under a derived id
	NoAcks          bool // records that come again are sent again
	PoisonLimit     dedupe.PoisonLimit
	Unaggregated    bool // no record is opened as a KPL aggregate, and enhanced fan-out is allowed
	// Consumer is the function's name: no other function may read the stream in this scope. "": the name of the Lambda
	// function. Outside of Lambda there is no name, and no other function is refused: a person who handles an event
	// by hand must not lock the function out.
	Consumer    string
	Ledger      LedgerSetting
	Concurrency int // number of requests at the same time, for a ledger with one row for each key
	// Metrics is the namespace of metrics in the log lines, in CloudWatch's embedded metric format. "": no metrics. The log
	// must write JSON objects, and CloudWatch Logs must get them unchanged, as from a Lambda function.
	// docs/operations.md explains the metrics.
	Metrics  string
	LogLevel slog.Level

	// Chunk is how many user records are decided and sent at a time; 0 means dedupe.DefaultChunk. No variable sets
	// it: smaller chunks cost the sink more requests, and with larger ones fewer records are done at a deadline.
	// Tests set it.
	Chunk int
	// OpenedBytes is as in dedupe.Settings. In Lambda it is an eighth of the function's memory, at most 128 MiB.
	OpenedBytes int
	// Clock uses real time by default. Tests set it.
	Clock dedupe.Clock
}

// withDefaults sets the options that a program may leave empty.
func (o Options) withDefaults() Options {
	if o.Retention == (dedupe.Retention{}) {
		o.Retention = dedupe.Retention{Window: DefaultWindow, Horizon: DefaultHorizon}
	}
	o.Consumer = cmp.Or(o.Consumer, lambdacontext.FunctionName)
	return o
}

// Settings are the settings of the function in functions/dedupe.
type Settings struct {
	DedupeTable string
	// MemoryLimit is the argument for debug.SetMemoryLimit, in bytes. It is below 0, which changes nothing, unless
	// the ledger fills much of the memory: without a limit, the garbage collector would let the heap grow to twice
	// that.
	MemoryLimit int64
	Options
}

// ParseSettings reads the settings of the function from an environment in the form of os.Environ:
//
//	ONCEBOX_DEDUPE_TABLE      required: the table of the ledger
//	ONCEBOX_FORMAT            json; snowplow: enriched events of Snowplow; or raw: records of any bytes; default json
//	ONCEBOX_RAW_ID            the id of a raw record: content or partition-key; default content
//	ONCEBOX_ID_PATH           required with json: the path of a record's id
//	ONCEBOX_SINK              required: kinesis:NAME, firehose:NAME, sqs:URL, s3://BUCKET/PREFIX, dynamodb:TABLE?key=KEY
//	                          or ndjson:PATH. The Parse of kinesissink, firehosesink, sqssink, objectsink and dynamosink
//	                          say which options may stand behind it, as in kinesis:unique?aggregation=kpl
//	ONCEBOX_DEAD_LETTERS      required: s3://BUCKET/PREFIX or dir:PATH, with ?notify=URL of an SQS queue for a
//	                          notification of each new dead letter
//	ONCEBOX_SCOPE             default: the name of the source stream, or sqs:QUEUE, dynamodb:TABLE or logs:GROUP
//	ONCEBOX_WINDOW            how long a copy is surely a duplicate; default 48h
//	ONCEBOX_HORIZON           how long after its arrival a record may still be processed; default 14d
//	ONCEBOX_FINGERPRINT_PATH  the path of a record's fingerprint; default: computed
//	ONCEBOX_VOLATILE          paths that a computed fingerprint leaves out, separated by commas; with snowplow columns
//	ONCEBOX_CONTEXTS_PATH     the array that gets the duplicate context; default contexts
//	ONCEBOX_IDS               first-keeps, or derived: every delivered id is the derived one; default first-keeps
//	ONCEBOX_NATURAL           off passes natural duplicates unchanged; default on
//	ONCEBOX_SYNTHETIC         off passes synthetic duplicates unchanged; default on
//	ONCEBOX_ACKS              off keeps no acks, so that a delivered record that comes again is sent again; default on
//	ONCEBOX_POISON_LIMIT      the share of poison among the first records that means a wrong setting; default 90% of 100
//	ONCEBOX_SOURCE_RECORDS    the records of a payload: one, lines, array, concatenated, logs or snowplow; default one
//	ONCEBOX_SOURCE_AGGREGATION  off opens no KPL aggregates, and allows enhanced fan-out; default on
//	ONCEBOX_LEDGER            keys: one row a key, log: the log ledger, or valkey://HOST:PORT,...: servers of Valkey, with
//	                          valkeys:// over TLS; default keys. The Parse of dynamostore, logledger and valkeystore
//	                          say which options may stand behind it, as in log?lanes=16
//	ONCEBOX_METRICS           on or off: whether log lines have metrics for CloudWatch; default off
//	ONCEBOX_LOG_LEVEL         debug, info, warn or error; default info
//
// An empty variable counts as not set. Any other ONCEBOX_ variable is an error, because it is misspelt or belongs to
// another function. The error lists everything that is wrong, with the values that are allowed. It does not repeat
// the values.
func ParseSettings(environ []string) (Settings, error) {
	p := parser{settings.NewParser(environ)}
	p.RefuseOthers(known)
	s := Settings{DedupeTable: p.Table(varDedupeTable), MemoryLimit: -1, Options: p.options(environ)}
	s.Metrics = p.Metrics(environ)
	if memory := functionMemory(environ); s.Ledger.Log && memory > 0 {
		s.MemoryLimit = memory / 100 * runtimeShare
	}
	if t := s.Sink.Table; t != nil && t.Name == s.DedupeTable {
		p.Wrong(varSink, "is the table of "+varDedupeTable, "another table")
	}
	return s, p.Err()
}

// ParseOptions reads the settings of a handler that runs outside of Lambda, as in `oncebox invoke dedupe`. The caller
// chooses the store. Other ONCEBOX_ variables are ignored. The error is like the error of ParseSettings.
func ParseOptions(environ []string) (Options, error) {
	p := parser{settings.NewParser(environ)}
	o := p.options(environ)
	return o, p.Err()
}

type parser struct{ *settings.Parser }

func (p parser) options(environ []string) Options {
	format := p.format()
	sink := p.sink()
	o := Options{
		Format:          format,
		Framing:         p.framing(sink),
		Sink:            sink,
		DeadLetterStore: p.deadLetters(),
		Scope:           p.scope(),
		Retention:       p.retention(),
		PassNatural:     !p.Switch(varNatural, true),
		PassSynthetic:   !p.Switch(varSynthetic, true),
		Derive:          p.derive(),
		NoAcks:          !p.Switch(varAcks, true),
		PoisonLimit:     p.poisonLimit(),
		Unaggregated:    !p.Switch(varSourceAggregation, true),
		Consumer:        valueOf(environ, varFunctionName),
		LogLevel:        p.LogLevel(varLogLevel),
		OpenedBytes:     openedBytes(functionMemory(environ)),
	}
	p.objectFormat(o)
	for name, passes := range map[string]bool{varNatural: o.PassNatural, varSynthetic: o.PassSynthetic} {
		if o.Derive && passes {
			p.Wrong(name, "is off, but with "+varIDs+"=derived no duplicate passes unchanged", "on")
		}
	}
	if q := o.Sink.Queue; o.PassSynthetic && q != nil && sqssink.IsFIFO(q.URL) {
		p.Wrong(varSynthetic, "is off, but of two records with one id a FIFO queue drops the second", "on")
	}
	p.checkObjects(o)
	p.checkItems(o)
	o.Ledger, o.Concurrency = p.ledger(o.Sink, functionMemory(environ))
	letters, err := deadletter.ParseSetting(o.DeadLetterStore)
	if err == nil && letters.Folder != "" && o.Sink.File != "" && filepath.Clean(letters.Folder) == filepath.Clean(o.Sink.File) {
		p.Wrong(varDeadLetters, "is the file of "+varSink, "a folder of its own")
	}
	return o
}

// valueOf returns a variable that Lambda sets.
func valueOf(environ []string, name string) string {
	for _, v := range environ {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// pathVariables maps the fields of format.Options to variables.
var pathVariables = map[string]string{
	"IDPath": varIDPath, "FingerprintPath": varFingerprintPath, "ContextsPath": varContextsPath,
	"Volatile": varVolatile,
}

// standIn replaces a wrong path. It does not conflict with any other path.
const standIn = "oncebox-stand-in"

// format reads the format of the records.
func (p parser) format() dedupe.Format {
	kind := p.Text(varFormat)
	if kind != "raw" && p.Text(varRawID) != "" {
		p.Wrong(varRawID, "is a setting of "+varFormat+"=raw", "leave it empty")
	}
	switch kind {
	case "", "json":
	case "snowplow":
		return p.snowplow()
	case "raw":
		return p.raw()
	default:
		p.Wrong(varFormat, "is not a known format", "json, snowplow or raw")
	}
	return p.json()
}

// json reads the paths. It reports a wrong path and replaces it, so that the other paths are checked too.
func (p parser) json() dedupe.Format {
	o := format.Options{
		IDPath: cmp.Or(p.Required(varIDPath, pathForm), standIn), FingerprintPath: p.Text(varFingerprintPath),
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

// wrongPath reports a wrong path. The text names the variables instead of the fields.
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
	"IDPath": pathForm, "FingerprintPath": pathForm, "ContextsPath": namesForm,
	"Volatile": "paths with commas between: " + pathForm,
}

// derive reads the policy of ids.
func (p parser) derive() bool {
	const allowed = "first-keeps or derived"
	switch p.Text(varIDs) {
	case "", "first-keeps":
	case "derived":
		return true
	case "rename-all":
		p.Wrong(varIDs, "has a policy that reads all records twice, which only `oncebox dedupe` can", allowed)
	default:
		p.Wrong(varIDs, "is not a known policy", allowed)
	}
	return false
}

func (p parser) poisonLimit() dedupe.PoisonLimit {
	text := p.Text(varPoisonLimit)
	if text == "" {
		return dedupe.DefaultPoisonLimit
	}
	limit, err := settings.ParsePoisonLimit(text, dedupe.DefaultChunk)
	if err != nil {
		p.Wrong(varPoisonLimit, "is not a share of a number of records", "as in "+settings.PoisonLimitForms)
		return dedupe.DefaultPoisonLimit
	}
	return dedupe.PoisonLimit(limit)
}

func (p parser) deadLetters() string {
	const allowed = "s3://BUCKET/PREFIX or dir:PATH, with ?notify=URL of a queue"
	text := p.Required(varDeadLetters, allowed)
	if text == "" {
		return ""
	}
	_, err := deadletter.ParseSetting(text)
	if _, ok := errors.AsType[*settings.Error](err); ok {
		p.WrongAddress(varDeadLetters, err)
	} else if err != nil { // the error repeats the place
		p.Wrong(varDeadLetters, "is not a bucket or folder", allowed)
	}
	return text
}

func (p parser) scope() string {
	text := p.Text(varScope)
	if text != "" && (len(text) > maxScope || !scopeName.MatchString(text)) {
		p.Wrong(varScope, "is not a scope", "1 to 63 of a-z, 0-9 and -, not beginning with -")
	}
	if text == scopeOfMarkers {
		p.Wrong(varScope, "is the name of the folder in which done dead letters are marked", "another name")
	}
	return text
}

func (p parser) retention() dedupe.Retention {
	return dedupe.Retention{
		Window: p.Duration(varWindow, DefaultWindow, time.Second, longest, "a duration of at least 1s, as in 48h or 7d"),
		Horizon: p.Duration(varHorizon, DefaultHorizon, shortestHorizon, longest,
			"a duration of at least the stream's retention, which is 24h or more, as in 14d"),
	}
}
