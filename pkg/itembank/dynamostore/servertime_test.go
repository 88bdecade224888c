package dynamostore_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/oncebox/oncebox/internal/testkit/itembankengines"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// dating is a server of DynamoDB's protocol. All its replies have one Date.
type dating struct {
	date    time.Time
	refuses bool // each condition fails
}

func (d *dating) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Date", d.date.UTC().Format(http.TimeFormat))
	if !d.refuses {
		_, _ = fmt.Fprint(w, "{}")
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = fmt.Fprint(w, `{"__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"}`)
}

// TestServerTime: the time follows the Date of each reply, whatever the clock of this machine says. A reply with an
// error counts, too. A Date that was wrong does not last.
func TestServerTime(t *testing.T) {
	t.Parallel()
	d := &dating{}
	server := httptest.NewServer(d)
	t.Cleanup(server.Close)
	store := dynamostore.New(itembankengines.Client(server.URL, nil), bankTable, dedupeTable)
	if got := store.ServerTime(); !got.IsZero() {
		t.Errorf("before the first reply: want no time, got %v", got)
	}
	claim, shard := engine.Claim{Scope: "spring", Claimant: "ann", Slot: 1}, engine.Shard{Campaign: "spring"}
	read := func() error { _, err := store.Campaign(t.Context(), "spring"); return err }
	confirm := func() error { _, err := store.ConfirmClaim(t.Context(), claim); return err }
	query := func() error {
		_, err := store.FreeItems(t.Context(), shard, engine.Range{}, 1, engine.Strong)
		return err
	}
	today := time.Now().Truncate(time.Second)
	for _, reply := range []struct {
		date    time.Time
		request func() error
		refuses bool
	}{
		{today.Add(-time.Hour), read, false},
		{today.Add(time.Hour), query, false},
		{today, confirm, true},
		{today.Add(-time.Minute), confirm, false},
		{today, read, false},
	} {
		d.date, d.refuses = reply.date, reply.refuses
		begin := time.Now()
		if err := reply.request(); err != nil {
			t.Fatal(err)
		}
		got, passed := store.ServerTime(), time.Since(begin)
		if early := reply.date.Add(-time.Second); got.Before(early) || got.After(reply.date.Add(passed)) {
			t.Errorf("want %v, at most a second less and %v more, got %v", reply.date, passed, got)
		}
	}
}
