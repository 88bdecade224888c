package itembank_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/itembankfault"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

var columnCases = []testCase{
	{"come-back-with-the-item", columnsComeBack},
	{"cost-one-request", columnsCostOneRequest},
	{"claim-whose-columns-cannot-be-read", columnsNotRead},
	{"first-load-decides", firstLoadDecides},
	{"interrupted-load", columnsOfInterruptedLoad},
	{"bad-columns", badColumns},
}

// line is a line of a source with columns, given as "name=value".
func line(item string, columns ...string) itembank.Line {
	l := itembank.Line{Item: item}
	for _, c := range columns {
		name, value, _ := strings.Cut(c, "=")
		l.Columns = append(l.Columns, itembank.Column{Name: name, Value: value})
	}
	return l
}

// sourceOf numbers lines from 1.
func sourceOf(lines ...itembank.Line) itembank.Source {
	return func() iter.Seq2[itembank.Line, error] {
		return func(yield func(itembank.Line, error) bool) {
			for i, l := range lines {
				if l.Number = int64(i) + 1; !yield(l, nil) {
					return
				}
			}
		}
	}
}

func columnsOf(l itembank.Line) itembank.Columns { return itembank.NewColumns(l.Columns...) }

// hall creates a campaign with three seats. The last one has no columns.
func (f *fixture) hall(s itembank.Settings) (seats []itembank.Line) {
	f.Helper()
	s.Columns, s.Shards = true, 2
	f.create(s)
	seats = []itembank.Line{line("1A", "price=40", "row=1"), line("1B", "row=1", "price=<35>"), line("1C")}
	report, err := f.bank().Load(f.ctx, f.name, sourceOf(seats...), nil)
	if err != nil || report.Added != 3 || report.OtherColumns != 0 {
		f.Fatalf("got %+v, %v", report, err)
	}
	return seats
}

// wantColumns compares the columns of a claim with the columns of the lines.
func (f *fixture) wantColumns(what string, claim itembank.Claim, err error, lines ...itembank.Line) {
	f.Helper()
	f.Must(err)
	if len(claim.Items) != len(lines) {
		f.Fatalf("%s: want %v, got %+v", what, lines, claim)
	}
	for i, item := range claim.Items {
		if got := claim.ColumnsOf(i); item != lines[i].Item || got != columnsOf(lines[i]) {
			f.Errorf("%s: want %+v, got %s with %q", what, lines[i], item, got)
		}
	}
}

// columnsComeBack: every answer that names an item has its columns, whatever happened to the item before.
func columnsComeBack(f *fixture) {
	seats := f.hall(itembank.Settings{Choice: true, Hold: time.Minute, Publish: true})
	clock := itembankfault.NewClock()
	b := f.bank(itembank.WithClock(clock))
	free := func(want ...itembank.Line) {
		f.Helper()
		clock.Advance(time.Second)
		var got []itembank.PageItem
		for cursor, first := "", true; first || cursor != ""; first = false {
			page, err := b.PublishedItems(f.ctx, f.name, cursor, 2)
			f.Must(err)
			got, cursor = append(got, page.Items...), page.Next
		}
		var lines []itembank.PageItem
		for _, l := range want {
			lines = append(lines, itembank.PageItem{Item: l.Item, Columns: columnsOf(l)})
		}
		slices.SortFunc(got, func(x, y itembank.PageItem) int { return strings.Compare(x.Item, y.Item) })
		if !slices.Equal(got, lines) {
			f.Errorf("want the free items %+v, got %+v", lines, got)
		}
	}
	free(seats...)
	for range 2 { // new, and repeated
		claim := f.choose(b, "ann", "1C", "1A")
		f.wantColumns("claim", claim, nil, seats[2], seats[0])
	}
	free(seats[1])
	f.wantAnswers(b, "ann", seats[2], seats[0])
	f.choose(b, "bob", "1B")
	confirmed, err := b.Confirm(f.ctx, f.name, "bob", f.claim(b, "bob").Claim.ID)
	f.wantColumns("confirmation", confirmed, err, seats[1])
	clock.Advance(2 * time.Minute)
	_, err = b.SweepDue(f.ctx, f.name, nil)
	f.Must(err)
	free(seats[0], seats[2])
	f.released(b, rowOf(confirmed), itembank.Released{Returned: true})
	free(seats...)
	f.wantColumns("claim of a returned item", f.choose(b, "cid", "1B", "1A"), nil, seats[1], seats[0])
}

// wantAnswers compares all other answers with the claim of a claimant.
func (f *fixture) wantAnswers(b *itembank.Operator, claimant string, lines ...itembank.Line) {
	f.Helper()
	held, err := f.bank().HeldClaim(f.ctx, f.name, claimant)
	f.wantColumns("GET", held, err, lines...)
	shown, err := b.FindClaim(f.ctx, f.name, claimant)
	f.wantColumns("show", shown, err, lines...)
	all, err := b.ClaimsOf(f.ctx, f.name, claimant)
	f.wantColumns("audit", all[0], err, lines...)
	f.wantColumns("list", f.listed(b)[0], nil, lines...)
	reports, err := b.ItemsOfClaim(f.ctx, held)
	f.Must(err)
	for i, l := range lines {
		report := f.lookedUp(b, l.Item, itembank.PlaceHeld, claimant)
		f.wantColumns("look-up", *report.Claim, nil, lines...)
		if report.Columns != columnsOf(l) || reports[i].Columns != columnsOf(l) {
			f.Errorf("want %+v, got %+v and %+v", l, report, reports[i])
		}
	}
	lost := held
	lost.Columns = nil // Replay ignores them
	f.Must(b.CloseCampaign(f.ctx, f.name))
	f.Must(f.raw.DropClaim(f.ctx, rowOf(held).Key()))
	if report := f.replay(lost); report.Replayed != 1 {
		f.Errorf("got %+v", report)
	}
	replayed, err := b.HeldClaim(f.ctx, f.name, claimant)
	f.wantColumns("replay", replayed, err, lines...)
	f.Must(b.OpenCampaign(f.ctx, f.name))
}

// columnsCostOneRequest: in a campaign with columns an answer costs one more request; in others it does not.
func columnsCostOneRequest(f *fixture) {
	f.hall(itembank.Settings{OnEnd: itembank.Return})
	plain := f.named("plain")
	plain.stocked(3, itembank.Settings{Shards: 1, OnEnd: itembank.Return})
	for _, test := range []struct {
		*fixture
		more []string
	}{{f, []string{"ItemRows"}}, {plain, nil}} {
		counted := test.counted()
		b := itembank.NewOperator(counted)
		test.claim(b, "ann")
		calls := counted.Calls()
		if last := calls[len(calls)-1-len(test.more):]; !slices.Equal(last, append([]string{"Take"}, test.more...)) {
			f.Errorf("a claim: got %v", calls)
		}
		claim, err := b.HeldClaim(f.ctx, test.name, "ann")
		f.Must(err)
		test.wantCalls("a claim that is read", counted, append([]string{"HeldClaim"}, test.more...)...)
		_, err = b.Release(f.ctx, test.name, "ann", claim.ID)
		f.Must(err)
		test.wantCalls("a release", counted, "HeldClaim", "ItemRow", "CloseClaim")
	}
}

// columnsUnread fails the first reads of item rows.
type columnsUnread struct {
	engine.Store
	fails int
}

func (s *columnsUnread) ItemRows(
	ctx context.Context, campaign string, hashes []engine.Hash, how engine.Consistency,
) ([]*engine.ItemRow, error) {
	if s.fails--; s.fails >= 0 {
		return nil, engine.ErrThrottled
	}
	return s.Store.ItemRows(ctx, campaign, hashes, how)
}

// columnsNotRead: if the columns cannot be read, there is no answer. The claim was made, and is the next answer.
func columnsNotRead(f *fixture) {
	f.hall(itembank.Settings{})
	b := itembank.NewOperator(&columnsUnread{f.Store, 2})
	for range 2 {
		if grant, err := b.Claim(f.ctx, f.name, "ann"); !errors.Is(err, itembank.ErrTryAgain) || !reflect.DeepEqual(grant, (itembank.Grant{})) {
			f.Errorf("want %v, got %+v, %v", itembank.ErrTryAgain, grant, err)
		}
	}
	grant := f.claim(b, "ann")
	if !grant.Replayed || !reflect.DeepEqual(grant.Claim, f.listed(b)[0]) {
		f.Errorf("got %+v", grant)
	}
	f.wantCounts(engine.Counts{Loaded: 3, Free: 2, Claimed: 1})
}

// firstLoadDecides: a known item keeps its columns, and the load counts it.
func firstLoadDecides(f *fixture) {
	seats := f.hall(itembank.Settings{})
	again := []itembank.Line{line("1A", "price=50", "row=1"), seats[1], line("1C", "price=5"), line("2A", "price=1"), line("1A", "price=50", "row=1")}
	want := itembank.LoadReport{Tally: itembank.Tally{Rows: 5, Added: 1, Known: 4}, OtherColumns: 3}
	for _, load := range []func() (itembank.LoadReport, error){
		func() (itembank.LoadReport, error) { return f.bank().DryRun(f.ctx, f.name, sourceOf(again...)) },
		func() (itembank.LoadReport, error) { return f.bank().Load(f.ctx, f.name, sourceOf(again...), nil) },
	} {
		report, err := load()
		want.LoadID = report.LoadID
		if err != nil || report != want {
			f.Errorf("want %+v, got %+v, %v", want, report, err)
		}
	}
	var more []itembank.Line // after this many new items, known ones are not looked up before they are added
	for i := range engine.MaxAddItems {
		more = append(more, line(fmt.Sprintf("3-%d", i), "price=3"))
	}
	if report := f.loadOf(append(more, again...)...); report.Known != 5 || report.OtherColumns != 3 {
		f.Errorf("got %+v", report)
	}
	for _, l := range append(seats, again[3]) {
		if report := f.lookedUp(f.bank(), l.Item, itembank.PlaceFree, ""); report.Columns != columnsOf(l) {
			f.Errorf("want %+v, got %+v", l, report)
		}
	}
	first := f.loadOf(seats...)
	if report := f.loadOf(seats...); report.Known != 3 || report.OtherColumns != 0 || report.LoadID == first.LoadID {
		f.Errorf("got %+v after %+v", report, first)
	}
}

func (f *fixture) loadOf(lines ...itembank.Line) itembank.LoadReport {
	f.Helper()
	report, err := f.bank().Load(f.ctx, f.name, sourceOf(lines...), nil)
	f.Must(err)
	return report
}

// columnsOfInterruptedLoad: a load resumes where it stopped. Items with other columns are another load.
func columnsOfInterruptedLoad(f *fixture) {
	f.create(itembank.Settings{Columns: true})
	var lines, others []itembank.Line
	for i := range 2*engine.MaxAddItems + 3 {
		lines = append(lines, line(fmt.Sprintf("seat-%d", i), fmt.Sprintf("n=%d", i)))
		others = append(others, line(fmt.Sprintf("seat-%d", i), fmt.Sprintf("n=%d", i+1)))
	}
	cut := f.cutAt(2, true, "AddItems")
	if _, err := itembank.NewOperator(cut).Load(f.ctx, f.name, sourceOf(lines...), nil); err == nil {
		f.Fatal("the load was not cut")
	}
	report := f.loadOf(lines...)
	if want := (itembank.Tally{Rows: int64(len(lines)), Added: int64(len(lines))}); report.Tally != want || report.OtherColumns != 0 {
		f.Errorf("want %+v, got %+v", want, report)
	}
	if report := f.loadOf(others...); report.Known != int64(len(lines)) || report.OtherColumns != report.Known || report.Resumed > 0 {
		f.Errorf("got %+v", report)
	}
	for _, l := range lines {
		if got := f.ItemRow(f.row(), l.Item).Columns; got != string(columnsOf(l)) {
			f.Errorf("want %+v, got %q", l, got)
		}
	}
}

// row reads the row of the fixture's campaign.
func (f *fixture) row() engine.Campaign {
	f.Helper()
	c, err := f.Store.Campaign(f.ctx, f.name)
	f.Must(err)
	return *c
}

func badColumns(f *fixture) {
	f.create(itembank.Settings{Columns: true})
	plain := f.named("plain")
	plain.create(itembank.Settings{})
	var eleven []string
	for i := range engine.MaxColumns + 1 {
		eleven = append(eleven, fmt.Sprintf("c%d=", i))
	}
	good := line("a", "price=1")
	for _, test := range []struct {
		*fixture
		lines []itembank.Line
		want  string
	}{
		{f, []itembank.Line{good, line("b", eleven...)}, "line 2: columns: are 11, at most 10 are allowed"},
		{f, []itembank.Line{good, line("b", "=1")}, "line 2: columns: the name of column 1 is empty"},
		{f, []itembank.Line{line("b", "x=1", "price=1", "price=2")}, `line 1: column "price": occurs twice`},
		{f, []itembank.Line{line("b", "a\tb=1")}, `line 1: column "a\tb": its name has a control character (U+0009) at byte 2`},
		{f, []itembank.Line{line("b", "price=1\n2")}, `line 1: column "price": has a control character (U+000A) at byte 2`},
		{f, []itembank.Line{line("b", "price=\xff")}, `line 1: column "price": is not valid UTF-8`},
		{f, []itembank.Line{line("b", "price="+strings.Repeat("x", 1020))}, "line 1: columns: have 1025 bytes with their names, at most 1024 are allowed"},
		{f, []itembank.Line{good, line("b"), line("a", "price=2")}, "line 3: columns: differ from those of line 1, which has the same item"},
		{f, []itembank.Line{good, line("a")}, "line 2: columns: differ from those of line 1, which has the same item"},
		{plain, []itembank.Line{line("b"), good}, "line 2: columns: campaign " + fmt.Sprintf("%q", plain.name) + " has none"},
	} {
		_, err := test.bank().Load(f.ctx, test.name, sourceOf(test.lines...), nil)
		if !errors.Is(err, itembank.ErrInvalid) || !strings.HasPrefix(err.Error(), test.want) {
			f.Errorf("want %q, got %v", test.want, err)
		}
		if some, _, err := f.Store.Loads(f.ctx, test.name); some || err != nil {
			f.Errorf("%s: something was written, %v", test.want, err)
		}
	}
	f.loadOf(good, line("b", "price="+strings.Repeat("x", 1019)), good)
}
