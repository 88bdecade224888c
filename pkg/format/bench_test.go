package format_test

import (
	"context"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/readertest"
	"github.com/oncebox/oncebox/pkg/format"
)

// page is a realistic record of 1 KB: a page view with two contexts.
var page = []byte(readertest.PageView)

func benchmarkRead(b *testing.B, o format.Options) {
	f, err := format.NewJSON(o)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Read(context.Background(), page); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReadByPath(b *testing.B) {
	benchmarkRead(b, format.Options{IDPath: "event_id", FingerprintPath: "event_fingerprint", Volatile: []string{"etl_tstamp", "sent_at"}})
}

func BenchmarkReadComputed(b *testing.B) {
	benchmarkRead(b, format.Options{IDPath: "event_id", Volatile: []string{"etl_tstamp", "sent_at"}})
}

func BenchmarkRename(b *testing.B) {
	f, err := format.NewJSON(format.Options{IDPath: "event_id"})
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(page)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := f.Rename(context.Background(), page, "order-1", "a78d0945-7855-5071-b185-8466c665a24d"); err != nil {
			b.Fatal(err)
		}
	}
}
