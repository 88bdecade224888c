// Package openapitest checks answers of an HTTP API against its OpenAPI 3.1 document.
package openapitest

import (
	"bytes"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// address stands for the document in references. Nothing is fetched.
const address = "https://openapi.invalid/document"

// A Document is an OpenAPI document. It is not safe for concurrent use.
type Document struct {
	root     any
	compiler *jsonschema.Compiler
}

// Parse reads a document in JSON.
func Parse(raw []byte) (*Document, error) {
	root, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	d := &Document{root, jsonschema.NewCompiler()}
	d.compiler.DefaultDraft(jsonschema.Draft2020) // that of OpenAPI 3.1
	d.compiler.AssertFormat()
	return d, d.compiler.AddResource(address, root)
}

// Operations returns the operations as "METHOD /path", sorted.
func (d *Document) Operations() (all []string) {
	paths, _ := d.At("paths").(map[string]any)
	for path, item := range paths {
		members, _ := item.(map[string]any)
		for member := range members {
			if member != "parameters" {
				all = append(all, strings.ToUpper(member)+" "+path)
			}
		}
	}
	slices.Sort(all)
	return all
}

// At returns the value at a path of members. It follows references. Without such a value it returns nil.
func (d *Document) At(path ...string) any {
	value, _ := d.find(path)
	return value
}

// Answer is an answer to a request.
type Answer struct {
	Operation string // as "METHOD /path", with the path of the document
	Status    int
	Headers   map[string]string // by canonical name
	Body      string
}

// Check returns what the document does not say of an answer: another status, header or member of the body is an error, as
// is a missing one.
func (d *Document) Check(a Answer) error {
	method, path, _ := strings.Cut(a.Operation, " ")
	response, at := d.find([]string{"paths", path, strings.ToLower(method), "responses", strconv.Itoa(a.Status)})
	members, found := response.(map[string]any)
	if !found {
		return fmt.Errorf("%s has no answer %d in the document", a.Operation, a.Status)
	}
	if err := errors.Join(d.checkHeaders(at, a), d.checkBody(members, at, a)); err != nil {
		return fmt.Errorf("%s, answer %d: %w", a.Operation, a.Status, err)
	}
	return nil
}

func (d *Document) checkHeaders(response []string, a Answer) (err error) {
	described, _ := d.At(append(response, "headers")...).(map[string]any)
	for name := range described {
		header, at := d.find(append(response, "headers", name))
		value, sent := a.Headers[http.CanonicalHeaderKey(name)]
		switch required := header.(map[string]any)["required"] == true; {
		case sent:
			err = errors.Join(err, d.validate(append(at, "schema"), headerValue(value), name))
		case required:
			err = errors.Join(err, fmt.Errorf("the header %s is missing", name))
		}
	}
	for name := range a.Headers {
		if _, known := described[name]; !known && name != "Content-Type" { // the content has that one
			err = errors.Join(err, fmt.Errorf("the header %s is not in the document", name))
		}
	}
	return err
}

// headerValue is a header as a schema sees it: numbers are numbers.
func headerValue(text string) any {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return text
}

func (d *Document) checkBody(response map[string]any, at []string, a Answer) error {
	content, _ := response["content"].(map[string]any)
	if len(content) == 0 {
		if a.Body != "" {
			return fmt.Errorf("there is a body: %.200q", a.Body)
		}
		return nil
	}
	mediaType, _, err := mime.ParseMediaType(a.Headers["Content-Type"])
	if err != nil || content[mediaType] == nil {
		return fmt.Errorf("the content type %q is not in the document", a.Headers["Content-Type"])
	}
	body, err := jsonschema.UnmarshalJSON(strings.NewReader(a.Body))
	if err != nil {
		return err
	}
	return d.validate(append(at, "content", mediaType, "schema"), body, "body")
}

// validate checks a value against the schema at a path. It does not let members pass that the schema does not name:
// clients have to ignore them, but the document should have them.
func (d *Document) validate(path []string, value any, what string) error {
	reference := address + pointer(path)
	strict := address + "/strict" + strings.ReplaceAll(pointer(path), "#", "")
	err := d.compiler.AddResource(strict, map[string]any{"$ref": reference, "unevaluatedProperties": false})
	if exists := (*jsonschema.ResourceExistsError)(nil); err != nil && !errors.As(err, &exists) {
		return err
	}
	schema, err := d.compiler.Compile(strict)
	if err != nil {
		return err
	}
	if err := schema.Validate(value); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// find returns the value at a path of members, and the path that it has without references.
func (d *Document) find(path []string) (value any, at []string) {
	value = d.root
	for i := 0; ; i++ {
		members, _ := value.(map[string]any)
		if reference, is := members["$ref"].(string); is {
			return d.find(append(pathOf(reference), path[i:]...))
		}
		if i == len(path) {
			return value, slices.Clone(path)
		}
		value = members[path[i]]
	}
}

var (
	escape   = strings.NewReplacer("~", "~0", "/", "~1", "%", "%25", "{", "%7B", "}", "%7D")
	unescape = strings.NewReplacer("~1", "/", "~0", "~")
)

// pointer writes a path as a JSON pointer in a URL's fragment.
func pointer(path []string) string {
	text := "#"
	for _, member := range path {
		text += "/" + escape.Replace(member)
	}
	return text
}

// pathOf reads a reference into this document.
func pathOf(reference string) []string {
	path := strings.Split(strings.TrimPrefix(reference, "#/"), "/")
	for i := range path {
		path[i] = unescape.Replace(path[i])
	}
	return path
}
