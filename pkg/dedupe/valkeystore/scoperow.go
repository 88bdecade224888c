package valkeystore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/valkey-io/valkey-go"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// layout is the version of keys and rows. A function with another version is refused.
const layout = 1

// place is the place of a server in a list of servers. It decides which keys the server has.
type place struct {
	Buckets int `json:"buckets"`
	Servers int `json:"servers"`
	Server  int `json:"server"` // counted from 1
}

func (p place) String() string {
	return fmt.Sprintf("server %d of %d, with %d buckets", p.Server, p.Servers, p.Buckets)
}

// scopeRow has the settings that are fixed for a scope on a server. It does not expire. Times are in milliseconds
// since 1970.
type scopeRow struct {
	Layout int `json:"layout"`
	place
	Slice int64 `json:"slice_ms"`
	Since int64 `json:"since_ms,omitempty"` // the list of servers is used from this arrival on
	Until int64 `json:"until_ms,omitempty"` // the server is not in the list from this arrival on
}

func rowKey(scope string) string { return "{oncebox:" + scope + "}" }

// replaceRow replaces a row if it is still equal to the given one.
var replaceRow = valkey.NewLuaScriptNoSha(`
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2])
return 1`)

// putScopeRow puts the row of a scope if it is absent, and returns the stored row. It refuses settings that do not
// fit the row: with another list of servers or another number of buckets, rows would not be found.
func (s *server) putScopeRow(ctx context.Context, scope string, r dedupe.Retention) (scopeRow, error) {
	for {
		want := s.wantedRow(sliceFor(r))
		if _, err := slicingOf(want.Slice, r); err != nil {
			return scopeRow{}, err
		}
		set := s.client.B().Set().Key(rowKey(scope)).Value(want.text()).Nx().Get().Build()
		text, err := s.client.Do(ctx, set).ToString()
		if valkey.IsValkeyNil(err) {
			return want, nil
		}
		if err != nil {
			return scopeRow{}, failed("put the scope's row", s.address, err)
		}
		var row scopeRow
		if err := json.Unmarshal([]byte(text), &row); err != nil || row.Layout != layout {
			return scopeRow{}, fmt.Errorf("valkey: scope %s on %s has layout %d, and this version of oncebox reads layout %d; use "+
				"the version that wrote it, or another scope", scope, s.address, row.Layout, layout)
		}
		want.Slice = row.Slice
		if row == want {
			return row, nil
		}
		if err := s.mayReplace(row, want, r); err != nil {
			return scopeRow{}, fmt.Errorf("valkey: scope %s on %s: %w", scope, s.address, err)
		}
		n, err := replaceRow.Exec(ctx, s.client, []string{rowKey(scope)}, []string{text, want.text()}).AsInt64()
		if err != nil {
			return scopeRow{}, failed("replace the scope's row", s.address, err)
		}
		if n == 1 {
			return want, nil
		}
	}
}

func (row scopeRow) text() string {
	text, err := json.Marshal(row)
	if err != nil {
		panic(err) // numbers only
	}
	return string(text)
}

// wantedRow returns the row for the settings.
func (s *server) wantedRow(slice int64) scopeRow {
	row := scopeRow{Layout: layout, Slice: slice}
	if s.now == nil {
		row.place, row.Until = *s.before, s.since
	} else {
		row.place, row.Since = *s.now, s.since
	}
	return row
}

// mayReplace returns nil if the row may be replaced by the one for the settings: when the list of servers changes at a
// time, and when the previous list is not needed any more.
func (s *server) mayReplace(row, want scopeRow, r dedupe.Retention) error {
	switch {
	case row.Until != 0:
		if want.Since > row.Until {
			return nil // the server is in a later list again
		}
		return fmt.Errorf("its records are on other servers since %v: name these", at(row.Until))
	case s.before != nil && row.place == *s.before && row.Since < s.since:
		return nil
	case row.place != want.place:
		return fmt.Errorf("it is %v, and the settings say %v: use the servers and buckets of before, "+
			"or name them as the previous ones", row.place, want.place)
	case want.Since != 0 && row.Since == 0 && s.before == nil:
		return nil // a function without the previous servers put this row and was refused elsewhere
	case want.Since != 0 && row.Since == 0:
		return fmt.Errorf("it is %v already, and the settings say that it is %v until %v", row.place, *s.before, at(want.Since))
	case want.Since != 0:
		return fmt.Errorf("its servers or buckets changed at %v, and the settings say %v", at(row.Since), at(want.Since))
	}
	if end := row.Since + inMillis(r.Window+r.Horizon); s.clock().UnixMilli() <= end {
		return fmt.Errorf("the previous servers are needed until %v: name them, and the time %v", at(end), at(row.Since))
	}
	return nil
}

func at(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339Nano) }
