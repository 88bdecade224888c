package testengine

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
)

var s3 = &engine{
	name: "s3",
	args: func(port string) []string { return []string{"-port", port} },
}

// accounts counts the calls of [S3].
var accounts atomic.Int64

// S3 returns the endpoint of an S3 API in memory that has the buckets, and that no other call returns. The first call
// starts the server. It honours If-None-Match on PutObject, accepts any credentials and expects the bucket in the path.
func S3(t testing.TB, buckets ...string) string {
	t.Helper()
	account := s3.endpoint(t) + "/" + strconv.FormatInt(accounts.Add(1), 10)
	for _, bucket := range buckets {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, account+"/"+bucket, nil)
		if err != nil {
			t.Fatalf("testengine: %v", err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatalf("testengine: %v", err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Fatalf("testengine: make the bucket %s: %s", bucket, response.Status)
		}
	}
	return account
}
