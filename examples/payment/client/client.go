// Package client calls a payment API that honours the headers Idempotency-Key and Execution-Number. Its users are the
// functions that pay.
package client

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"

	"github.com/oncebox/oncebox/pkg/idempotency"
)

// Client is a payment API at an address.
type Client struct {
	Address string
	HTTP    *http.Client
}

// Payment is what is charged.
type Payment struct {
	Card  string `json:"card"`
	Cents int    `json:"cents"`
}

// Valid reports whether it can be charged.
func (p Payment) Valid() bool { return p.Card != "" && p.Cents > 0 }

// Charge asks for a charge, and returns the status and the body of the answer. The key is the same in every execution,
// so that a charge whose answer was lost is not made again. The number lets the API refuse an execution that was frozen
// and has a successor.
func (c Client) Charge(ctx context.Context, e idempotency.Execution, p Payment) (int, string, error) {
	body, err := json.Marshal(p)
	if err != nil {
		return 0, "", err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Address+"/charges", bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	r.Header.Set("Idempotency-Key", e.KeyFor("charge"))
	r.Header.Set("Execution-Number", strconv.FormatInt(e.Number, 10))
	answer, err := c.HTTP.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}
