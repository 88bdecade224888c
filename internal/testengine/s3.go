package testengine

import (
	"net/http/httptest"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// S3 returns the endpoint of an S3 API in memory that has the buckets. It runs in this process
// and serves this test only. It honours If-None-Match on PutObject, accepts any credentials
// and expects the bucket in the path.
func S3(t testing.TB, buckets ...string) string {
	t.Helper()
	backend := s3mem.New()
	for _, bucket := range buckets {
		if err := backend.CreateBucket(bucket); err != nil {
			t.Fatalf("testengine: %v", err)
		}
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	return server.URL
}
