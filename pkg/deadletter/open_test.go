package deadletter_test

import (
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncebox/oncebox/internal/aws/awsconfig/sdkconfig"
	"github.com/oncebox/oncebox/internal/testkit/testengine"
	"github.com/oncebox/oncebox/pkg/deadletter"
)

func TestParseSetting(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]deadletter.Setting{
		"s3://bucket":               {Bucket: "bucket"},
		"s3://bucket/":              {Bucket: "bucket"},
		"s3://my.bucket-1/a":        {Bucket: "my.bucket-1", Prefix: "a/"},
		"s3://bucket/a/b c/é/":      {Bucket: "bucket", Prefix: "a/b c/é/"},
		"dir:/var/dead":             {Folder: "/var/dead"},
		"dir:dead":                  {Folder: "dead"},
		"dir:s3://bucket/is-a-path": {Folder: "s3://bucket/is-a-path"},
	} {
		if got, err := deadletter.ParseSetting(text); got != want || err != nil {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
	for text, says := range map[string]string{
		"":                                "use s3://BUCKET/PREFIX or dir:PATH",
		"bucket":                          "use s3://BUCKET/PREFIX or dir:PATH",
		"/var/dead":                       "use s3://BUCKET/PREFIX or dir:PATH",
		"S3://bucket/a":                   "use s3://BUCKET/PREFIX or dir:PATH",
		"dir:":                            "the path is missing",
		"s3://":                           "not the name of a bucket",
		"s3:///a":                         "not the name of a bucket",
		"s3://Bucket/a":                   "not the name of a bucket",
		"s3://b/a":                        "not the name of a bucket",
		"s3://" + strings.Repeat("b", 64): "not the name of a bucket",
		"s3://bucket//a":                  `a part ""`,
		"s3://bucket/a//b":                `a part ""`,
		"s3://bucket/a//":                 `a part ""`,
		"s3://bucket/../a":                `a part ".."`,
		"s3://bucket/./a":                 `a part "."`,
		"s3://bucket/a/done/":             `a part "done"`,
		"s3://bucket/done/begun":          `a part "done"`,
		"s3://bucket/a\n":                 "control character",
		"s3://bucket/\xff":                "UTF-8",
		"s3://bucket/" + strings.Repeat("x", 781): "longer than 780 bytes",
	} {
		if _, err := deadletter.ParseSetting(text); err == nil || !strings.Contains(err.Error(), says) ||
			!strings.Contains(err.Error(), fmt.Sprintf("%q", text)) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestNewQueue(t *testing.T) {
	t.Parallel()
	for url, good := range map[string]bool{
		"https://sqs.eu-west-1.amazonaws.com/123456789012/failures":      true,
		"http://localhost:4566/000000000000/failures":                    true,
		"https://sqs.eu-west-1.amazonaws.com/123456789012/failures.fifo": false,
		"https://sqs.eu-west-1.amazonaws.com/":                           false,
		"failures":                                                       false, "": false,
		"arn:aws:sqs:eu-west-1:123456789012:failures": false, "http://\x7f/a": false,
	} {
		if _, err := deadletter.NewQueue(nil, url); good != (err == nil) {
			t.Errorf("%q: %v", url, err)
		}
	}
}

// messages is a server for SendMessage of SQS. It collects queue and body of each message.
type messages [][2]string

func (m *messages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct{ QueueUrl, MessageBody string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || r.Header.Get("X-Amz-Target") != "AmazonSQS.SendMessage" {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	if strings.HasSuffix(in.QueueUrl, "/none") {
		w.Header().Set("X-Amzn-Query-Error", "AWS.SimpleQueueService.NonExistentQueue;Sender")
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"The specified queue does not exist."}`)
		return
	}
	*m = append(*m, [2]string{in.QueueUrl, in.MessageBody})
	sum := md5.Sum([]byte(in.MessageBody))
	_ = json.NewEncoder(w).Encode(map[string]string{"MessageId": "1", "MD5OfMessageBody": hex.EncodeToString(sum[:])})
}

// TestOpen tests all from settings to objects and messages, over HTTP.
func TestOpen(t *testing.T) {
	var sent messages
	queue := httptest.NewServer(&sent)
	defer queue.Close()
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_REGION", "eu-west-1")
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_ENDPOINT_URL_S3", strings.Replace(testengine.S3(t, "bucket"), "127.0.0.1", "localhost", 1))
	t.Setenv("AWS_ENDPOINT_URL_SQS", queue.URL)
	client, err := deadletter.NewS3Client(t.Context(), sdkconfig.Load)
	must(t, err)
	if n := client.Options().Retryer.MaxAttempts(); n != 1 {
		t.Errorf("the S3 client tries %d times by itself", n)
	}
	folder := filepath.Join(t.TempDir(), "dead")
	f := newLetter("1")
	name := nameOf(f)
	for _, test := range []struct{ setting, place string }{
		{"s3://bucket/poison", `"bucket":"bucket","key":"poison/` + name + `"`},
		{"dir:" + folder, `"path":"` + filepath.Join(folder, name) + `"`},
	} {
		sent = nil
		const url = "https://sqs.eu-west-1.amazonaws.com/123456789012/failures"
		store, err := deadletter.Open(t.Context(), sdkconfig.Load, test.setting+"?notify="+url,
			func(n deadletter.Notification, err error) { t.Error(n, err) })
		must(t, err)
		must(t, put(t, store, f))
		got, err := store.Read(t.Context(), name)
		must(t, err)
		checkSame(t, got, f)
		want := `{` + test.place + `,"owner":"123456789012/eu-west-1/orders/shardId-000000000000/1#3","reason":"no id"}`
		if len(sent) != 1 || sent[0] != [2]string{url, want} {
			t.Errorf("messages: %q\nwant %s", sent, want)
		}
	}
	var unsent error
	store, err := deadletter.Open(t.Context(), sdkconfig.Load, "dir:"+folder+"?notify=https://sqs.eu-west-1.amazonaws.com/123456789012/none",
		func(_ deadletter.Notification, err error) { unsent = err })
	must(t, err)
	must(t, put(t, store, newLetter("2")))
	if unsent == nil || !strings.Contains(unsent.Error(), "the queue does not exist") {
		t.Errorf("unsent: %v", unsent)
	}
	store, err = deadletter.Open(t.Context(), sdkconfig.Load, "dir:"+folder, nil)
	must(t, err)
	must(t, put(t, store, newLetter("3")))
}

func TestOpenRefusesWrongSettings(t *testing.T) {
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	folder := "dir:" + filepath.Join(t.TempDir(), "dead")
	for _, test := range []struct{ setting, says string }{
		{"bucket", "use s3://BUCKET/PREFIX"},
		{"dir:/none/of/these", "/none/of/these"},
		{"s3://bucket/p", "AWS_REGION"},
		{folder + "?notify=https://sqs.eu-west-1.amazonaws.com/1/q", "AWS_REGION"},
	} {
		if _, err := deadletter.Open(t.Context(), sdkconfig.Load, test.setting, nil); err == nil ||
			!strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: %v", test, err)
		}
	}
	t.Setenv("AWS_REGION", "eu-west-1")
	if _, err := deadletter.Open(t.Context(), sdkconfig.Load, folder+"?notify=failures", nil); err == nil ||
		!strings.Contains(err.Error(), "SQS") {
		t.Errorf("queue: %v", err)
	}
	if _, err := deadletter.Open(t.Context(), sdkconfig.Load, folder, nil); err != nil {
		t.Errorf("a folder needs no AWS settings: %v", err)
	}
}
