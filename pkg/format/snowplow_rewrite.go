package format

import (
	"context"
	"errors"
	"slices"
	"strings"
)

const (
	// contextsFamily is the schema that Snowplow's loaders accept for contexts: model 1, revision 0
	// (snowplow-scala-analytics-sdk, Common.scala: ContextsCriterion).
	contextsFamily = "iglu:com.snowplowanalytics.snowplow/contexts/jsonschema/1-0-"
	// contextsSchema is the schema of contexts that Enrich writes (enrich, MiscEnrichments.scala: ContextsSchema).
	contextsSchema = contextsFamily + "1"
)

// Rename returns a copy of the event in which event_id is newID, and derived_contexts begins with a duplicate context
// that has oldID. No other byte changes. If derived_contexts is empty, Rename makes it. If it is not a contexts
// document, the error is a *BadRecord. Rename also returns a *BadRecord for an event whose form or event_id Read
// refuses.
//
// Read of the copy returns newID, and the same other fields as before. newID must be a UUID, as DerivedID returns it.
// Rename does not check whether oldID is the id of the event.
func (f *Snowplow) Rename(_ context.Context, record []byte, oldID, newID string) ([]byte, error) {
	if _, ok := parseUUID(newID); !ok {
		return nil, errors.New("format: the new event_id is not a UUID")
	}
	var e event
	if err := e.split(record); err != nil {
		return nil, err
	}
	if _, err := e.id(); err != nil {
		return nil, err
	}
	addition, err := f.addContext(&e, oldID)
	if err != nil {
		return nil, err
	}
	return splice(record, edit{e.column(columnEventID), []byte(newID)}, addition), nil
}

// addContext returns the edit that puts the duplicate context before the other derived contexts.
func (f *Snowplow) addContext(e *event, oldID string) (edit, *BadRecord) {
	context := appendContext(nil, oldID)
	at := e.column(columnDerivedContexts)
	if at.from == at.to {
		return edit{at, slices.Concat([]byte(`{"schema":"`+contextsSchema+`","data":[`), context, []byte("]}"))}, nil
	}
	s := scan{text: at.of(e.text), found: make([]span, f.contexts.count)}
	if s.record(f.contexts.root) != nil {
		return edit{}, bad(reasonDerivedContexts)
	}
	schema, err := s.textAt(f.schema, "schema", MaxText)
	data := s.found[f.data.number]
	if err != nil || !strings.HasPrefix(schema, contextsFamily) || data.to == 0 || s.text[data.from] != '[' {
		return edit{}, bad(reasonDerivedContexts)
	}
	addition := s.insertElement(data, context)
	addition.at.from += at.from
	addition.at.to += at.from
	return addition, nil
}
