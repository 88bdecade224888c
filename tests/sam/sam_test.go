//go:build unix

package sam

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/internal/testkit/testengine"
)

// The tests whose names begin with TestSAM run inside of `scripts/sam check`, which starts the container engine and the
// stack.

func needSAM(t *testing.T) {
	t.Helper()
	if os.Getenv("SAM_TEMPLATE") == "" {
		t.Skip("not run: scripts/sam check starts the container engine and the stack that this needs")
	}
}

// claim is an answer of the claim API.
type claim struct {
	Campaign, Claimant, Item, State, Type string
	ClaimID                               string `json:"claim_id"`
}

// TestSAMClaim claims twice and gets the same claim.
func TestSAMClaim(t *testing.T) {
	needSAM(t)
	var claims [2]claim
	for i, want := range []int{http.StatusCreated, http.StatusOK} {
		var reply events.APIGatewayV2HTTPResponse
		invokeSAM(t, "claim/claim-body", &reply)
		decode(t, reply.Body, &claims[i])
		if reply.StatusCode != want {
			t.Fatalf("answered %d %s, want %d", reply.StatusCode, reply.Body, want)
		}
	}
	if first := claims[0]; first != claims[1] || first.ClaimID == "" || !strings.HasPrefix(first.Item, "SPRING-") {
		t.Errorf("claimed %+v, then %+v", first, claims[1])
	}
}

// TestSAMDedupe gives four records to the function, two of which are natural duplicates. The ledger then has an entry
// for each of the others. The ack, which is written after the delivery, ends at the last record. The test cannot read the
// delivered records: the file of the sink is deleted with the container. It reads their count in the log, which SAM
// sometimes loses.
func TestSAMDedupe(t *testing.T) {
	needSAM(t)
	const event = "dedupe/synthetic-duplicates"
	if rows := ledger(t); len(rows) > 0 {
		t.Fatalf("the ledger is not empty: %v", rows)
	}
	var reply events.KinesisEventResponse
	log := invokeSAM(t, event, &reply)
	const counts = `"natural":2,"synthetic":1,"dead_lettered":0,"skipped":0,"failed":0,"out":2,`
	if strings.Contains(log, `"msg":"batch"`) && !strings.Contains(log, counts) {
		t.Errorf("the counts are not %s: %s", counts, log)
	}
	if reply.BatchItemFailures == nil || len(reply.BatchItemFailures) > 0 {
		t.Errorf("answered %+v, want an empty list", reply)
	}
	var e events.KinesisEvent
	raw, err := os.ReadFile(eventFolder + "/" + event + ".json")
	if err != nil {
		t.Fatal(err)
	}
	decode(t, string(raw), &e)
	last := e.Records[len(e.Records)-1].Kinesis.SequenceNumber

	survivors, acks := 0, 0
	for _, row := range ledger(t) {
		switch {
		case strings.HasPrefix(row["pk"], "record#"):
			survivors++
		case strings.HasPrefix(row["pk"], "ack#"):
			acks++
			end, _, _ := strings.Cut(row["sk"], "#")
			if got := strings.TrimLeft(end, "0"); got != last {
				t.Errorf("the ack ends at %s, want %s", got, last)
			}
		}
	}
	if survivors != 2 || acks != 1 {
		t.Errorf("%d survivors and %d acks, want 2 and 1", survivors, acks)
	}
}

// ledger returns the text attributes of the rows of records.
func ledger(t *testing.T) (rows []map[string]string) {
	t.Helper()
	cfg, err := config.LoadDefaultConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	table := os.Getenv("SAM_DEDUPE_TABLE")
	page, err := dynamodb.NewFromConfig(cfg).Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String(table)})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range page.Items {
		row := map[string]string{}
		for name, value := range item {
			if text, ok := value.(*types.AttributeValueMemberS); ok {
				row[name] = text.Value
			}
		}
		if !strings.HasPrefix(row["pk"], "claim#") {
			rows = append(rows, row)
		}
	}
	return rows
}

// TestSAMAPI claims over HTTP, through the routes of the template.
func TestSAMAPI(t *testing.T) {
	needSAM(t)
	url := serveAPI(t)
	const claimant = "ann/of the team" // only a greedy route takes the slash
	post := func(want int) claim {
		return call(t, want, http.MethodPost, url+"/campaigns/spring/claims", fmt.Sprintf(`{"claimant":%q}`, claimant))
	}
	first := post(http.StatusCreated)
	if first.Claimant != claimant || first.ClaimID == "" || !strings.HasPrefix(first.Item, "SPRING-") {
		t.Errorf("claimed %+v", first)
	}
	if again := post(http.StatusOK); again != first {
		t.Errorf("claimed again: %+v, want %+v", again, first)
	}
	get := func(want int, path string) claim { return call(t, want, http.MethodGet, url+path, "") }
	if got := get(http.StatusOK, "/campaigns/spring/claims/ann%2Fof%20the%20team"); got != first {
		t.Errorf("read %+v, want %+v", got, first)
	}
	if got, want := get(http.StatusOK, "/campaigns/spring"), (claim{Campaign: "spring", State: "open"}); got != want {
		t.Errorf("the campaign is %+v, want %+v", got, want)
	}
	if got := get(http.StatusNotFound, "/campaigns/autumn"); !strings.HasSuffix(got.Type, "#no-such-campaign") {
		t.Errorf("an unknown campaign: %+v", got)
	}
}

// serveAPI runs scripts/sam api until the end of the test and returns its URL.
func serveAPI(t *testing.T) string {
	t.Helper()
	address := testengine.Address(t)
	_, port, _ := net.SplitHostPort(address)
	var log bytes.Buffer
	api := exec.Command("../../scripts/sam", "api")
	api.Env = append(os.Environ(), "PORT="+port)
	api.Stdout, api.Stderr = &log, &log
	if err := api.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- api.Wait() }()
	t.Cleanup(func() {
		_ = api.Process.Signal(syscall.SIGTERM) // it removes its container; the signal fails only after its end
		if err := <-ended; t.Failed() {
			t.Logf("scripts/sam api: %v\n%s", err, &log)
		}
	})
	for deadline := time.After(5 * time.Minute); ; {
		if connection, err := net.Dial("tcp", address); err == nil {
			_ = connection.Close()
			return "http://" + address
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("scripts/sam api ended: %v", err)
		case <-deadline:
			t.Fatal("scripts/sam api does not listen after five minutes")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func call(t *testing.T, want int, method, url, body string) (got claim) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != want {
		t.Fatalf("%s %s answered %d %s, want %d", method, url, response.StatusCode, text, want)
	}
	decode(t, string(text), &got)
	return got
}

// invokeSAM gives an event to its function by scripts/sam invoke. It decodes the reply and returns the log.
func invokeSAM(t *testing.T, event string, reply any) string {
	t.Helper()
	got := run(t, "../../scripts/sam", []string{"invoke", eventFolder + "/" + event + ".json"})
	if got.status != 0 {
		t.Fatalf("status %d: %s", got.status, got.stderr)
	}
	if err := json.Unmarshal([]byte(got.stdout), reply); err != nil {
		t.Fatalf("%v in %s; the log: %s", err, got.stdout, got.stderr)
	}
	return got.stderr
}

func decode(t *testing.T, text string, value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), value); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}
