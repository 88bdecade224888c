package dedupe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

func TestPurgeAt(t *testing.T) {
	t.Parallel()
	arrival := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	r := dedupe.Retention{Window: time.Hour, Horizon: 30 * time.Minute}
	for _, test := range []struct {
		retention dedupe.Retention
		arrival   time.Time
		want      int64
	}{
		{r, arrival, arrival.Unix() + 5400},
		{r, arrival.Add(time.Millisecond), arrival.Unix() + 5401}, // rounded up
		{r, arrival.Add(time.Second - time.Millisecond), arrival.Unix() + 5401},
		{dedupe.Retention{ForGood: true, Window: time.Hour}, arrival, dedupe.Never},
	} {
		if got := test.retention.PurgeAt(test.arrival); got != test.want {
			t.Errorf("%+v at %s: want %d, got %d", test.retention, test.arrival, test.want, got)
		}
	}
}

func TestCompareSequence(t *testing.T) {
	t.Parallel()
	ordered := []string{"0", "1", "9", "10", "99", "100", "49590338271490256608559692538361571095921575989136588898", strings.Repeat("9", 128)}
	for i, a := range ordered {
		for j, b := range ordered {
			for _, padded := range []string{a, "000" + a} {
				if got := dedupe.CompareSequence(padded, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
					t.Errorf("compare %s with %s: got %d", padded, b, got)
				}
			}
		}
	}
}

func TestParseStreamARN(t *testing.T) {
	t.Parallel()
	want := dedupe.Stream{Account: "123456789012", Region: "eu-west-1", Name: "orders"}
	for _, arn := range []string{
		"arn:aws:kinesis:eu-west-1:123456789012:stream/orders",
		"arn:aws-us-gov:kinesis:eu-west-1:123456789012:stream/orders",
		"arn:aws:kinesis:eu-west-1:123456789012:stream/orders/consumer/fast:1600000000", // an owner has no consumer
	} {
		if got, err := dedupe.ParseStreamARN(arn); err != nil || got != want {
			t.Errorf("%s: want %+v, got %+v, %v", arn, want, got, err)
		}
	}
	for _, bad := range []string{
		"", "orders", "arn:aws:sqs:eu-west-1:123456789012:orders", "arn:aws:kinesis:eu-west-1:123456789012:stream/",
		"arn:aws:kinesis:eu-west-1:123456789012:orders",
	} {
		if got, err := dedupe.ParseStreamARN(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, got)
		}
	}
}

func TestPosition(t *testing.T) {
	t.Parallel()
	p := dedupe.Position{
		Stream: dedupe.Stream{Account: "1", Region: "r", Name: "orders"}, Shard: "shardId-000000000000", Sequence: "49", Sub: dedupe.Plain,
	}
	if want := "1/r/orders/shardId-000000000000/49"; p.String() != want {
		t.Errorf("want %s, got %s", want, p)
	}
	p.Sub = 0
	if want := "1/r/orders/shardId-000000000000/49#0"; p.String() != want {
		t.Errorf("want %s, got %s", want, p)
	}
}

func TestPadSequence(t *testing.T) {
	t.Parallel()
	longest := strings.Repeat("9", 128)
	for _, test := range []struct{ sequence, want string }{
		{"0", "0"}, {"000", "0"}, {"007", "7"}, {longest, longest}, {"00" + longest, longest},
	} {
		padded, err := dedupe.PadSequence(test.sequence)
		if got := dedupe.UnpadSequence(padded); err != nil || len(padded) != 128 || got != test.want {
			t.Errorf("%s: padded to %q (%v) and back to %s, want %s", test.sequence, padded, err, got, test.want)
		}
	}
}
