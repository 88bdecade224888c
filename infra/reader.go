package infra

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"

	"github.com/oncebox/oncebox/internal/aws/arn"
	"github.com/oncebox/oncebox/internal/shared/settings"
	"github.com/oncebox/oncebox/internal/shared/suggest"
	"github.com/oncebox/oncebox/pkg/deadletter"
)

// A reader reads the settings of one part of a [stageFile], and collects the problems in them. The constructs check
// limits.
type reader struct {
	file     *stageFile
	part     string          // "claims", "records", or "" for the keys beside them
	asked    map[string]bool // the paths that were read so far, of all parts
	problems *problems
}

func newReader(file *stageFile, wrong *problems) reader {
	return reader{file, "", map[string]bool{}, wrong}
}

// of returns the reader of another part.
func (r reader) of(part string) reader {
	r.part = part
	return r
}

// path returns the name of a key in the file: claims.auth.
func (r reader) path(key string) string { return pathOf(r.part, key) }

// get returns a setting, and marks its key as known.
func (r reader) get(key string) (setting, bool) {
	r.asked[r.path(key)] = true
	s, ok := r.file.settings[r.path(key)]
	return s, ok
}

// has reports whether a setting is set.
func (r reader) has(key string) bool {
	_, ok := r.get(key)
	return ok
}

// parse reads one value with a parser of package settings, which knows it by its path. A setting that is not set, or
// has values of another kind, is "" there.
func (r reader) parse(key string, kinds []settingKind, read func(p *settings.Parser, path string)) {
	s, ok := r.get(key)
	if ok && !slices.Contains(kinds, s.kind) {
		r.problems.add("%s: %s", r.file.place(r.path(key), s.line), s.otherKind())
		delete(r.file.settings, r.path(key)) // the problem is known
		s.text = ""
	}
	p := settings.NewParserOf(map[string]string{r.path(key): s.text})
	read(p, r.path(key))
	r.problems.join(naming(nil).functionError(struct{}{}, p.Err()))
}

// otherKind says what to write in the place of a value of the wrong kind.
func (s setting) otherKind() string {
	switch s.kind {
	case listKind:
		return "it is a list; write one value"
	case keysKind:
		return "it has keys of its own; write one value, or a list"
	}
	return "it is " + s.text + ", which is for switches only; write another value, or put it in quotes if it is a text"
}

var (
	oneValue  = []settingKind{textKind}
	switches  = []settingKind{textKind, truthKind}
	manyKinds = []settingKind{textKind, listKind}
)

func (r reader) text(key string) (text string) {
	r.parse(key, oneValue, func(p *settings.Parser, path string) { text = p.Text(path) })
	return text
}

// list reads a list, or a text with commas between the values.
func (r reader) list(key string) (all []string) {
	r.parse(key, manyKinds, func(p *settings.Parser, path string) { all = p.List(path) })
	return all
}

// refuse records a wrong value, and what to write instead.
func (r reader) refuse(key, instead string) {
	s, _ := r.get(key)
	r.problems.add("%s is %q; %s", r.path(key), s.text, instead)
}

// number returns 0 if the value is not set. Props read 0 as the default. If 0 is not an allowed value, smallest is
// above 0.
func (r reader) number(key string, smallest int) (n int) {
	r.parse(key, oneValue, func(p *settings.Parser, path string) { n = p.Number(path, 0, smallest, math.MaxInt32) })
	return n
}

// duration returns 0 if the value is not set, as number does.
func (r reader) duration(key string, shortest time.Duration) (d time.Duration) {
	r.parse(key, oneValue, func(p *settings.Parser, path string) {
		allowed := "a duration of at least " + settings.FormatDuration(shortest) + ", as in 30s, 15m, 24h or 7d"
		d = p.Duration(path, 0, shortest, math.MaxInt64, allowed)
	})
	return d
}

// onOff reads on, off, true or false. The default is off.
func (r reader) onOff(key string) bool { return r.switchWord(key) == switchText(true) }

// switchWord reads a switch as onOff does, and returns on, off, or "" if it is not set.
func (r reader) switchWord(key string) (word string) {
	r.parse(key, switches, func(p *settings.Parser, path string) {
		s, _ := r.get(key)
		switch {
		case s.kind == truthKind || s.text == "true" || s.text == "false":
			word = switchText(strings.EqualFold(s.text, "true"))
		case s.text != "":
			word = switchText(p.Switch(path, false))
		}
	})
	return word
}

// fill reads the settings of a function into its struct, except for the fields that others set. The function's parser
// checks what the tags of a field say.
func (r reader) fill(into any, except ...string) {
	for _, f := range settings.Fields(into) {
		if slices.Contains(except, f.Go) {
			continue
		}
		switch at := f.At().(type) {
		case *string:
			if f.IsSwitch() {
				*at = r.switchWord(f.Word)
			} else {
				*at = r.text(f.Word)
			}
		case *[]string:
			*at = r.list(f.Word)
		case *time.Duration:
			*at = r.duration(f.Word, f.Least())
		case **time.Duration:
			if r.has(f.Word) { // 0 is a value, and not the default
				*at = new(r.duration(f.Word, f.Least()))
			}
		}
	}
}

// oneOf reads one of several words. The first is the default.
func (r reader) oneOf(key string, words ...string) string {
	text := r.text(key)
	if text == "" {
		return words[0]
	}
	if !slices.Contains(words, text) {
		last := len(words) - 1
		r.refuse(key, "choose "+strings.Join(words[:last], ", ")+" or "+words[last])
	}
	return text
}

// refuseOthers refuses keys of the file that nothing has read.
func (r reader) refuseOthers() {
	for _, path := range slices.Sorted(maps.Keys(r.file.settings)) {
		if !r.asked[path] {
			r.problems.add("%s: %s", r.file.place(path, r.file.settings[path].line), r.instead(path))
		}
	}
}

// instead says what to write in the place of an unknown key.
func (r reader) instead(path string) string {
	part, key := partOf(path)
	if variable, ok := strings.CutPrefix(key, "ONCEBOX_"); ok {
		key = strings.ReplaceAll(strings.ToLower(variable), "_", "-")
	}
	var beside, elsewhere []string
	for known := range r.asked {
		switch itsPart, itsKey := partOf(known); {
		case itsPart == part:
			beside = append(beside, itsKey)
		case itsKey == key:
			elsewhere = append(elsewhere, known)
		}
	}
	slices.Sort(beside)
	slices.Sort(elsewhere)
	if part == "" {
		beside = append(beside, stageParts...)
	}
	if len(elsewhere) > 0 {
		return "did you mean " + strings.Join(elsewhere, " or ") + "?"
	}
	if closest := suggest.Closest(key, beside); closest != "" {
		return "did you mean " + closest + "?"
	}
	return "there is no such key (allowed: " + strings.Join(beside, ", ") + ")"
}

// arnNames describes the text after the account in the ARNs of a service, in the form for users and as a pattern.
var arnNames = map[string]struct{ form, pattern string }{
	"acm":      {"certificate/ID", `certificate/[a-zA-Z0-9-]+`},
	"backup":   {"backup-vault:NAME", `backup-vault:[a-zA-Z0-9_-]+`},
	"dynamodb": {"table/NAME/stream/LABEL", `table/[a-zA-Z0-9_.-]+/stream/[0-9T:.-]+`},
	"kinesis":  {"stream/NAME", `stream/[a-zA-Z0-9_.-]+`},
	"kms":      {"key/NAME", `key/[a-zA-Z0-9_.-]+`},
	"logs":     {"log-group:NAME", `log-group:[a-zA-Z0-9_/.#-]+(:\*)?`},
	"sns":      {"NAME", `[a-zA-Z0-9_.-]+`},
	"sqs":      {"NAME", `[a-zA-Z0-9_.-]+`},
}

func arnForm(service string) *regexp.Regexp {
	return regexp.MustCompile(`^arn:aws[a-z-]*:` + service + `:[a-z0-9-]+:[0-9]{12}:` + arnNames[service].pattern + `$`)
}

// arn returns the ARN of an existing resource of a service. It returns "" for a malformed ARN, because the CDK would
// panic.
func (r reader) arn(name, service string) string {
	text := r.text(name)
	if text == "" || arnForm(service).MatchString(text) {
		return text
	}
	if service == "kinesis" && strings.Contains(text, consumerPath) {
		r.refuse(name, "it is a consumer of a stream; write the ARN of the stream: "+enhancedFanOut)
		return ""
	}
	r.refuse(name, "write an ARN, arn:aws:"+service+":REGION:ACCOUNT:"+arnNames[service].form)
	return ""
}

// formerKeys returns the ARNs of the keys that were used before key. All must be in one region, as all resources of
// the stack are.
func (r reader) formerKeys(key string) []string {
	const name = "former-keys"
	all := r.list(name)
	for i, former := range all {
		switch {
		case !arnForm("kms").MatchString(former):
			r.refuse(name, "write ARNs, arn:aws:kms:REGION:ACCOUNT:key/NAME, with commas between them")
			return nil
		case former == key || slices.Contains(all[:i], former):
			r.refuse(name, "write each former key once, and not the key of encryption-key")
			return nil
		case regionOf(former) != regionOf(cmp.Or(key, all[0])):
			r.refuse(name, "a key is in another region than the others; nothing of this stack was encrypted with it")
			return nil
		}
	}
	return all
}

func regionOf(text string) string {
	a, _ := arn.Parse(text)
	return a.Region
}

// ids reads the ids of resources of EC2, which begin with the name of their kind.
func (r reader) ids(name, kind string) []string {
	all := r.list(name)
	form := regexp.MustCompile(`^` + kind + `-([0-9a-f]{8}|[0-9a-f]{17})$`)
	wrong := func(id string) bool { return !form.MatchString(id) }
	if slices.ContainsFunc(all, wrong) || len(slices.Compact(slices.Sorted(slices.Values(all)))) < len(all) {
		r.refuse(name, "write different ids with commas between, as in "+kind+"-0a1b2c3d4e5f60718")
		return nil
	}
	return all
}

// stackName is CloudFormation's rule for names of stacks. The CDK panics for other names.
var stackName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,127}$`)

// stackName returns the name of the stack. It has no default: the file of another stack, copied without its name, would
// change that stack. Plain templates get their name from the user of the template.
func (r reader) stackName() string {
	name := r.text("stack")
	switch {
	case stackName.MatchString(name):
		return name
	case r.has("stack"):
		r.refuse("stack", "the name of a stack has 1 to 128 of a-z, A-Z, 0-9 and -, and begins with a letter")
	case r.file.name != "":
		r.problems.add("stack is missing in %s; write the name of the stack", r.file.name)
	}
	return unnamedStack
}

// bucketDots matches dots that S3 does not allow in names. The CDK panics for such names.
var bucketDots = regexp.MustCompile(`\.\.|\.-|-\.|^[0-9]+(\.[0-9]+){3}$`)

// bucket returns the name of an existing bucket. It returns "" for a malformed name, as arn does.
func (r reader) bucket(name string) string {
	text := r.text(name)
	if text == "" {
		return ""
	}
	if !isBucket(text) {
		r.refuse(name, bucketForm)
		return ""
	}
	return text
}

const bucketForm = "the name of a bucket has 3 to 63 of a-z, 0-9, . and -, and dots only between letters or digits"

func isBucket(name string) bool {
	_, err := deadletter.ParseSetting("s3://" + name + "/poison")
	return err == nil && !bucketDots.MatchString(name)
}

// logRetention returns a number of days that CloudWatch Logs permits.
func (r reader) logRetention() awslogs.RetentionDays {
	days := r.number("log-retention-days", 1)
	if days == 0 {
		return ""
	}
	retention, ok := logRetentions[days]
	if !ok {
		r.refuse("log-retention-days", fmt.Sprint("CloudWatch Logs offers ", slices.Sorted(maps.Keys(logRetentions))))
	}
	return retention
}

var logRetentions = map[int]awslogs.RetentionDays{
	1: awslogs.RetentionDays_ONE_DAY, 3: awslogs.RetentionDays_THREE_DAYS, 5: awslogs.RetentionDays_FIVE_DAYS,
	7: awslogs.RetentionDays_ONE_WEEK, 14: awslogs.RetentionDays_TWO_WEEKS,
	30: awslogs.RetentionDays_ONE_MONTH, 60: awslogs.RetentionDays_TWO_MONTHS, 90: awslogs.RetentionDays_THREE_MONTHS,
	120: awslogs.RetentionDays_FOUR_MONTHS, 150: awslogs.RetentionDays_FIVE_MONTHS, 180: awslogs.RetentionDays_SIX_MONTHS,
	365: awslogs.RetentionDays_ONE_YEAR, 400: awslogs.RetentionDays_THIRTEEN_MONTHS,
	545: awslogs.RetentionDays_EIGHTEEN_MONTHS, 731: awslogs.RetentionDays_TWO_YEARS,
	1096: awslogs.RetentionDays_THREE_YEARS, 1827: awslogs.RetentionDays_FIVE_YEARS, 2192: awslogs.RetentionDays_SIX_YEARS,
	2557: awslogs.RetentionDays_SEVEN_YEARS, 2922: awslogs.RetentionDays_EIGHT_YEARS, 3288: awslogs.RetentionDays_NINE_YEARS,
	3653: awslogs.RetentionDays_TEN_YEARS,
}
