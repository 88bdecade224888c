package recordhandler_test

import (
	"errors"
	"testing"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/recordhandler"
)

// TestProcessorOfAStream: a dead letter goes through the Processor of its stream, in that stream's scope. The sink
// must not be its stream.
func TestProcessorOfAStream(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"clicks", "sqs:clicks", "dynamodb:clicks", "logs:/aws/f"} {
		b := newBench(t)
		p, got, err := b.LetterProcessor(t.Context(), dedupe.Stream{Account: "1", Region: "r", Name: name})
		if p == nil || got != name || err != nil {
			t.Errorf("scope of %s: %q, %v", name, got, err)
		}
		own := newBench(t, "ONCEBOX_SCOPE=own")
		if _, got, err := own.LetterProcessor(t.Context(), dedupe.Stream{Name: name}); got != "own" || err != nil {
			t.Errorf("a scope that is set: %q, %v", got, err)
		}
		if _, _, err := b.LetterProcessor(t.Context(), dedupe.Stream{Name: "unique"}); !errors.Is(err, recordhandler.ErrLoop) {
			t.Errorf("the sink: %v", err)
		}
	}
}

// TestDecode: the event of a batch is read as the handler reads it.
func TestDecode(t *testing.T) {
	t.Parallel()
	b, err := recordhandler.Decode(rawOf(t, event(`{"id":"a"}`, `{"id":"b"}`)), false)
	if err != nil || len(b.Records) != 2 || string(b.Records[1].Data) != `{"id":"b"}` || b.Shard == "" {
		t.Errorf("%+v, %v", b, err)
	}
	if _, err := recordhandler.Decode([]byte(`{}`), false); !errors.Is(err, recordhandler.ErrNotKinesis) {
		t.Errorf("another event: %v", err)
	}
}
