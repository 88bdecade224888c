package records

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/oncebox/oncebox/internal/cli"
	"github.com/oncebox/oncebox/internal/records/history"
	"github.com/oncebox/oncebox/internal/records/offline"
	"github.com/oncebox/oncebox/internal/records/snowplowmanifest"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

// manifestTable reads the table itself.
func manifestTable(ctx context.Context, table string, keep dedupe.Retention) (history.Source, error) {
	client, err := cli.DynamoClient(ctx)
	if err != nil {
		return nil, err
	}
	since := snowplowmanifest.Since(time.Now(), keep)
	return snowplowmanifest.Past(func(ctx context.Context) iter.Seq2[snowplowmanifest.Row, error] {
		return snowplowmanifest.Table(ctx, client, table, since)
	}), nil
}

// manifestExport reads the files of an export of the table to S3.
func manifestExport(inputs []offline.Input, keep dedupe.Retention) history.Source {
	since := snowplowmanifest.Since(time.Now(), keep)
	return snowplowmanifest.Past(func(ctx context.Context) iter.Seq2[snowplowmanifest.Row, error] {
		return func(yield func(snowplowmanifest.Row, error) bool) {
			for _, in := range inputs {
				if !eachExported(ctx, in, since, yield) {
					return
				}
			}
		}
	})
}

// eachExported yields the rows of a file. It reports whether to continue.
func eachExported(
	ctx context.Context, in offline.Input, since time.Time, yield func(snowplowmanifest.Row, error) bool,
) bool {
	content, err := in.Content(ctx)
	if err != nil {
		yield(snowplowmanifest.Row{}, err)
		return false
	}
	defer func() { _ = content.Close() }() // the file was only read
	for row, err := range snowplowmanifest.Export(content, since) {
		if err != nil {
			yield(snowplowmanifest.Row{}, fmt.Errorf("%s: %w", in.Name, err))
			return false
		}
		if !yield(row, nil) {
			return false
		}
	}
	return true
}
