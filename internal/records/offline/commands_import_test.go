package offline_test

import (
	"context"

	"github.com/oncebox/oncebox/internal/records/history"
	"github.com/oncebox/oncebox/internal/records/offline"
	"github.com/oncebox/oncebox/pkg/dedupe"
)

func init() {
	offline.Import = func(j offline.Job, clock dedupe.Clock) error {
		i := history.Import{
			Source: history.Lines(j.Inputs, j.Format), Store: j.Store, Scope: j.Scope, Retention: j.Retention,
			Derive: j.IDs == offline.Derived, Batch: j.BatchSize, Now: j.Now, Clock: clock,
		}
		_, err := i.Run(context.Background())
		return err
	}
}
