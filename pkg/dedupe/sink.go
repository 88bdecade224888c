package dedupe

import "context"

// Output is a record on its way to the sink.
type Output struct {
	ID              string
	PartitionKey    string
	ExplicitHashKey string // of a user record in a KPL aggregate that has its own; otherwise empty
	Aggregated      bool   // the record came in a KPL aggregate
	Data            []byte
}

// Sink is a destination of unique records. SinkFunc makes a Sink from a function.
type Sink interface {
	// Check returns a *PoisonError for a record that the sink can never take, for example because it is too large.
	// After an error of the family ErrTryAgain, of the context or of the network, the record fails and comes again.
	Check(ctx context.Context, o Output) error
	// Send delivers records, in order as far as it can. It reports for each record whether it is certainly delivered.
	// The other records are sent again, perhaps by another process. If a record is not delivered, Send returns an
	// error.
	Send(ctx context.Context, outputs []Output) (Sent, error)
}

// Sent is the result of a Send.
type Sent struct {
	// Delivered says for each record whether it is certainly delivered. nil means all if there is no error, and none if
	// there is an error.
	Delivered []bool
	// Repeated is how many records the sink itself sent again although an earlier request may have delivered them.
	Repeated int
}

// SinkFunc is a Sink that accepts every record. The function delivers all of its records, or returns an error. After an
// error, all are sent again.
type SinkFunc func(ctx context.Context, outputs []Output) error

// Check accepts every record.
func (SinkFunc) Check(context.Context, Output) error { return nil }

// Send calls the function.
func (f SinkFunc) Send(ctx context.Context, outputs []Output) (Sent, error) {
	return Sent{}, f(ctx, outputs)
}
