package history

import (
	"context"
	"errors"
	"iter"

	"github.com/oncebox/oncebox/internal/records/offline"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// lines are the records of files with one record a line.
type lines struct {
	inputs   []offline.Input
	delivery dedupe.Delivery
}

// Lines returns the records of files with one record a line.
func Lines(inputs []offline.Input, f dedupe.Format) Source {
	return lines{inputs, dedupe.Delivery{Format: f}}
}

func (l lines) Digest(ctx context.Context) ([]byte, error) { return offline.DigestOf(ctx, l.inputs) }

func (l lines) Records(ctx context.Context) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for line, err := range offline.Lines(ctx, l.inputs) {
			var record Record
			if err == nil {
				record, err = l.read(ctx, line)
			}
			if !yield(record, err) || err != nil {
				return
			}
		}
	}
}

func (l lines) read(ctx context.Context, line offline.Line) (Record, error) {
	record := Record{Place: placeOf(line.Input, line.Number)}
	if line.TooLong {
		record.Bad = "the line is too long"
		return record, nil
	}
	fields, err := l.delivery.Read(ctx, dedupe.Output{Data: line.Text})
	if poison, ok := errors.AsType[*dedupe.PoisonError](err); ok {
		record.Bad = poison.Reason
		return record, nil
	}
	record.Fields = fields
	return record, err
}
