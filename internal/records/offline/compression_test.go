package offline

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
)

// packed compresses a text as members or frames of a few bytes each.
func packed(t testing.TB, c Compression, text string) string {
	t.Helper()
	const each = 100
	var b bytes.Buffer
	p := newPacker(c)
	for begin := 0; begin == 0 || begin < len(text); begin += each {
		p.Reset(&b)
		if _, err := io.WriteString(p, text[begin:min(begin+each, len(text))]); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return b.String()
}

func packedEach(t testing.TB, c Compression, texts []string) []string {
	t.Helper()
	if c == NotCompressed {
		return texts
	}
	for i, text := range texts {
		texts[i] = packed(t, c, text)
	}
	return texts
}

// TestCompressedInputs checks that a run does not depend on the compression of its inputs. A run that was stopped
// continues with the same content in another compression.
func TestCompressedInputs(t *testing.T) {
	t.Parallel()
	reference := newBench(t, everything()...)
	reference.run()
	const skippable = "\x50\x2a\x4d\x18\x02\x00\x00\x00hi"
	mixed := []string{packed(t, Gzip, everything()[0]), skippable + packed(t, Zstandard, everything()[1])}
	for name, inputs := range map[string][]string{
		"gzip": packedEach(t, Gzip, everything()), "zstd": packedEach(t, Zstandard, everything()), "mixed": mixed,
	} {
		b := newBench(t, everything()...)
		b.job.BatchSize, b.tick = 4, recordEvery
		b.die(20, before)
		b.job.Inputs = texts(inputs...)
		if got := b.run(); got.Resumed == 0 {
			t.Errorf("%s: the run did not continue", name)
		}
		b.wantOut(reference.output())
		if b.read("dead") != reference.read("dead") {
			t.Errorf("%s: want dead letters %s, got %s", name, reference.read("dead"), b.read("dead"))
		}
		once := newBench(t, inputs...)
		once.job.Forgets = true
		for i := range once.job.Inputs {
			once.job.Inputs[i].Size = Unknown
		}
		once.run()
		once.wantOut(reference.output())
	}
}

// TestProgress checks that each pass ends with all bytes, even if they are compressed.
func TestProgress(t *testing.T) {
	t.Parallel()
	for _, c := range []Compression{NotCompressed, Gzip} {
		last := map[string]Progress{}
		b := newBench(t, packedEach(t, c, everything())...)
		b.job.IDs, b.job.Progress = RenameAll, func(p Progress) { last[p.Doing] = p }
		got := b.run()
		for _, pass := range []string{passReading, passRenaming, passDeciding} {
			if p := last[pass]; p.Bytes == 0 || p.Bytes != p.Total || (pass == passDeciding) != (p.Lines == got.In) {
				t.Errorf("%s: %+v", c, p)
			}
		}
	}
}

// TestEmptyContent checks that an output without a survivor can be unpacked, and that an input without a line can be
// read.
func TestEmptyContent(t *testing.T) {
	t.Parallel()
	for _, c := range []Compression{Gzip, Zstandard} {
		b := newBench(t, packed(t, c, ""))
		b.job.Compression = c
		b.run()
		if b.wantOut(""); compressionOfContent([]byte(b.read("out"))[:magicBytes]) != c {
			t.Errorf("%s: the output is %q", c, b.read("out"))
		}
	}
}

// TestCutOffInput checks that an input that was cut off at any place is refused by its name, before anything is
// changed. If inputs are read only once, the run stops at that place.
func TestCutOffInput(t *testing.T) {
	t.Parallel()
	lines := strings.Repeat(rec("1", "a")+rec("2", "b"), 300)
	for c, name := range map[Compression]string{Gzip: "a.gz", Zstandard: "a.zst"} {
		var whole bytes.Buffer
		p := newPacker(c)
		p.Reset(&whole)
		_, writeErr := io.WriteString(p, lines)
		if err := errors.Join(writeErr, p.Close()); err != nil {
			t.Fatal(err)
		}
		for size := range whole.Len() {
			b := newBench(t, whole.String()[:size])
			b.job.Inputs[0].Name = name
			b.refused(name, "ends in the middle", string(c))
			if size < magicBytes {
				continue
			}
			b.job.Forgets, b.job.Inputs[0].Size, b.job.PoisonLimit.Off = true, Unknown, true
			if _, err := b.job.Run(context.Background()); err == nil || !strings.Contains(err.Error(), "ends in the middle") {
				t.Errorf("%s cut to %d bytes: %v", name, size, err)
			}
		}
		broken := newBench(t, whole.String()+"rubbish behind the end")
		broken.job.Inputs[0].Name = name
		broken.refused(name, "damaged")
	}
}

// TestInterruptedInABatch checks that a batch that was interrupted between its two files is not kept. A compressed
// output cannot be cut in front of that batch, so it goes back to the last record point.
func TestInterruptedInABatch(t *testing.T) {
	t.Parallel()
	text := rec("1", "a") + rec("2", "b") + rec("2", "b") + strings.Repeat("x", 1<<20) + "\n" + rec("3", "c")
	for _, c := range []Compression{NotCompressed, Gzip, Zstandard} {
		b := newBench(t, text)
		b.job.Compression, b.job.maxLine, b.job.BatchSize = c, 500, 10
		ctx, cancel := context.WithCancel(t.Context())
		b.job.open = func(path string, flag int) (file, error) {
			f, err := osOpen(path, flag)
			if path == b.path("dead") {
				cancel()
			}
			return f, err
		}
		if _, err := b.job.Run(ctx); !errors.Is(err, ErrStopped) || !errors.Is(err, context.Canceled) {
			t.Fatalf("%s: want an interrupted run, got %v", c, err)
		}
		b.job.open = nil
		b.run()
		b.wantOut(rec("1", "a") + rec("2", "b") + rec("3", "c"))
	}
}
