// Command s3 serves an S3 API in memory for tests, on the loopback interface:
//
//	s3 -port 9000
//
// The first part of a path is the name of an account, the second is the bucket. Each account has buckets of its own, so
// that tests can share a server. The API honours If-None-Match on PutObject and accepts any credentials.
package main

import (
	"flag"
	"log"
	"net"
	"net/http"
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
		account, _ = a.byName.LoadOrStore(name, http.StripPrefix("/"+name, gofakes3.New(s3mem.New()).Server()))
	}
	account.(http.Handler).ServeHTTP(w, r)
}
