// Command seatmap serves the files of a seat map, and passes requests for /campaigns/ on to a claim API, so that both
// have one origin. In AWS, CloudFront does that with a bucket and the API.
package main

import (
	"embed"
	"fmt"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"time"
)

//go:embed index.html seatmap.css seatmap.js
var files embed.FS

func main() {
	const usage = "usage: seatmap HOST:PORT URL-OF-THE-API"
	if len(os.Args) != len([]string{"seatmap", "address", "api"}) {
		log.Fatal(usage)
	}
	api, err := url.Parse(os.Args[2])
	if err != nil {
		log.Fatal(usage)
	}
	fmt.Printf("Open http://%s in a browser, or in two. Ctrl-C ends it.\n", os.Args[1])
	server := http.Server{Addr: os.Args[1], Handler: routes(api), ReadTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}

func routes(api *url.URL) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(files))
	mux.Handle("/campaigns/", httputil.NewSingleHostReverseProxy(api)) //nolint:gosec // to the API that you name
	return mux
}
