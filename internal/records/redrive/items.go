package redrive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/oncebox/oncebox/pkg/deadletter"
)

// FromArchive yields the letters of a store.
func FromArchive(ctx context.Context, a *deadletter.Archive) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for entry, err := range a.All(ctx) {
			item := named(a, entry.Name)
			item.Done = func(context.Context) (bool, error) { return entry.Done, nil }
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

// Named yields the letters of a store with these names.
func Named(a *deadletter.Archive, names []string) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for _, name := range names {
			if !yield(named(a, name), nil) {
				return
			}
		}
	}
}

func named(a *deadletter.Archive, name string) Item {
	return Item{
		Name: name, Done: doneIn(a, name),
		Letter: func(ctx context.Context) (deadletter.Letter, error) { return a.Read(ctx, name) },
	}
}

func doneIn(a *deadletter.Archive, name string) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		marker, err := a.Done(ctx, name)
		return marker != nil, err
	}
}

// FromReader yields the letters of a text: JSON objects with white space between them. An object is a document, an
// invocation record, or an answer of `aws sqs receive-message` with these. The marker of a letter that was exported
// from the store is beside its object. Those of other letters are in the folder of the store, which is "" or ends in
// a slash. function is that of the run, or "": an event of a dead-letter queue is one letter for each function.
func FromReader(a *deadletter.Archive, folder, function, what string, text io.Reader) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		decoder := json.NewDecoder(text)
		for number := 1; ; number++ {
			var content json.RawMessage
			if err := decoder.Decode(&content); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				yield(Item{}, fmt.Errorf("%s: object %d is not JSON: %w", what, number, err))
				return
			}
			for i, body := range bodiesOf(content) {
				if !yield(fromText(a, folder, function, fmt.Sprintf("%s#%d.%d", what, number, i+1), body), nil) {
					return
				}
			}
		}
	}
}

// bodiesOf returns the bodies of received messages, or the content itself.
func bodiesOf(content json.RawMessage) (bodies []json.RawMessage) {
	var received struct {
		Messages []struct {
			Body string `json:"Body"`
		} `json:"Messages"`
	}
	if json.Unmarshal(content, &received) != nil || received.Messages == nil {
		return []json.RawMessage{content}
	}
	for _, m := range received.Messages {
		bodies = append(bodies, json.RawMessage(m.Body))
	}
	return bodies
}

func fromText(a *deadletter.Archive, folder, function, where string, content json.RawMessage) Item {
	letter, err := deadletter.ParseLetter(where, content)
	item := Item{
		Name: where, Done: func(context.Context) (bool, error) { return false, nil },
		Letter: func(context.Context) (deadletter.Letter, error) { return letter, err },
	}
	if err == nil {
		item.Name = nameIn(a, folder, content, letter.For(function))
		item.Done = doneIn(a, item.Name)
	}
	return item
}
