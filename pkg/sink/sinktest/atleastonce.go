package sinktest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// Target is a dedupe.Sink under test.
type Target struct {
	Sink dedupe.Sink
	// Read returns the payloads in the sink. They may include payloads of other cases. The suite calls it at the end
	// of a case.
	Read func(testing.TB) [][]byte
	// Payload makes a record that the sink accepts. nil: a small JSON object. Payloads of different ids differ.
	Payload func(id, fp string) []byte
	// Poison is a record that the sink can never take; nil: it accepts every record.
	Poison *dedupe.Output
	// Refused makes a record that Check accepts, and that Send refuses. nil: Send refuses no record.
	Refused func(id string) []byte
}

// AtLeastOnce runs all cases of the level "at least once" as parallel subtests of t. open returns the sink under test.
// It may return the same sink each time.
func AtLeastOnce(t *testing.T, open func(testing.TB) Target) {
	for _, c := range AtLeastOnceCases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			c.Run(t, open(t))
		})
	}
}

// Case is one requirement on every sink of the level "at least once".
type Case struct {
	Name string
	test func(*sinkCase)
}

// AtLeastOnceCases returns all cases, for a test that runs them one by one.
func AtLeastOnceCases() []Case {
	return []Case{
		{"delivers-all", deliversAll},
		{"nothing-to-send", nothingToSend},
		{"sent-again", sentAgain},
		{"context-that-has-ended", endedContext},
		{"several-sends-at-once", severalSends},
		{"poison-is-found-by-check", poisonByCheck},
		{"refused-alone", refusedAlone},
	}
}

// Run runs the case on a sink.
func (c Case) Run(t testing.TB, target Target) {
	if target.Payload == nil {
		target.Payload = payload
	}
	c.test(&sinkCase{TB: t, Target: target})
}

type sinkCase struct {
	testing.TB
	Target
}

// outputs makes records that no other case uses.
func (c *sinkCase) outputs(n int) []dedupe.Output {
	c.Helper()
	outputs := make([]dedupe.Output, n)
	prefix := newName()
	for i := range outputs {
		id := fmt.Sprintf("%s-%04d", prefix, i)
		outputs[i] = dedupe.Output{ID: id, PartitionKey: fmt.Sprint("pk-", i%7), Data: c.Payload(id, "x")}
		if err := c.Sink.Check(c.Context(), outputs[i]); err != nil {
			c.Fatalf("Check refuses a good record: %v", err)
		}
	}
	return outputs
}

// send sends records, and returns which of them are delivered. The sink must refuse none.
func (c *sinkCase) send(ctx context.Context, outputs []dedupe.Output) ([]bool, error) {
	c.Helper()
	delivered, refused, err := c.sendSome(ctx, outputs)
	for i, r := range refused {
		if r != nil {
			c.Errorf("record %d is refused: %s", i, r.Reason)
		}
	}
	return delivered, err
}

// sendSome sends records, and returns which of them are delivered, and which are refused.
func (c *sinkCase) sendSome(ctx context.Context, outputs []dedupe.Output) ([]bool, []*dedupe.PoisonError, error) {
	c.Helper()
	sent, err := c.Sink.Send(ctx, outputs)
	delivered, refused := sent.Delivered, sent.Refused
	if refused == nil {
		refused = make([]*dedupe.PoisonError, len(outputs))
	}
	if len(refused) != len(outputs) || delivered != nil && len(delivered) != len(outputs) {
		c.Fatalf("%d and %d answers for %d records", len(delivered), len(refused), len(outputs))
	}
	if delivered == nil {
		delivered = make([]bool, len(outputs))
		for i := range delivered {
			delivered[i] = err == nil && refused[i] == nil
		}
	}
	for i, d := range delivered {
		switch {
		case d && refused[i] != nil:
			c.Errorf("record %d is delivered and refused", i)
		case !d && refused[i] == nil && err == nil:
			c.Errorf("record %d is neither delivered nor refused, and there is no error", i)
		}
	}
	return delivered, refused, err
}

// wantIn checks that each record that was reported as delivered is in the sink, unchanged.
func (c *sinkCase) wantIn(outputs []dedupe.Output, delivered []bool) {
	c.Helper()
	in := map[string]bool{}
	for _, data := range c.Read(c.TB) {
		in[string(data)] = true
	}
	for i, o := range outputs {
		if delivered[i] && !in[string(o.Data)] {
			c.Errorf("record %d of %d is not in the sink as it was sent", i, len(outputs))
		}
	}
}

// deliversAll: a Send delivers more records than a request of any service takes.
func deliversAll(c *sinkCase) {
	outputs := c.outputs(1203)
	delivered, err := c.send(c.Context(), outputs)
	if err != nil {
		c.Fatal(err)
	}
	c.wantIn(outputs, delivered)
}

func nothingToSend(c *sinkCase) {
	if _, err := c.send(c.Context(), nil); err != nil {
		c.Error(err)
	}
}

// sentAgain: records that come again are delivered again, without an error.
func sentAgain(c *sinkCase) {
	outputs := c.outputs(3)
	for range 2 {
		delivered, err := c.send(c.Context(), outputs)
		if err != nil {
			c.Fatal(err)
		}
		c.wantIn(outputs, delivered)
	}
}

// endedContext: if its context ends, a Send reports no record as delivered that is not, and refuses none.
func endedContext(c *sinkCase) {
	outputs := c.outputs(3)
	ctx, cancel := context.WithCancel(c.Context())
	cancel()
	delivered, err := c.send(ctx, outputs)
	c.wantIn(outputs, delivered)
	if poison, ok := errors.AsType[*dedupe.PoisonError](err); ok {
		c.Errorf("the error wraps a *dedupe.PoisonError, as if it refused a record: %s", poison.Reason)
	}
}

func severalSends(c *sinkCase) {
	const senders = 4
	outputs, delivered := make([][]dedupe.Output, senders), make([][]bool, senders)
	for i := range outputs {
		outputs[i] = c.outputs(20)
	}
	errs := make([]error, senders)
	var all sync.WaitGroup
	for i := range outputs {
		all.Go(func() { delivered[i], errs[i] = c.send(c.Context(), outputs[i]) })
	}
	all.Wait()
	for i := range outputs {
		if errs[i] != nil {
			c.Error(errs[i])
		}
		c.wantIn(outputs[i], delivered[i])
	}
}

// poisonByCheck: Check finds a record that the sink can never take.
func poisonByCheck(c *sinkCase) {
	if c.Poison == nil {
		c.Skip("the sink takes every record")
	}
	var poison *dedupe.PoisonError
	if err := c.Sink.Check(c.Context(), *c.Poison); !errors.As(err, &poison) || poison.Reason == "" {
		c.Errorf("Check says %v, want a *dedupe.PoisonError with a reason", err)
	}
}

// refusedAlone: Send refuses a record with a reason, without an error, each time. The records around it are delivered.
func refusedAlone(c *sinkCase) {
	if c.Refused == nil {
		c.Skip("Send refuses no record")
	}
	outputs := c.outputs(5)
	bad := &outputs[2]
	bad.Data = c.Refused(bad.ID)
	if err := c.Sink.Check(c.Context(), *bad); err != nil {
		c.Fatalf("Check has found it already: %v", err)
	}
	for range 2 {
		delivered, refused, err := c.sendSome(c.Context(), outputs)
		if err != nil {
			c.Fatal(err)
		}
		for i, r := range refused {
			if (r != nil) != (i == 2) || r != nil && r.Reason == "" {
				c.Errorf("record %d: delivered %t, refused %v", i, delivered[i], r)
			}
		}
		c.wantIn(outputs, delivered)
	}
}
