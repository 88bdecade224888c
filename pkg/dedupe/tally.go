package dedupe

// Tally counts user records by their result:
// In = New + Retry + Natural + Synthetic + DeadLettered + Skipped + Failed.
type Tally struct {
	In           int64 `json:"in"`
	New          int64 `json:"new"`
	Retry        int64 `json:"retry"`
	Natural      int64 `json:"natural"`
	Synthetic    int64 `json:"synthetic"`
	DeadLettered int64 `json:"dead_lettered"` // stored in the dead-letter store
	Skipped      int64 `json:"skipped"`       // done before, by an ack, or twice in a batch; a whole KPL aggregate counts as one
	Failed       int64 `json:"failed"`        // not done; a Kinesis record that was not decoded counts as one
	Out          int64 `json:"out"`           // delivered to the sink

	// Repeated is how many records the sink itself sent again although an earlier request may have delivered them.
	Repeated int64 `json:"repeated,omitempty"`
	// Superseded is how many of Out a TxSink did not write, because it had a version that is not older.
	Superseded int64 `json:"superseded,omitempty"`
	// PastHorizon is how many records are older than the horizon. Copies of them may be delivered, because their
	// entries may be purged: the horizon must be at least the stream's retention.
	PastHorizon int64 `json:"past_horizon,omitempty"`
}

// Count counts one user record that is done: as dead-lettered if it is poison, otherwise by its outcome. It does not
// change Out.
func (t *Tally) Count(o Outcome, poison *PoisonError) {
	t.In++
	switch {
	case poison != nil:
		t.DeadLettered++
	case o == New:
		t.New++
	case o == Retry:
		t.Retry++
	case o == Natural:
		t.Natural++
	case o == Synthetic:
		t.Synthetic++
	}
}

// Add adds the numbers of another Tally.
func (t *Tally) Add(o Tally) {
	t.In += o.In
	t.New += o.New
	t.Retry += o.Retry
	t.Natural += o.Natural
	t.Synthetic += o.Synthetic
	t.DeadLettered += o.DeadLettered
	t.Skipped += o.Skipped
	t.Failed += o.Failed
	t.Out += o.Out
	t.Repeated += o.Repeated
	t.Superseded += o.Superseded
	t.PastHorizon += o.PastHorizon
}
