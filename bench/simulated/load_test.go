package simulated

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/oncebox/oncebox/pkg/awsclient"
)

// crowded is twice as many customers as a table with one partition can serve, 500 a second.
func crowded() Load {
	return Load{
		Model: Model{Seed: 1, Items: 5_000, Shards: 4, Latency: InRegion, Limits: DynamoDB(1, 4)},
		Rate:  1000, Containers: 100, Warm: true, Duration: 2 * time.Second,
	}
}

func run(t *testing.T, l Load) (report Report) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var err error
		if report, err = l.Run(); err != nil {
			t.Fatal(err)
		}
	})
	return report
}

// TestLimits checks that a partition serves its rate and throttles all other requests.
func TestLimits(t *testing.T) {
	t.Parallel()
	report := run(t, crowded())
	if report.BankUse < 0.95 || report.BankUse > 1.05 || report.ClaimsUse != report.BankUse {
		t.Errorf("want full partitions, got %.3f of the bank and %.3f of claims", report.BankUse, report.ClaimsUse)
	}
	if report.Cost.ItemThrottled == 0 || report.Cost.ClaimThrottled == 0 {
		t.Errorf("nothing was throttled: %+v", report.Cost)
	}
	if report.Answers != report.Claims+report.TryAgain || report.Claims < 1000 {
		t.Errorf("want an answer each, and 500 claims a second: %d answers, %d claims, %d times 503",
			report.Answers, report.Claims, report.TryAgain)
	}
	free := crowded()
	free.Limits = nil
	if report := run(t, free); report.TryAgain > 0 || report.Time(1) > time.Second {
		t.Errorf("without limits: %d times 503, at most %s", report.TryAgain, report.Time(1))
	}
}

// TestLoadOfOneSeed checks that the same seed makes the same requests, even if containers wait and are throttled.
func TestLoadOfOneSeed(t *testing.T) {
	t.Parallel()
	first, again := run(t, crowded()), run(t, crowded())
	if first.Cost != again.Cost || !slices.Equal(first.times, again.times) {
		t.Errorf("the same seed made %+v and %+v", first.Cost, again.Cost)
	}
	other := crowded()
	other.Seed++
	if run(t, other).Cost == first.Cost {
		t.Error("another seed made the same")
	}
}

// TestThrottledReads: a read that is throttled each time fails after the SDK's attempts and pauses.
func TestThrottledReads(t *testing.T) {
	t.Parallel()
	l := crowded()
	l.Limits.Reads = 0
	l.Warm, l.Rate = false, 1
	report := run(t, l)
	if report.Claims > 0 || report.TryAgain != report.Answers || report.Answers == 0 {
		t.Errorf("want 503 for all, got %d of %d answers", report.TryAgain, report.Answers)
	}
	if least := 2*awsclient.MinBackoff + 3*InRegion.Least; report.Time(0) < least {
		t.Errorf("want errors after %s, got one after %s", least, report.Time(0))
	}
}

// TestClientRetries: the model waits as the client does, a random time.
func TestClientRetries(t *testing.T) {
	t.Parallel()
	client, err := awsclient.NewDynamoDB(t.Context(), region)
	if err != nil {
		t.Fatal(err)
	}
	retryer := client.Options().Retryer
	if got := retryer.MaxAttempts(); got != ClientRetries.Attempts {
		t.Errorf("the client makes %d attempts, the model %d", got, ClientRetries.Attempts)
	}
	var waits []time.Duration
	for n := range 1000 {
		wait, err := retryer.RetryDelay(1+n%(retryer.MaxAttempts()-1), nil)
		if err != nil {
			t.Fatal(err)
		}
		waits = append(waits, wait)
	}
	least, most := slices.Min(waits), slices.Max(waits)
	if least < ClientRetries.LeastWait || most > ClientRetries.MaxWait {
		t.Errorf("the client waits %s to %s, the model %+v", least, most, ClientRetries)
	}
	if spread := ClientRetries.MaxWait - ClientRetries.LeastWait; most-least < spread*9/10 {
		t.Errorf("the client waits %s to %s: want times all over the %s of the model", least, most, spread)
	}
}

// TestPlacement: the fullest partition has at least its share, and one partition has all.
func TestPlacement(t *testing.T) {
	t.Parallel()
	one := Model{Shards: 16, Limits: DynamoDB(1, 64)}.Placement(500)
	if one != (Placement{Bank: 1, Claims: 1, Spread: 1}) || !one.Possible() {
		t.Errorf("one partition at its rate: %+v", one)
	}
	many := Model{Shards: 64, Limits: DynamoDB(16, 256)}.Placement(500 * 16)
	if many.Bank <= 1 || many.Claims <= 1 || many.Spread < 1 || many.Possible() {
		t.Errorf("random places are uneven: %+v", many)
	}
}

func region(context.Context) (aws.Config, error) { return aws.Config{Region: "eu-west-1"}, nil }

// TestSweep: a sweep closes all holds that are due, for 7 write units each. On one partition it is throttled, gives way,
// and closes all of them too.
func TestSweep(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string]*Limits{"no limits": nil, "one partition": DynamoDB(1, 256)} {
		synctest.Test(t, func(t *testing.T) {
			const due = 1000
			report, err := Sweep{
				Load: Load{Model: Model{Seed: 1, Shards: 16, Latency: InRegion, Limits: limits}, Rate: 0.001, Duration: time.Second},
				Due:  due, Timeout: time.Minute,
			}.Run()
			cost := report.Load.Cost
			if err != nil || report.Err != nil || report.Returned != due || cost.WriteUnits != 7*due {
				t.Errorf("%s: returned %d for %.0f write units, %v, %v", name, report.Returned, cost.WriteUnits, report.Err, err)
			}
			if throttled := cost.ClosesThrottled > 0; throttled != (limits != nil) {
				t.Errorf("%s: %d closes were throttled", name, cost.ClosesThrottled)
			}
		})
	}
}
