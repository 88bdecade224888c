package dedupe

import "context"

// Output is a record on its way to the sink.
type Output struct {
	ID              string
	PartitionKey    string
	ExplicitHashKey string // of a user record in a KPL aggregate that has its own; else empty
	Aggregated      bool   // the record came in a KPL aggregate
	Data            []byte
}

// Sink is where unique records go. SinkFunc makes one of a function.
type Sink interface {
	// Check returns a *PoisonError for a record that the sink can never take, such as one that is too large. An error
	// of the family ErrTryAgain, of the context or of the network fails the record, which comes again.
	Check(ctx context.Context, o Output) error
	// Send delivers records, in order as far as it can. It says of each whether it is delivered for sure; those of which
	// it does not say so are sent again, perhaps by another process. With a record that is not delivered it returns an
	// error.
	Send(ctx context.Context, outputs []Output) (Sent, error)
}

// Sent says what became of the records of a Send.
type Sent struct {
	// Delivered says of each record whether it is delivered for sure. nil stands for all without an error, and for none
	// with an error.
	Delivered []bool
	// Repeated is how many records the sink sent again by itself although an earlier request may have delivered them.
	Repeated int
}

// SinkFunc is a Sink that takes every record. The function delivers all of its records, or returns an error; then all
// are sent again.
type SinkFunc func(ctx context.Context, outputs []Output) error

// Check takes every record.
func (SinkFunc) Check(context.Context, Output) error { return nil }

// Send calls the function.
func (f SinkFunc) Send(ctx context.Context, outputs []Output) (Sent, error) {
	return Sent{}, f(ctx, outputs)
}
