package oncehttp

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"

	"github.com/oncebox/oncebox/pkg/idempotency/internal/exchange"
)

// recorder is the http.ResponseWriter of a handler. It keeps the response. It has no other method, and no Unwrap: a
// handler that flushes or takes the connection over gets an error, and has sent nothing that a record could not repeat.
type recorder struct {
	outer  http.Header // that handlers before the Middleware have set; it does not change
	header http.Header // that the handler changes
	sent   http.Header // as it was when the handler wrote the status
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header { return w.header }

// WriteHeader keeps the first final status, as net/http does. It panics for a status that net/http would panic for,
// before anything is stored.
func (w *recorder) WriteHeader(status int) {
	if status < 100 || status > 999 {
		panic(fmt.Sprintf("invalid WriteHeader code %v", status))
	}
	if w.status != 0 || status < http.StatusOK {
		return // an informational response is not sent
	}
	w.status, w.sent = status, w.header.Clone()
}

func (w *recorder) Write(data []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if !hasBody(w.status) {
		return 0, http.ErrBodyNotAllowed
	}
	return w.body.Write(data)
}

func hasBody(status int) bool {
	return status != http.StatusNoContent && status != http.StatusNotModified
}

// response returns the response of a handler that has returned. Its type is guessed from the whole body, as net/http
// guesses it from the first write: a replay is written at once.
func (w *recorder) response() exchange.Response {
	w.WriteHeader(http.StatusOK)
	_, typed := w.sent["Content-Type"]
	if !typed && w.body.Len() > 0 && w.sent.Get("Content-Encoding") == "" {
		w.sent.Set("Content-Type", http.DetectContentType(w.body.Bytes()))
	}
	for _, name := range []string{"Content-Length", "Transfer-Encoding", "Trailer", exchange.ReplayedHeader} {
		w.sent.Del(name)
	}
	w.keepChanges()
	return exchange.Response{Status: w.status, Header: w.sent, Body: w.body.Bytes()}
}

// keepChanges leaves only what the handler changed in the headers: for a replay, the handlers before the Middleware run
// again and set theirs. A header that the handler removed has no values.
func (w *recorder) keepChanges() {
	for name, values := range w.outer {
		if changed, has := w.sent[name]; !has {
			w.sent[name] = nil
		} else if slices.Equal(changed, values) {
			delete(w.sent, name)
		}
	}
}
