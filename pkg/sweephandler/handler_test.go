package sweephandler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/oncebox/oncebox/internal/testkit/memstore"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/sweephandler"
)

// anHourAgo is the clock of the Bank whose claims have ended since.
type anHourAgo struct{}

func (anHourAgo) Now() time.Time { return time.Now().Add(-time.Hour) }

func (anHourAgo) Sleep(context.Context, time.Duration) error { return nil }

// bench is a store with campaigns, each with three items, of which secret-ann claimed one an hour ago.
type bench struct {
	*testing.T
	*itembank.Operator
	log bytes.Buffer
}

func newBench(t *testing.T, campaigns map[string]itembank.Settings) *bench {
	t.Helper()
	store := memstore.NewItems()
	past := itembank.NewOperator(store, itembank.WithClock(anHourAgo{}))
	for name, settings := range campaigns {
		settings.Shards = 2
		_, _, err := past.CreateCampaign(t.Context(), name, settings)
		must(t, err)
		_, err = past.Load(t.Context(), name, itembank.Items("SECRET-1", "SECRET-2", "SECRET-3"), nil)
		must(t, err)
		_, err = past.Claim(t.Context(), name, "secret-ann")
		must(t, err)
	}
	return &bench{T: t, Operator: itembank.NewOperator(store)}
}

// sweep runs the handler and returns its log lines.
func (b *bench) sweep(
	ctx context.Context, bank sweephandler.Operator,
) (report sweephandler.Report, lines []map[string]any, err error) {
	b.Helper()
	b.log.Reset()
	report, err = sweephandler.New(bank, slog.New(slog.NewJSONHandler(&b.log, nil))).Handle(ctx)
	if strings.Contains(strings.ToLower(b.log.String()), "secret") {
		b.Errorf("the log holds a claimant or an item: %s", b.log.String())
	}
	for d := json.NewDecoder(&b.log); d.More(); {
		var line map[string]any
		must(b, d.Decode(&line))
		lines = append(lines, line)
	}
	return report, lines, err
}

// holds reports whether the claim of secret-ann still exists.
func (b *bench) holds(campaign string) bool {
	b.Helper()
	_, err := b.HeldClaim(b.Context(), campaign, "secret-ann")
	if err != nil && !errors.Is(err, itembank.ErrNoClaim) {
		b.Fatal(err)
	}
	return err == nil
}

func TestSweepsCampaignsWhoseClaimsEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]itembank.Settings{
		"held":      {Hold: time.Minute},
		"lent":      {ClaimLife: time.Minute, OnEnd: itembank.Return},
		"burned":    {ClaimLife: time.Minute},
		"long":      {Hold: 2 * time.Hour},
		"forever":   {},
		"item-life": {ItemLife: time.Minute},
	})
	report, lines, err := b.sweep(t.Context(), b)
	must(t, err)
	if want := (sweephandler.Report{Campaigns: 4, Returned: 2, Expired: 1}); report != want {
		t.Errorf("got %+v, want %+v", report, want)
	}
	for campaign, want := range map[string]bool{"held": false, "lent": false, "burned": false, "long": true, "forever": true} {
		if b.holds(campaign) != want {
			t.Errorf("%s: the claim exists: %t", campaign, !want)
		}
	}
	if len(lines) != 1 || lines[0]["msg"] != "sweep" || lines[0]["level"] != "INFO" ||
		lines[0]["campaigns"] != 4.0 || lines[0]["returned"] != 2.0 || lines[0]["expired"] != 1.0 || lines[0]["failed"] != 0.0 {
		t.Errorf("the log has %v", lines)
	}
	again, _, err := b.sweep(t.Context(), b)
	if err != nil || again != (sweephandler.Report{Campaigns: 4}) {
		t.Errorf("the second sweep: %+v, %v", again, err)
	}
}

// failing is an Operator that cannot sweep some campaigns.
type failing struct {
	*itembank.Operator
	campaigns map[string]error
}

func (f failing) SweepDue(ctx context.Context, name string, p itembank.Progress) (itembank.SweepReport, error) {
	if err := f.campaigns[name]; err != nil {
		return itembank.SweepReport{Returned: 10}, err
	}
	return f.Operator.SweepDue(ctx, name, p)
}

func TestAFailureStopsNoOtherCampaign(t *testing.T) {
	t.Parallel()
	settings := map[string]itembank.Settings{}
	for i := range 20 {
		settings[fmt.Sprint("held-", i)] = itembank.Settings{Hold: time.Minute}
	}
	b := newBench(t, settings)
	busy := failing{b.Operator, map[string]error{"held-3": itembank.ErrTryAgain, "held-11": errors.New("two rows contradict")}}
	report, lines, err := b.sweep(t.Context(), busy)
	if want := (sweephandler.Report{Campaigns: 20, Failed: 2, Returned: 18 + 2*10}); report != want {
		t.Errorf("got %+v, want %+v", report, want)
	}
	if err == nil || !strings.Contains(err.Error(), "2 of 20 campaigns") {
		t.Errorf("got the error %v", err)
	}
	named := map[any]any{}
	for _, line := range lines {
		if line["msg"] == "campaign not swept" && line["level"] == "ERROR" {
			named[line["campaign"]] = line["error"]
		}
	}
	if len(named) != 2 || named["held-11"] != "two rows contradict" || named["held-3"] == nil {
		t.Errorf("the log names %v", named)
	}
	for name := range settings {
		if b.holds(name) != (busy.campaigns[name] != nil) {
			t.Errorf("%s: the claim exists: %t", name, b.holds(name))
		}
	}
}

// listing is an Operator that lists a campaign that was deleted meanwhile.
type listing struct {
	*itembank.Operator
	deleted itembank.Campaign
}

func (l listing) Campaigns(ctx context.Context) ([]itembank.Campaign, error) {
	all, err := l.Operator.Campaigns(ctx)
	return append(all, l.deleted), err
}

// TestACampaignThatIsDeletedMeanwhile: it needs no sweep, and causes no alarm.
func TestACampaignThatIsDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]itembank.Settings{"held": {Hold: time.Minute}})
	report, lines, err := b.sweep(t.Context(), listing{b.Operator, itembank.Campaign{Name: "deleted", Hold: time.Minute}})
	must(t, err)
	if want := (sweephandler.Report{Campaigns: 2, Returned: 1}); report != want || len(lines) != 1 {
		t.Errorf("got %+v, want %+v; the log has %v", report, want, lines)
	}
}

// partlyRead is an Operator with a campaign that cannot be read.
type partlyRead struct{ *itembank.Operator }

var errLater = errors.New("made by a later version")

func (p partlyRead) Campaigns(ctx context.Context) ([]itembank.Campaign, error) {
	all, err := p.Operator.Campaigns(ctx)
	unreadable := &itembank.UnreadableError{Campaigns: []itembank.Unreadable{{Name: "later", Scope: "later", Err: errLater}}}
	return all, errors.Join(err, unreadable)
}

// TestACampaignThatCannotBeRead: the others are swept, and the log names it.
func TestACampaignThatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, map[string]itembank.Settings{"held": {Hold: time.Minute}, "forever": {}})
	report, lines, err := b.sweep(t.Context(), partlyRead{b.Operator})
	if want := (sweephandler.Report{Campaigns: 2, Failed: 1, Returned: 1}); report != want || b.holds("held") {
		t.Errorf("got %+v, want %+v", report, want)
	}
	if err == nil || len(lines) != 2 || lines[0]["campaign"] != "later" || lines[0]["error"] != errLater.Error() ||
		lines[1]["level"] != "ERROR" || lines[1]["error"] != err.Error() {
		t.Errorf("got %v; the log has %v", err, lines)
	}
}

// unlisted is an Operator whose campaigns cannot be read.
type unlisted struct{ *itembank.Operator }

func (unlisted) Campaigns(context.Context) ([]itembank.Campaign, error) {
	return nil, itembank.ErrTryAgain
}

func TestCampaignsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	ctx := lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "request-1"})
	_, lines, err := b.sweep(ctx, unlisted{b.Operator})
	if !errors.Is(err, itembank.ErrTryAgain) {
		t.Fatalf("got the error %v", err)
	}
	if len(lines) != 1 || lines[0]["level"] != "ERROR" || lines[0]["error"] != err.Error() ||
		lines[0]["request_id"] != "request-1" {
		t.Errorf("the log has %v", lines)
	}
}

// waiting is an Operator that sweeps until its context ends.
type waiting struct{ *itembank.Operator }

func (waiting) SweepDue(ctx context.Context, _ string, _ itembank.Progress) (itembank.SweepReport, error) {
	<-ctx.Done()
	return itembank.SweepReport{Returned: 1}, ctx.Err()
}

// TestStopsBeforeItsDeadline: Lambda would stop the function without a report.
func TestStopsBeforeItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, map[string]itembank.Settings{"held": {Hold: time.Minute}})
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
		defer cancel()
		report, _, err := b.sweep(ctx, waiting{b.Operator})
		if report != (sweephandler.Report{Campaigns: 1, Failed: 1, Returned: 1}) || err == nil || ctx.Err() != nil {
			t.Errorf("got %+v, %v; the context: %v", report, err, ctx.Err())
		}
	})
}

func TestParseSettings(t *testing.T) {
	t.Parallel()
	s, o, err := sweephandler.ParseSettings([]string{
		"ONCEBOX_BANK_TABLE=bank", "ONCEBOX_DEDUPE_TABLE=dedupe", "ONCEBOX_LOG_LEVEL=warn", "PATH=/bin",
		"ONCEBOX_METRICS=on", "AWS_LAMBDA_FUNCTION_NAME=sweep",
	})
	must(t, err)
	want := sweephandler.Settings{BankTable: "bank", DedupeTable: "dedupe", Metrics: "on", LogLevel: "warn"}
	if means := (sweephandler.Options{Metrics: "oncebox/sweep", LogLevel: slog.LevelWarn}); s != want || o != means {
		t.Errorf("got %+v and %+v, want %+v and %+v", s, o, want, means)
	}
	for says, environ := range map[string][]string{
		"ONCEBOX_BANK_TABLE is missing":        {"ONCEBOX_DEDUPE_TABLE=dedupe"},
		"ONCEBOX_DEDUPE_TABLE is missing":      {"ONCEBOX_BANK_TABLE=bank"},
		"is the table of":                      {"ONCEBOX_BANK_TABLE=same", "ONCEBOX_DEDUPE_TABLE=same"},
		"ONCEBOX_LOG_LEVEL":                    {"ONCEBOX_BANK_TABLE=a1b", "ONCEBOX_DEDUPE_TABLE=dedupe", "ONCEBOX_LOG_LEVEL=loud"},
		"ONCEBOX_CLAIMANT_FROM is not a known": {"ONCEBOX_BANK_TABLE=bank", "ONCEBOX_DEDUPE_TABLE=dedupe", "ONCEBOX_CLAIMANT_FROM=iam"},
	} {
		if _, _, err := sweephandler.ParseSettings(environ); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v: got %v, want %q", environ, err, says)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
