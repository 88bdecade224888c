package offline

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"

	"github.com/oncebox/oncebox/internal/testkit/dedupefault"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
)

// storeNothing puts no entry, so that only the run uses memory.
func storeNothing(ctx context.Context, c *dedupefault.Call) error {
	if c.Method == dedupefault.PutIfAbsent {
		c.Puts = make([]dedupe.PutResult, len(c.Entries))
		return nil
	}
	return c.Do(ctx)
}

// TestBoundedMemory checks that the memory of a run depends neither on the number of lines nor on the length of a
// line, even if fingerprints are computed and compared.
func TestBoundedMemory(t *testing.T) {
	boundedMemory(t, func(*Job) {})
	boundedMemory(t, func(j *Job) {
		j.IDs = RenameAll
		setFormat(j, func(o *format.Options) { o.FingerprintPath = "" })
	})
}

func boundedMemory(t *testing.T, change func(*Job)) {
	t.Helper()
	const lines, size, endless = 50_000, 1000, 24 << 20
	b := newBench(t)
	b.dir = t.TempDir() // not in memory
	b.job.Out, b.job.DeadLetters = b.path("out"), b.path("dead")
	change(&b.job)
	path := b.path("in")
	writeLines(t, path, lines, size)
	open := func() (io.ReadCloser, error) { return os.Open(path) }
	b.job.Inputs = []Input{{Name: path, Open: open, Size: lines * size}, {Name: "endless", Size: endless,
		Open: func() (io.ReadCloser, error) { return io.NopCloser(xs{}), nil }}}
	b.job.Store = dedupefault.HookStore(b.store, storeNothing)
	var most uint64
	calls := 0
	b.job.Progress = func(Progress) {
		if calls++; calls%8 == 0 || calls > lines/DefaultBatchSize {
			most = max(most, heap())
		}
	}
	begin := heap()
	got := b.run()
	if got.New != lines || got.DeadLettered != 1 {
		t.Fatalf("unexpected %+v", got)
	}
	const limit = 48 << 20 // a line of 10 MiB in a slice that grew, and a batch
	if growth := int64(most) - int64(begin); growth > limit {
		t.Errorf("the heap grew by %d MiB for %d MiB of input", growth>>20, (lines*size+endless)>>20)
	} else {
		t.Logf("the heap grew by %d KiB", growth>>10)
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func writeLines(t *testing.T, path string, lines, size int) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(file)
	for i := range lines {
		fmt.Fprintf(w, `{"id":"%d","fp":"x","s":"%0*d"}`+"\n", 1e6+i, size-len(`{"id":"1000000","fp":"x","s":""}`)-1, i)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// xs is a line without an end.
type xs struct{}

func (xs) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}
