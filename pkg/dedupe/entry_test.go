package dedupe_test

import (
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
