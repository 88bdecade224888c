package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/oncebox/oncebox/pkg/awsclient"
)

// newClient is the project's own client, with its requests counted.
func newClient(b *testing.B, endpoint string, m *meter) *dynamodb.Client {
	b.Helper()
	client, err := awsclient.NewDynamoDB(b.Context(), func(context.Context) (aws.Config, error) {
		return aws.Config{
			Region: "us-east-1", BaseEndpoint: aws.String(endpoint),
			Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		}, nil
	})
	if err != nil {
		b.Fatal(err)
	}
	options := client.Options()
	m.http, options.HTTPClient = options.HTTPClient, m
	return dynamodb.New(options)
}

// meter counts the requests to the engine, with the units of DynamoDB's documented rules, because local engines have
// different rules. The size of a row that is put outside a transaction, or queried, is exact. Other sizes come from
// JSON, which is longer than the row, so the units are an upper limit.
type meter struct {
	http  aws.HTTPClient
	mu    sync.Mutex
	spent spent
}

func (m *meter) read() spent {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spent
}

// Do implements aws.HTTPClient.
func (m *meter) Do(r *http.Request) (*http.Response, error) {
	sent, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(sent))
	response, err := m.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	received, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(received))
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	m.count(operation, sent, received)
	return response, nil
}

func (m *meter) count(operation string, sent, received []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spent.requests++
	m.spent.sent += float64(len(sent))
	switch operation {
	case "TransactWriteItems":
		var request struct{ TransactItems []json.RawMessage }
		if err := json.Unmarshal(sent, &request); err != nil {
			panic(err)
		}
		for _, action := range request.TransactItems {
			m.spent.writeUnits += 2 * started(1024, action)
		}
		if itemGone(received) {
			m.spent.lost++
		}
	case "PutItem":
		var request struct{ Item row }
		if err := json.Unmarshal(sent, &request); err != nil {
			panic(err)
		}
		m.spent.writeUnits += units(1024, request.Item.size())
	case "UpdateItem": // ours change rows of up to 1 KB
		m.spent.writeUnits++
	case "BatchExecuteStatement": // one unit for each row; ours are below 1 KB
		var request struct{ Statements []json.RawMessage }
		if err := json.Unmarshal(sent, &request); err != nil {
			panic(err)
		}
		m.spent.writeUnits += float64(len(request.Statements))
	case "TransactGetItems": // two units for each row; ours are below 4 KB
		var request struct{ TransactItems []json.RawMessage }
		if err := json.Unmarshal(sent, &request); err != nil {
			panic(err)
		}
		m.spent.readUnits += 2 * float64(len(request.TransactItems))
	case "BatchGetItem": // one unit for each row, or half of one
		var request struct {
			RequestItems map[string]struct {
				Keys           []json.RawMessage
				ConsistentRead bool
			}
		}
		if err := json.Unmarshal(sent, &request); err != nil {
			panic(err)
		}
		for _, read := range request.RequestItems {
			units := float64(len(read.Keys))
			if !read.ConsistentRead {
				units /= 2
			}
			m.spent.readUnits += units
		}
	case "Query":
		var answer struct{ Items []row }
		if err := json.Unmarshal(received, &answer); err != nil {
			panic(err)
		}
		size := 0
		for _, r := range answer.Items {
			size += r.size()
		}
		m.spent.readUnits += units(4096, max(size, 1)) / halved(sent)
	case "GetItem":
		m.spent.readUnits += started(4096, received) / halved(sent)
	}
}

// halved returns the divisor of the units of a read: 2 if the read is eventually consistent, otherwise 1.
func halved(request []byte) float64 {
	if bytes.Contains(request, []byte(`"ConsistentRead":true`)) {
		return 1
	}
	return 2
}

// row is a row of DynamoDB in JSON.
type row map[string]map[string]json.RawMessage

// size is the row's size in bytes (Developer Guide, "DynamoDB item sizes and formats").
func (r row) size() (bytes int) {
	for name, value := range r {
		bytes += len(name)
		for kind, v := range value {
			digits := len(v) - len(`""`)
			switch kind {
			case "B": // in base64
				bytes += digits/4*3 - strings.Count(string(v[max(0, len(v)-3):]), "=")
			case "N":
				bytes += (digits+1)/2 + 1
			case "S":
				bytes += digits
			default:
				bytes += len(v)
			}
		}
	}
	return bytes
}

// units is how many units of a size some bytes take.
func units(of, bytes int) float64 { return float64((bytes + of - 1) / of) }

// itemGone tells that a claim's transaction was cancelled by its first action, the
// deletion of the item.
func itemGone(answer []byte) bool {
	var cancelled struct{ CancellationReasons []struct{ Code string } }
	if err := json.Unmarshal(answer, &cancelled); err != nil {
		panic(err)
	}
	return len(cancelled.CancellationReasons) > 0 && cancelled.CancellationReasons[0].Code == "ConditionalCheckFailed"
}
