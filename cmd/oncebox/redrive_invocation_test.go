package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRedriveInvocation: a message of CloudWatch Logs that Lambda dropped is listed, shown and delivered, from the
// bucket of the on-failure destination and from a dead-letter queue.
func TestRedriveInvocation(t *testing.T) {
	s := newRedriveShell(t, 0)
	event, err := os.ReadFile(filepath.FromSlash("../../events/logs/data-message.json"))
	if err != nil {
		t.Fatal(err)
	}
	record := fmt.Sprintf(`{"version":"1.0","timestamp":%q,"requestContext":{"requestId":"r","condition":"RetriesExhausted",`+
		`"functionArn":"arn:aws:lambda:eu-west-1:123456789012:function:shop:live","approximateInvokeCount":3},"requestPayload":%s}`,
		time.Now().UTC().Format(time.RFC3339Nano), event)
	name := "aws/lambda/async/shop/2027/03/01/2027-03-01T09.00.00-id"
	if err := os.MkdirAll(filepath.Join(s.dir, "failed", filepath.Dir(name)), 0o700); err != nil {
		t.Fatal(err)
	}
	s.file("failed/"+name, record)
	s.env = append(s.env, "ONCEBOX_HORIZON=30000d")
	s.run(exitDone, "redrive", "list").saying(t, "pending\tbatch\t", "/logs:", "RetriesExhausted", "pending 1")
	s.run(exitDone, "redrive", "show", name).saying(t, "function       shop", "gzip")
	s.run(exitLook, "redrive", "run").saying(t, "refused 1", "--function shop runs it")
	s.run(exitDone, "redrive", "run", "--function", "shop").saying(t, "done 1", "delivered 2, dropped 1")
	s.run(exitDone, "redrive", "run", "--function", "shop").saying(t, "already-done 1")

	other := filepath.Join(filepath.Dir(name), "2027-03-01T10.00.00-id")
	s.file("failed/"+other, strings.Replace(record, string(event), `{"order":"7 <b>"}`, 1))
	s.run(exitDone, "redrive", "list", "--status", "refused").saying(t, "refused\tbatch\t-\tshop/r\t", "not a message that CloudWatch")
	if r := s.run(exitDone, "redrive", "list", "--kind", "poison"); strings.Contains(r.stdout+r.stderr, "refused") {
		t.Errorf("poison records: %s%s", r.stdout, r.stderr)
	}
	s.run(exitDone, "redrive", "list", "--since", "2027-03-01").saying(t, "refused 1")
	shown := s.run(exitDone, "redrive", "show", other)
	shown.saying(t, "refused", "not a message that CloudWatch", `{"order":"7 <b>"}`)
	if strings.Contains(shown.stdout, "0001-01-01") {
		t.Errorf("a time that nobody knows: %s", shown.stdout)
	}
	if err := os.Remove(filepath.Join(s.dir, "failed", other)); err != nil {
		t.Fatal(err)
	}

	s.file("messages.json", fmt.Sprintf(`{"Messages":[{"Body":%q}]}`, event))
	s.run(exitLook, "redrive", "run", "messages.json").saying(t, "refused 1", "--function NAME runs it")
	s.run(exitDone, "redrive", "run", "messages.json", "--function", "shop").saying(t, "done 1")
}
