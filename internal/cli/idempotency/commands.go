// Package idempotency holds the commands of idempotent calls.
package idempotency

// Commands look at the records of idempotent calls, and free keys.
type Commands struct {
	Idempotency idempotencyCommand `cmd:"" help:"Show, explain and evict the record of an idempotent call."`
}

type idempotencyCommand struct {
	Show    showCommand    `cmd:"" help:"Print the record of a key."`
	Explain explainCommand `cmd:"" help:"Say what the next call of a key gets, and why."`
	Evict   evictCommand   `cmd:"" help:"Free a key deliberately, so that the next call runs the function again."`
}
