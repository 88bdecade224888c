package valkeystore

import (
	"context"
	"encoding/binary"
	"sync"

	"github.com/valkey-io/valkey-go"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// groups is the number of hash tags of a scope. The buckets of a group have the same tag, so they are on one node of a
// cluster, and one script call enters the records of all of them. More groups would spread better over the nodes of a
// cluster, but each group costs a script call.
const groups = 256

// shards has the rows of a scope on a list of servers.
type shards struct {
	servers []*server
	buckets uint64
}

// placed is a record with its bucket.
type placed struct {
	record
	bucket uint64
}

// enter enters records on all servers at the same time, and sets their answers.
func (sh *shards) enter(ctx context.Context, q dedupe.Question, records []record, answers []dedupe.Answer) {
	parts := make([][]placed, len(sh.servers))
	for _, r := range records {
		bucket := binary.BigEndian.Uint64(r.key[:]) % sh.buckets
		at := bucket % groups % uint64(len(sh.servers))
		parts[at] = append(parts[at], placed{r, bucket})
	}
	var all sync.WaitGroup
	for at, part := range parts {
		if len(part) > 0 {
			all.Go(func() { sh.ask(ctx, sh.servers[at], q, part, answers) })
		}
	}
	all.Wait()
}

// ask enters records on one server, all in one pipeline. A server that was restarted or has failed over does not have
// the script. The row of the scope may then be gone too, so prepare runs again.
func (sh *shards) ask(ctx context.Context, s *server, q dedupe.Question, records []placed, answers []dedupe.Answer) {
	for attempt := range 2 {
		conn, err := s.prepare(ctx, q.Scope, q.Retention)
		if err != nil {
			failAll(records, answers, err)
			return
		}
		records = sh.send(ctx, s, conn, q, records, answers)
		if len(records) == 0 || attempt > 0 {
			return
		}
	}
}

// send returns the records of the calls to which the server answered that it does not have the script.
func (sh *shards) send(
	ctx context.Context, s *server, conn connection, q dedupe.Question, records []placed, answers []dedupe.Answer,
) (again []placed) {
	calls := sh.calls(records)
	commands := make([]valkey.Completed, len(calls))
	for i, c := range calls {
		commands[i] = sh.command(conn, q, c)
	}
	for i, result := range conn.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			if serverChanged(err) {
				s.forget(conn.Client)
			}
			if reply, ok := replyOf(err); ok && reply.IsNoScript() {
				again = append(again, calls[i]...)
			}
			failAll(calls[i], answers, failed("enter records", s.address, err))
			continue
		}
		letters, err := result.ToString()
		if err != nil || len(letters) != len(calls[i]) {
			failAll(calls[i], answers, errReply)
			continue
		}
		for k, r := range calls[i] {
			answers[r.index] = answerOf(letters[k])
		}
	}
	return again
}

func failAll(records []placed, answers []dedupe.Answer, err error) {
	for _, r := range records {
		answers[r.index] = dedupe.Answer{Err: err}
	}
}
