package framing_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/format"
	"github.com/oncebox/oncebox/pkg/framing"
)

// messageOf is a compressed message of CloudWatch Logs with these log events. more are other members, as in `"a":1,`.
func messageOf(t testing.TB, more, logEvents string) string {
	t.Helper()
	return zip(t, `{`+more+`"messageType":"DATA_MESSAGE","logEvents":`+logEvents+`}`)
}

// list is a JSON array with a value many times.
func list(value string, times int) string {
	return "[" + strings.Repeat(value+",", times-1) + value + "]"
}

// limit is to how much the payloads of these tests may open.
const limit = 32 << 20

func room() *dedupe.Room { return dedupe.RoomOf(limit) }

// windowOf is a zstd frame of a few bytes whose header asks for a window of 2 to this power. It holds one event.
func windowOf(power int) string {
	events := eventsOf("a")
	return "\x28\xb5\x2f\xfd\x00" + string([]byte{byte(power-10) << 3, 1 | byte(len(events))<<3, 0, 0}) + events
}

// bombs are payloads that open to far more than they are, or to very many records.
func bombs(t testing.TB) map[string]struct{ framing, payload, reason string } {
	const tooMuch = "100,000 records, or to more bytes than the limit"
	const toLambda = 4_700_000 // about the largest payload in an event of Lambda
	empty := string([]byte{1, 1}) + strings.Repeat("\x00", 4<<20)
	common := `"owner":"` + strings.Repeat("x", 60_000) + `",`
	return map[string]struct{ framing, payload, reason string }{
		"empty events":                    {"snowplow", zip(t, empty), tooMuch},
		"empty events in zstd":            {"snowplow", zstdOf(t, empty), tooMuch},
		"half a GiB":                      {"snowplow", strings.Repeat(zip(t, empty), 128), tooMuch},
		"half a GiB in zstd":              {"snowplow", strings.Repeat(zstdOf(t, empty), 128), tooMuch},
		"half a GiB of logs":              {"logs", strings.Repeat(zip(t, empty), 128), tooMuch},
		"a large window":                  {"snowplow", windowOf(26), tooMuch},
		"a larger window":                 {"snowplow", windowOf(28), "a window of more than 128 MiB"},
		"many log events":                 {"logs", messageOf(t, "", list("1", 4<<20)), tooMuch},
		"log events with a long owner":    {"logs", messageOf(t, common, list(`{"a":1}`, 2000)), tooMuch},
		"a large log event":               {"logs", messageOf(t, "", `["`+strings.Repeat("x", 17<<20)+`"]`), tooMuch},
		"many members":                    {"logs", messageOf(t, strings.Repeat(`"a":1,`, 1<<18), "[]"), "64 KiB beside its log events"},
		"a control message with a member": {"logs", zip(t, `{"messageType":"CONTROL_MESSAGE","a":"`+strings.Repeat("x", 1<<20)+`"}`), "64 KiB beside"},
		"lines":                           {"lines", strings.Repeat("1\n", toLambda/2), tooMuch},
		"array":                           {"array", list("1", toLambda/2), tooMuch},
		"concatenated":                    {"concatenated", strings.Repeat("1 ", toLambda/2), tooMuch},
	}
}

// TestBombs: a payload beyond the limits is poison. No more than the limits is opened, whatever it would open to. The
// test is not parallel, since it counts the memory that the process takes.
func TestBombs(t *testing.T) {
	for name, bomb := range bombs(t) {
		t.Run(name, func(t *testing.T) {
			f, err := framing.Named(bomb.framing)
			must(t, err)
			payload := []byte(bomb.payload)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			records, framed, err := f.Open(t.Context(), payload, room())
			runtime.ReadMemStats(&after)
			if reason := reasonOf(err); framed || records != nil || !strings.Contains(reason, bomb.reason) {
				t.Errorf("%d records, reason %q, %v", len(records), reason, err)
			}
			taken := after.TotalAlloc - before.TotalAlloc
			t.Logf("a payload of %d KB takes %d MiB", len(payload)>>10, taken>>20)
			// io.ReadAll takes twice what it returns. Under the race detector, slices grow in more steps, and pools are emptied.
			const most = 6 * limit
			if taken > most {
				t.Errorf("it took %d bytes, want at most %d", taken, most)
			}
		})
	}
}

// TestSmallPayloads: payloads that are opened and packed one after the other take the memory of one. The test is not
// parallel, since it counts the memory that the process takes.
func TestSmallPayloads(t *testing.T) {
	for name, payload := range map[string]string{"gzip": zip(t, eventsOf("a")), "a window of 32 MiB": windowOf(25)} {
		t.Run(name, func(t *testing.T) {
			const times = 400
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			room := room()
			for range times {
				events, _, err := (framing.Snowplow{}).Open(t.Context(), []byte(payload), room)
				must(t, err)
				_, err = (framing.Snowplow{}).Pack([]byte(payload), events)
				must(t, err)
			}
			runtime.ReadMemStats(&after)
			// With a window for each Open and each Pack it is twice this. The race detector makes a pool lose each fourth.
			if taken := after.TotalAlloc - before.TotalAlloc; taken > times*limit {
				t.Errorf("it took %d MiB", taken>>20)
			} else {
				t.Logf("it took %d MiB", taken>>20)
			}
		})
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, _, err := (framing.Snowplow{}).Open(ended, []byte(windowOf(25)), room()); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
}

// reasonOf returns the reason why a payload is poison.
func reasonOf(err error) string {
	if bad, ok := errors.AsType[*format.BadRecord](err); ok {
		return bad.Reason
	}
	if poison, ok := errors.AsType[*dedupe.PoisonError](err); ok {
		return poison.Reason
	}
	return fmt.Sprint(err)
}

// TestAtTheLimits: payloads up to the limits are opened.
func TestAtTheLimits(t *testing.T) {
	t.Parallel()
	const most = dedupe.MaxOpenedRecords
	for name, test := range map[string]struct {
		framing, payload string
		records          int
	}{
		"events":       {"snowplow", zip(t, eventsOf(make([]string, most)...)), most},
		"a large one":  {"snowplow", zstdOf(t, eventsOf(strings.Repeat("x", limit-6))), 1},
		"a window":     {"snowplow", windowOf(25), 1},
		"log events":   {"logs", messageOf(t, `"owner":"1",`, list(`{"a":1}`, most)), most},
		"lines":        {"lines", strings.Repeat("1\n", most), most},
		"array":        {"array", list("1", most), most},
		"concatenated": {"concatenated", strings.Repeat("1 ", most), most},
	} {
		f, err := framing.Named(test.framing)
		must(t, err)
		records, framed, err := f.Open(t.Context(), []byte(test.payload), room())
		if !framed || err != nil || len(records) != test.records {
			t.Errorf("%s: %d records, %v", name, len(records), err)
		}
	}
}

// FuzzOpen opens any payload. It keeps to the limits, and what it opens is packed and opened again unchanged.
func FuzzOpen(f *testing.F) {
	names := []string{"lines", "array", "concatenated", "logs", "snowplow"}
	all := bombs(f)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if payload := all[name].payload; len(payload) < 10<<10 { // the others make fuzzing slow
			f.Add([]byte(payload))
		}
	}
	for _, payload := range []string{
		"a\nb\r\n", `[{"a":1},2]`, `{"a":1} {"b":2}`, zip(f, message), zip(f, eventsOf("a", "")), zstdOf(f, eventsOf("a")), windowOf(20), windowOf(26),
		messageOf(f, `"owner":{},"logStream":[1],`, `[{},{"id":1},7]`), messageOf(f, `"logEvents":[1],`, "null"),
	} {
		f.Add([]byte(payload))
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		for _, name := range names {
			opener, err := framing.Named(name)
			must(t, err)
			records, framed, err := opener.Open(t.Context(), payload, room())
			if err != nil || !framed || len(records) == 0 {
				if records != nil || framed && err != nil {
					t.Errorf("%s: %d records without a frame, %v", name, len(records), err)
				}
				continue
			}
			size := 0
			for _, r := range records {
				size += len(r)
			}
			if len(records) > dedupe.MaxOpenedRecords || size > len(payload)+limit {
				t.Errorf("%s: %d records of %d bytes", name, len(records), size)
			}
			packed, err := opener.Pack(payload, records)
			must(t, err)
			again, framed, err := opener.Open(t.Context(), packed, room())
			if len(records) == 1 && !framed {
				continue // a record without a frame
			}
			if err != nil || len(again) != len(records) {
				t.Errorf("%s: %d records are packed as %d: %v", name, len(records), len(again), err)
			}
		}
	})
}
