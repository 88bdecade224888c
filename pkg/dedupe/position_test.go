package dedupe_test

import (
	"strings"
	"testing"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

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
	if want := "1/r/orders/shardId-000000000000/49"; p.Owner().String() != want {
		t.Errorf("want %s, got %s", want, p.Owner())
	}
	p.Sub = 0
	if want := "1/r/orders/shardId-000000000000/49#0"; p.Owner().String() != want {
		t.Errorf("want %s, got %s", want, p.Owner())
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

// TestOwnerDigest: no two owners share a digest, however their texts could be joined.
func TestOwnerDigest(t *testing.T) {
	t.Parallel()
	seen := map[dedupe.Digest]dedupe.Owner{}
	for _, o := range []dedupe.Owner{
		{Source: "shard-1", Sequence: "7", Sub: dedupe.Plain}, {Source: "shard-2", Sequence: "7", Sub: dedupe.Plain},
		{Source: "shard-1", Sequence: "7"}, {Source: "shard-1", Sequence: "7", Sub: 1}, {Source: "shard-17", Sub: dedupe.Plain},
		{Sequence: "shard-17", Sub: dedupe.Plain}, {Source: strings.Repeat("s", 300), Sequence: "7", Sub: dedupe.Plain},
	} {
		if other, found := seen[o.Digest()]; found {
			t.Errorf("%v and %v have the same digest", o, other)
		}
		seen[o.Digest()] = o
	}
}
