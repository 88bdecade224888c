package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/uuid"

	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/dedupe/dynamostore"
	"github.com/oncebox/oncebox/pkg/kpl"
	"github.com/oncebox/oncebox/pkg/sink/kinesissink"
)

const (
	maxUserRecord = 50  // microseconds: 20,000 user records a second
	aggregateSize = 100 // user records of an aggregate
	shardBatch    = 10_000
)

// BenchmarkRecordsShard measures how many small user records a second one shard can pass, plain and in KPL
// aggregates, from event to answer, with acks. The table and the destination stream are HTTP servers in this process,
// and each request to them takes 2 ms.
func BenchmarkRecordsShard(b *testing.B) {
	for b.Loop() { // once or often: the rounds are its own
	}
	s := &shop{B: b}
	m := &meter{}
	o := newClient(b, server(b, yes), m).Options()
	o.HTTPClient = m.http
	client := dynamodb.New(o)
	stream, err := kinesissink.NewClient(b.Context(), func(context.Context) (aws.Config, error) {
		return aws.Config{
			Region: "us-east-1", BaseEndpoint: aws.String(server(b, destination)),
			Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		}, nil
	})
	if err != nil {
		b.Fatal(err)
	}
	sink, err := kinesissink.New(stream, "unique")
	if err != nil {
		b.Fatal(err)
	}
	for _, event := range []struct {
		name string
		raw  []byte
		goal float64
	}{{"aggregated", aggregatedEvent(), maxUserRecord}, {"plain", plainEvent(), 0}} {
		for _, concurrency := range []int{dynamostore.DefaultConcurrency, 64, 128} {
			store := dynamostore.New(client, "dedupe", dynamostore.WithConcurrency(concurrency))
			var each, used []float64
			for range latencies {
				h := newHandler(b, dedupe.Parts{Ledger: store, Sink: sink, Acks: store, Consumers: store})
				took, processor := s.used(func() { invoke(b, h, event.raw) })
				each = append(each, float64(took.Microseconds())/shardBatch)
				used = append(used, float64(processor.Microseconds())/shardBatch)
			}
			name := fmt.Sprintf("us of a user record through one shard, %s, %d requests at a time", event.name, concurrency)
			note(name, median(each), event.goal, fmt.Sprintf(
				"%.0f a second; %.0f us of processor time, servers included", 1e6/median(each), median(used)))
		}
	}
	b.ReportMetric(0, "ns/op")
}

// server answers each request after 2 ms. It implements only the part of HTTP that the SDK needs: net/http would use
// as much processor time as the function for each request.
func server(b *testing.B, answer func(body []byte) string) (endpoint string) {
	b.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn, answer)
		}
	}()
	return "http://" + listener.Addr().String()
}

func serve(conn net.Conn, answer func(body []byte) string) {
	defer func() { _ = conn.Close() }()
	in := bufio.NewReader(conn)
	for {
		size, err := contentLength(in)
		if err != nil {
			return
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(in, body); err != nil {
			return
		}
		time.Sleep(network) // to and fro: the server is in this process
		text := answer(body)
		if _, err := fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.1\r\nContent-Length: %d\r\n\r\n%s",
			len(text), text); err != nil {
			return
		}
	}
}

// contentLength reads the head of a request.
func contentLength(in *bufio.Reader) (size int, err error) {
	for {
		line, err := in.ReadSlice('\n')
		if err != nil || len(line) <= 2 {
			return size, err
		}
		if value, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
			if size, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		}
	}
}

// yes is the answer of a table that accepts every put and has no rows.
func yes(body []byte) string {
	if n := bytes.Count(body, []byte(`"Statement":`)); n > 0 {
		return `{"Responses":[` + strings.Repeat(",{}", n)[1:] + `]}`
	}
	return "{}"
}

// destination answers PutRecords and ListShards for a stream of one shard.
func destination(body []byte) string {
	const theShard = `"ShardId":"shardId-000000000000"`
	records := bytes.Count(body, []byte(`"PartitionKey"`))
	if records == 0 {
		return `{"Shards":[{` + theShard + `,"HashKeyRange":{"StartingHashKey":"0","EndingHashKey":"340282366920938463463374607431768211455"},` +
			`"SequenceNumberRange":{"StartingSequenceNumber":"1"}}]}`
	}
	result := strings.Repeat(`,{`+theShard+`,"SequenceNumber":"1"}`, records)
	return `{"FailedRecordCount":0,"Records":[` + result[1:] + `]}`
}

func aggregatedEvent() []byte {
	var records [][]byte
	for range shardBatch / aggregateSize {
		var e kpl.Encoder
		for range aggregateSize {
			e.Add(kpl.UserRecord{Data: click(), PartitionKey: []byte(uuid.NewString())})
		}
		records = append(records, e.Bytes())
	}
	return eventOf(records)
}

func plainEvent() []byte {
	var records [][]byte
	for range shardBatch {
		records = append(records, click())
	}
	return eventOf(records)
}

// click returns a small record with its own id.
func click() []byte {
	return fmt.Appendf(nil, `{"event_id":%q,"event_fingerprint":"9bd2c3f4a1e04e7f","x":17,"y":211,"at":1795176000}`, uuid.NewString())
}
