package recordhandler

import (
	"cmp"
	"errors"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/oncebox/oncebox/internal/shared/settings"
	"github.com/oncebox/oncebox/pkg/deadletter"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/sink/sqssink"
)

// Settings are the settings of the function in functions/dedupe, in words. The field XY is the variable ONCEBOX_X_Y; its
// zero value means that the setting is not set. docs/configuration.md has the defaults.
type Settings struct {
	// table of entries and acks; it may also be the table of claims
	DedupeTable string `identity:"" table:"" required:"" function:""`
	// `json`; `snowplow`: [enriched events](records.md#snowplow), whose id, fingerprint and contexts are known columns;
	// or `raw`: records of any bytes, which are never changed
	Format string `identity:"" default:"json" oneof:"json,snowplow,raw" is:"a known format"`
	// the id of a raw record. `content`: the SHA-256 of its payload, so that equal payloads are duplicates.
	// `partition-key`: its partition key; a synthetic duplicate gets its new id as its partition key.
	RawID string `identity:"" unset:"with raw, content" oneof:"content,partition-key" is:"a known id"`
	// path of the id, as in `event.id`; with `snowplow` and `raw` it is left out
	IDPath string `identity:"" unset:"required"`
	// `kinesis:NAME`, `firehose:NAME`, `sqs:URL`, `s3://BUCKET/PREFIX`, `dynamodb:TABLE?key=KEY` or `ndjson:PATH`, with
	// [options](#addresses-of-sinks) as in `kinesis:NAME?aggregation=kpl`: [sinks](sinks.md). A bucket has each record
	// in one [object](sinks.md#objects-in-s3), and a table gets [each record once](sinks.md#effects-exactly-once). On
	// Lambda a file does not last.
	Sink string `required:"" allowed:"kinesis:NAME, firehose:NAME, sqs:URL, s3://BUCKET/PREFIX, dynamodb:TABLE?key=KEY or ndjson:PATH"`
	// `s3://BUCKET/PREFIX` or `dir:PATH`. On Lambda a folder does not last. With `?notify=URL` behind it, a standard SQS
	// queue gets a message for each new dead letter. A message may be lost or come twice; the dead letter is not.
	DeadLetters string `required:"" allowed:"s3://BUCKET/PREFIX or dir:PATH, with ?notify=URL of a queue"`
	// name space of the ids. A new one [replays a stream](operations.md#replay-on-purpose).
	Scope string `identity:"" unset:"the stream's name, or that of [another source](records.md#sources)"`
	// copies that arrive at most this far apart are dropped: [window and horizon](how-it-works.md#window-and-horizon)
	Window time.Duration `default:"48h" least:"1s" most:"36500d" allowed:"a duration of at least 1s, as in 48h or 7d"`
	// the longest time after its arrival at which a record may be processed; at least the retention of the stream
	Horizon time.Duration `default:"14d" least:"24h" most:"36500d" allowed:"a duration of at least the stream's retention, which is 24h or more, as in 14d"`
	// path of the [fingerprint](how-it-works.md#fingerprints)
	FingerprintPath string `identity:"" unset:"computed"`
	// path of the array that gets the note of an old id
	ContextsPath string `identity:"" default:"contexts"`
	// comma list of paths that are left out of a computed fingerprint; with `snowplow` names of columns, besides
	// [those that always are](records.md#which-events-are-copies)
	Volatile []string `identity:""`
	// `first-keeps`: the first of several records under one id keeps it. `derived`: every record is delivered under a
	// derived id, whatever the order. `rename-all` is for [`oncebox dedupe`](#oncebox-dedupe) only.
	IDs string `identity:"" default:"first-keeps" allowed:"first-keeps or derived"`
	// `off`: natural duplicates pass unchanged
	Natural string `default:"on" oneof:"on,off"`
	// `off`: synthetic duplicates pass under the id that they have
	Synthetic string `default:"on" oneof:"on,off"`
	// [acks](how-it-works.md#acks) name the records that are done, so that a batch that comes again sends them no second
	// time. Of a message of a queue, [its entry](records.md#sqs) says it. `off`: they are sent again. With a bucket as the
	// sink there are none, and `off` is refused: its objects say what is done.
	Acks string `default:"on" oneof:"on,off"`
	// so many of the first records (at most 500) that are poison for one reason are
	// [a wrong setting](how-it-works.md#a-wrong-setting): the batch fails. `off`: they are dead-lettered.
	PoisonLimit string `default:"90% of 100"`
	// the records of a payload: `one`, `lines`, `array`, `concatenated`, `logs` or `snowplow`:
	// [payloads that hold several records](records.md#payloads-that-hold-several-records)
	SourceRecords string `identity:"" default:"one" oneof:"one,lines,array,concatenated,logs,snowplow" is:"a known form"`
	// `off`: no record is opened as a KPL aggregate. Set it if no producer makes aggregates.
	// [Enhanced fan-out](operations.md#enhanced-fan-out) needs it.
	SourceAggregation string `identity:"" default:"on" oneof:"on,off"`
	// where entries are: `keys`, `log`, `valkey://HOST:PORT[,HOST:PORT...]`, or `valkeys://` for TLS, with
	// [options](#addresses-of-ledgers) as in `log?lanes=16`. [Another
	// ledger](operations.md#another-ledger-in-the-scope) needs a new scope.
	Ledger string `identity:"" default:"keys" allowed:"keys, log, valkey://HOST:PORT[,HOST:PORT...], or valkeys:// for TLS"`
	// `on`: log lines have [metrics](operations.md#metrics), at every log level. The stack sets it. It has no effect on
	// `oncebox invoke`.
	Metrics string `default:"off" oneof:"on,off" function:""`
	// `debug`, `info`, `warn` or `error`
	LogLevel string `default:"info" oneof:"debug,info,warn,error" is:"a log level"`
}

// Environ returns the settings in the form of os.Environ, as ParseSettings reads them.
func (s Settings) Environ() []string { return settings.Environ(s) }

// Variables returns the names of all variables of the function. Programs that share the environment with it can use
// them to distinguish its variables from misspelt names.
func Variables() []string { return settings.Variables(Settings{}) }

// Identity returns those variables of a version of the function that decide what a record is: where its entry is, its id
// and its fingerprint. It leaves out defaults. Two versions with different ones do not know each other's records.
func Identity(variables map[string]string) map[string]string {
	identity := map[string]string{}
	for _, f := range settings.Fields(Settings{}) {
		value := variables[f.Name]
		if _, decides := f.Tag.Lookup("identity"); decides && value != "" && value != f.Tag.Get("default") {
			identity[f.Name] = value
		}
	}
	return identity
}

// Lambda sets these (Developer Guide, "Defined runtime environment variables").
const (
	varFunctionName = "AWS_LAMBDA_FUNCTION_NAME"
	varMemorySize   = "AWS_LAMBDA_FUNCTION_MEMORY_SIZE" // in MiB
)

// The defaults of durations.
const (
	DefaultWindow  = 48 * time.Hour
	DefaultHorizon = 14 * 24 * time.Hour
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

// Options are what the settings mean for a handler. They do not depend on its store.
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
	DedupeTable string // changes of this table are refused. "": none are, as outside of Lambda.
	Ledger      LedgerSetting
	Concurrency int     // number of requests at the same time, for a ledger with one row for each key
	Clients     Clients // ParseSettings and ParseOptions set none
	// Metrics is the namespace of metrics in the log lines, in CloudWatch's embedded metric format. "": no metrics. The
	// log must write JSON objects, and CloudWatch Logs must get them unchanged, as from a Lambda function.
	// docs/operations.md explains the metrics.
	Metrics  string
	LogLevel slog.Level
	// MemoryLimit is the argument for debug.SetMemoryLimit in the function, in bytes. It is below 0, which changes
	// nothing, unless the ledger fills much of the memory: without a limit, the garbage collector would let the heap
	// grow to twice that. A handler does not use it.
	MemoryLimit int64

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

// ParseSettings reads the settings of the function from an environment in the form of os.Environ, and returns them and
// what they mean. An empty variable counts as not set. Any other ONCEBOX_ variable is an error, because it is misspelt or
// belongs to another function. The error lists everything that is wrong, with the values that are allowed. It does not
// repeat the values.
func ParseSettings(environ []string) (s Settings, o Options, err error) {
	p := parser{settings.Read(environ, &s, true), &s}
	o = p.options(environ)
	o.DedupeTable = s.DedupeTable
	if p.On(&s.Metrics) {
		o.Metrics = settings.Namespace(environ)
	}
	if t := o.Sink.Table; t != nil && t.Name == s.DedupeTable {
		p.Refuse(&s.Sink, "is the table of "+p.Variable(&s.DedupeTable), "another table")
	}
	return s, o, p.Err()
}

// ParseOptions reads the settings of a handler that runs outside of Lambda, as in `oncebox invoke dedupe`. The caller
// chooses the store. Other ONCEBOX_ variables are ignored. The error is like the error of ParseSettings.
func ParseOptions(environ []string) (Options, error) {
	var s Settings
	p := parser{settings.Read(environ, &s, false), &s}
	o := p.options(environ)
	return o, p.Err()
}

// parser finds out what settings mean together.
type parser struct {
	*settings.Reader
	s *Settings
}

func (p parser) options(environ []string) Options {
	s, memory := p.s, functionMemory(environ)
	sink := p.sink()
	o := Options{
		Format:          p.format(),
		Framing:         p.framing(sink),
		Sink:            sink,
		DeadLetterStore: p.deadLetters(),
		Scope:           p.scope(),
		Retention:       dedupe.Retention{Window: p.Time(&s.Window), Horizon: p.Time(&s.Horizon)},
		PassNatural:     !p.On(&s.Natural),
		PassSynthetic:   !p.On(&s.Synthetic),
		Derive:          p.derive(),
		NoAcks:          !p.On(&s.Acks),
		PoisonLimit:     p.poisonLimit(),
		Unaggregated:    !p.On(&s.SourceAggregation),
		Consumer:        valueOf(environ, varFunctionName),
		LogLevel:        p.Level(&s.LogLevel),
		MemoryLimit:     -1,
		OpenedBytes:     openedBytes(memory),
	}
	p.objectFormat(o)
	p.checkPassing(o)
	p.checkObjects(o)
	p.checkItems(o)
	o.Ledger, o.Concurrency = p.ledger(o.Sink, memory)
	if o.Ledger.Log && memory > 0 {
		o.MemoryLimit = memory / 100 * runtimeShare
	}
	letters, err := deadletter.ParseSetting(o.DeadLetterStore)
	if err == nil && letters.Folder != "" && o.Sink.File != "" && filepath.Clean(letters.Folder) == filepath.Clean(o.Sink.File) {
		p.Refuse(&s.DeadLetters, "is the file of "+p.Variable(&s.Sink), "a folder of its own")
	}
	return o
}

// checkPassing refuses duplicates that pass where they cannot.
func (p parser) checkPassing(o Options) {
	for field, passes := range map[*string]bool{&p.s.Natural: o.PassNatural, &p.s.Synthetic: o.PassSynthetic} {
		if o.Derive && passes {
			p.Refuse(field, "is off, but with "+p.Variable(&p.s.IDs)+"=derived no duplicate passes unchanged", "on")
		}
	}
	if q := o.Sink.Queue; o.PassSynthetic && q != nil && sqssink.IsFIFO(q.URL) {
		p.Refuse(&p.s.Synthetic, "is off, but of two records with one id a FIFO queue drops the second", "on")
	}
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

// standIn replaces a wrong path. It does not conflict with any other path.
const standIn = "oncebox-stand-in"

// format reads the format of the records.
func (p parser) format() dedupe.Format {
	kind := p.Word(&p.s.Format)
	if kind != "raw" && p.s.RawID != "" {
		p.Refuse(&p.s.RawID, "is a setting of "+p.Variable(&p.s.Format)+"=raw", "leave it empty")
	}
	switch kind {
	case "snowplow":
		return p.snowplow()
	case "raw":
		return p.raw()
	}
	return p.json()
}

// json reads the paths. It reports a wrong path and replaces it, so that the other paths are checked too.
func (p parser) json() dedupe.Format {
	if p.s.IDPath == "" {
		p.Refuse(&p.s.IDPath, "is missing", pathForm)
	}
	o := format.Options{
		IDPath: cmp.Or(p.s.IDPath, standIn), FingerprintPath: p.s.FingerprintPath, ContextsPath: p.Word(&p.s.ContextsPath),
		Volatile: p.s.Volatile,
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

// wrongPath reports a wrong path. The text names the variables instead of the options, which have the names of fields.
func (p parser) wrongPath(wrong *format.OptionError) {
	what := strings.ReplaceAll(wrong.Detail, "; ", ", ")
	for option := range pathForms {
		what = strings.ReplaceAll(what, option, settings.Variable(option))
	}
	p.Wrong(settings.Variable(wrong.Option), what, pathForms[wrong.Option])
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
	switch p.Word(&p.s.IDs) {
	case "first-keeps":
	case "derived":
		return true
	case "rename-all":
		p.Refuse(&p.s.IDs, "has a policy that reads all records twice, which only `oncebox dedupe` can", "")
	default:
		p.Refuse(&p.s.IDs, "is not a known policy", "")
	}
	return false
}

func (p parser) poisonLimit() dedupe.PoisonLimit {
	limit, err := settings.ParsePoisonLimit(p.Word(&p.s.PoisonLimit), dedupe.DefaultChunk)
	if err != nil {
		p.Refuse(&p.s.PoisonLimit, "is not a share of a number of records", "as in "+settings.PoisonLimitForms)
		return dedupe.DefaultPoisonLimit
	}
	return dedupe.PoisonLimit(limit)
}

func (p parser) deadLetters() string {
	text := p.s.DeadLetters
	if text == "" {
		return ""
	}
	_, err := deadletter.ParseSetting(text)
	if _, ok := errors.AsType[*settings.Error](err); ok {
		p.WrongAddress(p.Variable(&p.s.DeadLetters), err)
	} else if err != nil { // the error repeats the place
		p.Refuse(&p.s.DeadLetters, "is not a bucket or folder", "")
	}
	return text
}

func (p parser) scope() string {
	text := p.s.Scope
	if text != "" && (len(text) > maxScope || !scopeName.MatchString(text)) {
		p.Refuse(&p.s.Scope, "is not a scope", "1 to 63 of a-z, 0-9 and -, not beginning with -")
	}
	if text == scopeOfMarkers {
		p.Refuse(&p.s.Scope, "is the name of the folder in which done dead letters are marked", "another name")
	}
	return text
}
