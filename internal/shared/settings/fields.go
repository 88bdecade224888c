package settings

import (
	"cmp"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
)

// A Field is a setting of a function: a field of its struct. By one rule the field XY is the variable ONCEBOX_X_Y and
// the word x-y. The tags of the field are
//
//	default      the value of a setting that is not set
//	unset        what the reference says about a setting that is not set and has no default
//	required     the setting must be set
//	function     only the function reads the setting, and no other program with the same handler
//	local        the function refuses the setting, for this reason: only another program with the same handler reads it
//	oneof        the only allowed words, with commas between them
//	identity     the setting decides what a record is
//	table        the value is the name of a DynamoDB table
//	least, most  limits of a duration
//	is           what the value is, for errors
//	allowed      what is allowed, for errors
//
// The comment of the field is its help in docs/configuration.md.
type Field struct {
	Name, Word, Go string
	Tag            reflect.StructTag
	value          reflect.Value
}

// Fields returns the settings in a struct, or in the struct behind a pointer. A setting is a string, a []string, a
// time.Duration or a *time.Duration. Its zero value means that it is not set.
func Fields(of any) (fields []Field) {
	v := reflect.Indirect(reflect.ValueOf(of))
	for i := range v.NumField() {
		f := v.Type().Field(i)
		fields = append(fields, Field{Variable(f.Name), Word(f.Name), f.Name, f.Tag, v.Field(i)})
	}
	return fields
}

// Word returns the word of a field, as x-y for XY.
func Word(field string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(Variable(field), prefix), "_", "-"))
}

// Variable returns the variable of a field, as ONCEBOX_X_Y for XY. Words begin with capitals: IDPath is ID_PATH, and
// IDs is one word.
func Variable(field string) string {
	var name strings.Builder
	name.WriteString(prefix)
	upper := func(i int) bool { return unicode.IsUpper(rune(field[i])) }
	for i, letter := range field {
		rest := field[i+1:]
		if i > 0 && upper(i) && (!upper(i-1) || rest != "" && rest != "s" && !upper(i+1)) {
			name.WriteByte('_')
		}
		name.WriteRune(unicode.ToUpper(letter))
	}
	return name.String()
}

// Variables returns the names of the variables of the settings in a struct.
func Variables(of any) (names []string) {
	for _, f := range Fields(of) {
		names = append(names, f.Name)
	}
	return names
}

// Environ returns the settings in a struct that are set, in the form of os.Environ. It is the inverse of Read.
func Environ(of any) (environ []string) {
	for _, f := range Fields(of) {
		if text := f.text(); text != "" {
			environ = append(environ, f.Name+"="+text)
		}
	}
	return environ
}

func (f Field) text() string {
	switch value := f.value.Interface().(type) {
	case string:
		return value
	case []string:
		return strings.Join(value, ",")
	case time.Duration:
		if value != 0 {
			return value.String()
		}
	case *time.Duration:
		if value != nil {
			return value.String()
		}
	}
	return ""
}

// CheckLists returns an *Error with the lists in a struct that Read would not bring back from Environ, or nil.
func CheckLists(of any) error {
	p := NewParser(Environ(of))
	for _, f := range Fields(of) {
		if list, ok := f.value.Interface().([]string); ok && !slices.Equal(list, p.List(f.Name)) {
			p.Wrong(f.Name, "has an empty value, or a value with a comma or with white space at an end: the variable is a text "+
				"with commas between the values", "values without them")
		}
	}
	return p.Err()
}

// At returns a pointer to the setting, if Fields got a pointer.
func (f Field) At() any { return f.value.Addr().Interface() }

// IsSwitch reports whether the setting is on or off.
func (f Field) IsSwitch() bool { return f.Tag.Get("oneof") == "on,off" }

// Least returns the shortest duration that is allowed.
func (f Field) Least() time.Duration { return f.limit("least", 0) }

func (f Field) limit(tag string, without time.Duration) time.Duration {
	if d, err := ParseDuration(f.Tag.Get(tag)); err == nil {
		return d
	}
	return without
}

func (f Field) has(tag string) bool {
	_, ok := f.Tag.Lookup(tag)
	return ok
}

// A Reader has read settings into a struct, and collects the problems in them. Its methods take pointers to fields of
// the struct.
type Reader struct {
	*Parser
	fields []Field
}

// Read reads the settings of a struct from an environment in the form of os.Environ, and checks each by its tags. For
// the function itself it also refuses other ONCEBOX_ variables.
func Read(environ []string, into any, function bool) *Reader {
	r := &Reader{NewParser(environ), Fields(into)}
	for _, f := range r.fields {
		if function || !f.has("function") {
			r.read(f)
		}
		if function && f.has("local") && r.Text(f.Name) != "" {
			r.refuse(f, "is not for the function: "+f.Tag.Get("local"), "leave it empty")
		}
	}
	if function {
		r.RefuseOthers(Variables(into))
	}
	return r
}

func (r *Reader) read(f Field) {
	text := r.Text(f.Name)
	if text == "" {
		if f.has("required") {
			r.refuse(f, "is missing", "")
		}
		return
	}
	switch into := f.At().(type) {
	case *string:
		*into = text
		r.check(f, text)
	case *[]string:
		*into = r.List(f.Name)
	case *time.Duration:
		*into = r.duration(f)
	case **time.Duration:
		*into = new(r.duration(f))
	}
}

func (r *Reader) duration(f Field) time.Duration {
	return r.Duration(f.Name, 0, f.Least(), f.limit("most", math.MaxInt64), f.allowed())
}

func (r *Reader) check(f Field, text string) {
	words := strings.Split(f.Tag.Get("oneof"), ",")
	switch {
	case f.has("table") && !isTable(text):
		r.refuse(f, "is not a table name", "")
	case !f.has("oneof") || slices.Contains(words, text):
	case f.has("is"):
		r.refuse(f, "is not "+f.Tag.Get("is"), "")
	default:
		r.refuse(f, "is neither "+strings.Join(words, " nor "), "")
	}
}

// allowed returns what an error about the field says is allowed.
func (f Field) allowed() string {
	if f.has("table") {
		return allowedTable
	}
	words := strings.ReplaceAll(f.Tag.Get("oneof"), ",", ", ")
	if last := strings.LastIndex(words, ", "); last >= 0 {
		words = words[:last] + " or " + words[last+len(", "):]
	}
	return cmp.Or(f.Tag.Get("allowed"), words)
}

func (r *Reader) field(at any) Field {
	i := slices.IndexFunc(r.fields, func(f Field) bool { return f.At() == at })
	return r.fields[i]
}

// Variable returns the name of the variable of a field.
func (r *Reader) Variable(field any) string { return r.field(field).Name }

// Refuse records a problem with a field. An empty allowed means the tag of the field.
func (r *Reader) Refuse(field any, what, allowed string) { r.refuse(r.field(field), what, allowed) }

func (r *Reader) refuse(f Field, what, allowed string) {
	r.Wrong(f.Name, what, cmp.Or(allowed, f.allowed()))
}

// Word returns the value of a field, or its default.
func (r *Reader) Word(field *string) string { return cmp.Or(*field, r.field(field).Tag.Get("default")) }

// On reports whether a switch is on.
func (r *Reader) On(field *string) bool { return r.Word(field) == "on" }

// Time returns the duration of a field, or its default.
func (r *Reader) Time(field *time.Duration) time.Duration {
	fallback, _ := ParseDuration(r.field(field).Tag.Get("default"))
	return cmp.Or(*field, fallback)
}

// Level returns the log level of a field.
func (r *Reader) Level(field *string) slog.Level { return logLevels[r.Word(field)] }

// Err returns an *Error with all problems in the order of the fields, or nil. Unknown settings come first.
func (r *Reader) Err() error {
	rest, known := r.problems, []Problem(nil)
	for _, f := range r.fields {
		var others []Problem
		for _, problem := range rest {
			if problem.Name == f.Name {
				known = append(known, problem)
			} else {
				others = append(others, problem)
			}
		}
		rest = others
	}
	r.problems = append(rest, known...)
	return r.Parser.Err()
}
