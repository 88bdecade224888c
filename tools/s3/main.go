// Command s3 serves an S3 API in memory for tests, on the loopback interface:
//
//	s3 -port 9000
//
// The first part of a path is the name of an account, the second is the bucket. Each account has buckets of its own, so
// that tests can share a server. The API honours If-None-Match on PutObject, keeps the tags of object versions, and
// accepts any credentials.
package main

import (
	"flag"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

func main() {
	port := flag.Int("port", 0, "TCP port of 127.0.0.1")
	flag.Parse()
	log.Fatal(http.ListenAndServe(net.JoinHostPort("127.0.0.1", strconv.Itoa(*port)), new(accounts)))
}

// accounts holds an S3 API for each account, by name. An account begins with its first request.
type accounts struct{ byName sync.Map }

func (a *accounts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	account, known := a.byName.Load(name)
	if !known {
		account, _ = a.byName.LoadOrStore(name, http.StripPrefix("/"+name, &tagged{api: gofakes3.New(s3mem.New()).Server()}))
	}
	account.(http.Handler).ServeHTTP(w, r)
}

// tagged adds PutObjectTagging and GetObjectTagging to an API, which would take the first one for a PutObject.
type tagged struct {
	api  http.Handler
	tags sync.Map // the XML of the tags, by path and version
}

func (t *tagged) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !r.URL.Query().Has("tagging") {
		t.api.ServeHTTP(w, r)
		return
	}
	found := httptest.NewRecorder()
	get := r.Clone(r.Context())
	get.Method, get.URL.RawQuery, get.Body, get.ContentLength = http.MethodGet, "", http.NoBody, 0
	t.api.ServeHTTP(found, get)
	version := r.URL.Path + "?" + found.Header().Get("x-amz-version-id")
	switch {
	case found.Code != http.StatusOK:
		w.WriteHeader(found.Code)
		_, _ = w.Write(found.Body.Bytes())
	case r.Method == http.MethodPut:
		tags, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		t.tags.Store(version, tags)
	default:
		tags, ok := t.tags.Load(version)
		if !ok {
			tags = []byte("<Tagging><TagSet></TagSet></Tagging>")
		}
		w.Header().Set("Content-Type", "application/xml")
		_, _ = w.Write(tags.([]byte)) //nolint:gosec // XML that the same test has put
	}
}
