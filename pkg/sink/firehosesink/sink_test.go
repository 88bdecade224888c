package firehosesink_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/firehose"
	"github.com/aws/aws-sdk-go-v2/service/firehose/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/oncebox/oncebox/internal/aws/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/dedupe"
	"github.com/oncebox/oncebox/pkg/sink/firehosesink"
)

func TestMain(m *testing.M) { os.Exit(testengine.Main(m)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// stream is a Firehose stream in memory. It keeps the records that it takes.
type stream struct {
	sizes []int
	taken []byte
	// result returns the code of a record that is not delivered; "" is delivered.
	result func(request int, data []byte) string
	err    func(request int) error
}

func (s *stream) PutRecordBatch(
	_ context.Context, in *firehose.PutRecordBatchInput, _ ...func(*firehose.Options),
) (*firehose.PutRecordBatchOutput, error) {
	s.sizes = append(s.sizes, len(in.Records))
	if s.err != nil {
		if err := s.err(len(s.sizes)); err != nil {
			return nil, err
		}
	}
	out := &firehose.PutRecordBatchOutput{FailedPutCount: aws.Int32(0)}
	for _, r := range in.Records {
		entry := types.PutRecordBatchResponseEntry{RecordId: aws.String("record")}
		code := ""
		if s.result != nil {
			code = s.result(len(s.sizes), r.Data)
		}
		if code != "" {
			*out.FailedPutCount++
			entry = types.PutRecordBatchResponseEntry{ErrorCode: &code, ErrorMessage: aws.String("Slow down.")}
		} else {
			s.taken = append(s.taken, r.Data...)
		}
		out.RequestResponses = append(out.RequestResponses, entry)
	}
	return out, nil
}

func (s *stream) sink(t *testing.T, options ...firehosesink.Option) *firehosesink.Sink {
	t.Helper()
	sink, err := firehosesink.New(s, "clicks", options...)
	must(t, err)
	sink.SetWait(func(ctx context.Context, _ int) error { return ctx.Err() })
	return sink
}

func outputs(texts ...string) (all []dedupe.Output) {
	for _, text := range texts {
		all = append(all, dedupe.Output{ID: text, Data: []byte(text)})
	}
	return all
}

// TestObjects: the records are in the objects of a bucket, one on each line.
func TestObjects(t *testing.T) {
	testengine.CheckOnly(t)
	t.Parallel()
	cfg := aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(testengine.Firehose(t)),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}
	client := firehose.NewFromConfig(cfg)
	bucket := s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = true })
	_, err := bucket.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("firehose-objects")})
	must(t, err)
	_, err = client.CreateDeliveryStream(t.Context(), &firehose.CreateDeliveryStreamInput{
		DeliveryStreamName: aws.String("clicks"), DeliveryStreamType: types.DeliveryStreamTypeDirectPut,
		ExtendedS3DestinationConfiguration: &types.ExtendedS3DestinationConfiguration{
			BucketARN: aws.String("arn:aws:s3:::firehose-objects"), RoleARN: aws.String("arn:aws:iam::123456789012:role/firehose"),
		},
	})
	must(t, err)
	sink, err := firehosesink.New(client, "clicks")
	must(t, err)
	var records []dedupe.Output
	var want []byte
	for i := range 1203 {
		data := []byte(`{"n":` + strings.Repeat("1", 1+i%200) + `}`)
		records, want = append(records, dedupe.Output{ID: "id", Data: data}), append(append(want, data...), '\n')
	}
	sent, err := sink.Send(t.Context(), records)
	if err != nil || len(sent.Delivered) != len(records) || slices.Contains(sent.Delivered, false) || sent.Repeated != 0 {
		t.Fatalf("%d delivered, %d repeated: %v", len(sent.Delivered), sent.Repeated, err)
	}
	listed, err := bucket.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String("firehose-objects")})
	must(t, err)
	var lines []byte
	for _, o := range listed.Contents {
		object, err := bucket.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("firehose-objects"), Key: o.Key})
		must(t, err)
		body, err := io.ReadAll(object.Body)
		must(t, err)
		must(t, object.Body.Close())
		lines = append(lines, body...)
	}
	if sorted(lines) != sorted(want) {
		t.Errorf("%d bytes in %d objects, want %d", len(lines), len(listed.Contents), len(want))
	}
}

// sorted returns lines in order: the objects have none.
func sorted(lines []byte) string {
	all := strings.Split(string(lines), "\n")
	slices.Sort(all)
	return strings.Join(all, "\n")
}

func TestDelimiter(t *testing.T) {
	t.Parallel()
	records := append(outputs("a", "b\n", "c\r\n", "\n"), dedupe.Output{ID: "empty"})
	for _, test := range []struct {
		on   bool
		want string
	}{
		{true, "a\nb\nc\r\n\n\n"}, {false, "ab\nc\r\n\n"},
	} {
		s := &stream{}
		sink := s.sink(t, firehosesink.WithDelimiter(test.on))
		if _, err := sink.Send(t.Context(), records); err != nil || string(s.taken) != test.want {
			t.Errorf("delimiter %t: %q: %v", test.on, s.taken, err)
		}
	}
	if string(records[0].Data) != "a" {
		t.Errorf("the sink has changed a record: %q", records[0].Data)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	s := &stream{}
	sink := s.sink(t)
	for size, good := range map[int]bool{firehosesink.MaxRecord - 1: true, firehosesink.MaxRecord: false} {
		err := sink.Check(t.Context(), dedupe.Output{Data: make([]byte, size)})
		if poison, ok := errors.AsType[*dedupe.PoisonError](err); ok == good || ok && !strings.Contains(poison.Reason, "too large") {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	must(t, sink.Check(t.Context(), dedupe.Output{Data: append(make([]byte, firehosesink.MaxRecord-1), '\n')}))
	records := make([]dedupe.Output, 1001)
	for i := range 5 { // five of the largest are more than 4 MiB
		records[i].Data = make([]byte, firehosesink.MaxRecord-1)
	}
	_, err := sink.Send(t.Context(), records)
	if must(t, err); !slices.Equal(s.sizes, []int{4, 500, 497}) {
		t.Errorf("requests of %v records", s.sizes)
	}
	for _, name := range []string{"", "a/b", "a b", "arn:aws:firehose:eu-west-1:1:deliverystream/s", strings.Repeat("s", 65)} {
		if _, err := firehosesink.New(s, name); err == nil {
			t.Errorf("the name %q was accepted", name)
		}
	}
}

// TestResults: a record is sent again if it was refused for now or if it may be delivered. In the second case its
// copies are counted.
func TestResults(t *testing.T) {
	t.Parallel()
	for code, test := range map[string]struct{ tries, repeated int }{
		"ServiceUnavailableException": {2, 0}, "InternalFailure": {2, 1}, "ThrottlingException": {2, 0}, "SomethingElse": {1, 0},
	} {
		s := &stream{result: func(request int, data []byte) string {
			if request == 1 && bytes.HasPrefix(data, []byte("b")) {
				return code
			}
			return ""
		}}
		sent, err := s.sink(t).Send(t.Context(), outputs("a", "b", "c"))
		if len(s.sizes) != test.tries || sent.Repeated != test.repeated || sent.Delivered[1] != (test.tries == 2) ||
			(err == nil) != sent.Delivered[1] || !sent.Delivered[0] || !sent.Delivered[2] {
			t.Errorf("%s: requests of %v records, %+v: %v", code, s.sizes, sent, err)
		}
	}
	s := &stream{err: func(request int) error {
		if request == 1 {
			return &types.ServiceUnavailableException{}
		}
		return &types.ResourceNotFoundException{}
	}}
	if _, err := s.sink(t).Send(t.Context(), outputs("a")); len(s.sizes) != 2 || errors.Is(err, dedupe.ErrTryAgain) ||
		!strings.HasPrefix(err.Error(), `firehose: put records into "clicks": the Firehose stream does not exist`) {
		t.Error(err)
	}
}

func TestNewClient(t *testing.T) {
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_REGION", "eu-west-1")
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"__type":"ResourceNotFoundException"}`)
	}))
	t.Cleanup(server.Close)
	t.Setenv("AWS_ENDPOINT_URL_FIREHOSE", server.URL)
	client, err := firehosesink.NewClient(t.Context(), sdkconfig.Load)
	must(t, err)
	if n := client.Options().Retryer.MaxAttempts(); n != 1 {
		t.Errorf("the client tries %d times by itself", n)
	}
	sink, err := firehosesink.New(client, "nowhere")
	must(t, err)
	_, err = sink.Send(t.Context(), outputs("a"))
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); !ok {
		t.Errorf("want the error of the endpoint, got %v", err)
	}
}
