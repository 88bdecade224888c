// Package stub has a payment API for tests. It charges once for a key, and refuses an execution that is older than one
// that it has seen.
package stub

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
)

// API is a payment API: POST /charges with the headers Idempotency-Key and Execution-Number. The zero value is ready.
// It is safe for concurrent use.
type API struct {
	mu   sync.Mutex
	keys map[string]*state
	made int
}

// state is what the API knows about a key.
type state struct {
	newest int64 // the largest number of an execution
	body   []byte
	charge string // "" if the card was not charged
}

// Charges returns how many charges were made.
func (a *API) Charges() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.made
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	number, wrong := strconv.ParseInt(r.Header.Get("Execution-Number"), 10, 64)
	key := r.Header.Get("Idempotency-Key")
	if err != nil || wrong != nil || key == "" {
		http.Error(w, "Idempotency-Key or Execution-Number is missing", http.StatusBadRequest)
		return
	}
	status, text := a.charge(key, number, body)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

func (a *API) charge(key string, number int64, body []byte) (status int, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.keys == nil {
		a.keys = map[string]*state{}
	}
	s := a.keys[key]
	if s == nil {
		s = &state{newest: number, body: body}
		a.keys[key] = s
	}
	switch {
	case number < s.newest:
		return http.StatusConflict, "a later execution has the key"
	case !bytes.Equal(body, s.body):
		return http.StatusUnprocessableEntity, "the key was used for another charge"
	}
	s.newest = number
	if s.charge == "" {
		a.made++
		s.charge = fmt.Sprintf(`{"charge":"ch_%d"}`, a.made)
	}
	return http.StatusCreated, s.charge
}
