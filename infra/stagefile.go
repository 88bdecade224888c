package infra

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A stageFile has the settings of a stack, by their paths: stack, claims.auth, records.sink. Numbers and texts are as
// they are in the file, so that a value is read as the variable of a function is.
type stageFile struct {
	name     string // without its folder; "" for settings that are in no file
	folder   string // where relative paths begin
	settings map[string]setting
	with     map[string]bool // the parts that the file names: false is none
}

type setting struct {
	text string // of a list, with commas between
	kind settingKind
	line int // of the key
}

type settingKind int

const (
	textKind  settingKind = iota // a text or a number
	truthKind                    // true or false
	listKind
	keysKind // keys and values, which no setting has
)

// stageParts are the parts of the file. A stack without a part must say so.
var stageParts = []string{"claims", "records"}

// pathOf returns the path of a key in a part. The part "" is the file itself.
func pathOf(part, key string) string { return strings.TrimPrefix(part+"."+key, ".") }

func partOf(path string) (part, key string) {
	if part, key, ok := strings.Cut(path, "."); ok {
		return part, key
	}
	return "", path
}

// place says where a path is.
func (f *stageFile) place(path string, line int) string {
	return fmt.Sprintf("%s in %s, line %d", path, f.name, line)
}

// tagValue is CloudFormation's rule for values of tags (Tagging AWS Resources, "Tag naming limits and requirements"). The
// names of files are not longer.
var tagValue = regexp.MustCompile(`^[\p{L}\p{Z}\p{N}_.:/=+@-]+$`)

// readStageFile reads a file. It adds problems of single settings to wrong. Its error says why there are none.
func readStageFile(path string, wrong *problems) (*stageFile, error) {
	f := &stageFile{
		name: filepath.Base(path), folder: filepath.Dir(path), settings: map[string]setting{}, with: map[string]bool{},
	}
	if !tagValue.MatchString(f.name) {
		return nil, fmt.Errorf("%s: rename the file: a tag of the stack has its name, and a tag has only letters, digits, "+
			"spaces and _.:/=+-@", f.name)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s is %q, and the file cannot be read: %w", settingsContext, path, reasonOf(err))
	}
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	var document, more yaml.Node
	if err := decoder.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s is not YAML: %s", f.name, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if document.Kind == 0 || document.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s has no settings; write keys and values, as in `stack: shop`", f.name)
	}
	if err := decoder.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s has a second document, after ---; write one file for each stack", f.name)
	}
	f.readPart("", document.Content[0], wrong)
	return f, nil
}

// reasonOf returns the error without the name of the file.
func reasonOf(err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return failed.Err
	}
	return err
}

// readPart reads the keys of the file, or of one part.
func (f *stageFile) readPart(part string, keys *yaml.Node, wrong *problems) {
	lines := map[string]int{}
	for i := 0; i < len(keys.Content); i += 2 {
		key, value := keys.Content[i], keys.Content[i+1]
		path := pathOf(part, key.Value)
		place := f.place(path, key.Line)
		switch first, twice := lines[key.Value], lines[key.Value] != 0; {
		case hides(key) || key.Kind != yaml.ScalarNode:
			wrong.add("%s: a key is a word; anchors, aliases, tags and merge keys (<<) are not read here", place)
		case strings.Contains(key.Value, "."):
			wrong.add("%s: a key has no dots; write %s: and the keys of that part below it, with spaces before them",
				place, strings.Split(key.Value, ".")[0])
		case twice:
			wrong.add("%s: the key is in line %d, too; remove one", place, first)
		case part == "" && isPart(key.Value):
			f.readPartOrNone(key.Value, place, value, wrong)
		default:
			f.readSetting(path, key.Line, value, wrong)
		}
		lines[key.Value] = key.Line
	}
}

func isPart(key string) bool { return key == stageParts[0] || key == stageParts[1] }

func (f *stageFile) readPartOrNone(part, place string, value *yaml.Node, wrong *problems) {
	f.with[part] = value.Kind == yaml.MappingNode && !hides(value)
	switch {
	case hides(value):
		wrong.add("%s: anchors, aliases and tags are not read here; write the keys of this part", place)
	case f.with[part]:
		f.readPart(part, value, wrong)
	case value.Value != "none":
		wrong.add("%s: write the keys of this part below it, with spaces before them, or `%s: none`", place, part)
	}
}

func (f *stageFile) readSetting(path string, line int, value *yaml.Node, wrong *problems) {
	s, place := setting{text: value.Value, line: line}, f.place(path, line)
	elements := []*yaml.Node{value}
	switch {
	case value.Kind == yaml.MappingNode: // of a part with a misspelt name, if no setting has this path
		s.kind = keysKind
		f.settings[path] = s
		return
	case value.Kind == yaml.SequenceNode && !hides(value):
		s.kind, elements = listKind, value.Content
	case value.ShortTag() == "!!bool":
		s.kind = truthKind
	}
	texts := make([]string, len(elements))
	for i, e := range elements {
		problem := wrongValue(e)
		if problem == "" && s.kind == listKind && strings.Contains(e.Value, ",") {
			problem = "a value of a list has no comma"
		}
		if problem != "" {
			wrong.add("%s: %s", place, problem)
			return
		}
		texts[i] = e.Value
	}
	if len(texts) == 0 {
		wrong.add("%s: the list is empty; leave the key out", place)
		return
	}
	s.text = strings.Join(texts, ",")
	f.settings[path] = s
}

// hides reports whether a node has something that the reader of the file could overlook: a value from another place,
// or a type that its text does not show.
func hides(n *yaml.Node) bool {
	return n.Kind == yaml.AliasNode || n.Anchor != "" || n.Style&yaml.TaggedStyle != 0 || n.ShortTag() == "!!merge"
}

// wrongValue returns what is wrong with one value, or "".
func wrongValue(n *yaml.Node) string {
	switch {
	case hides(n):
		return "anchors, aliases and tags are not read here; write the value"
	case n.Kind != yaml.ScalarNode:
		return "a list has texts and numbers only"
	case n.Value == "" || n.ShortTag() == "!!null":
		return "it has no value; write one, or leave the key out"
	case strings.TrimSpace(n.Value) != n.Value:
		return "it has white space at an end; remove it. A text of several lines begins with |- or >-"
	case strings.Contains(n.Value, "{Token["):
		return "it contains {Token[, which the CDK reserves"
	}
	return ""
}
