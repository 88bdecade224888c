package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

type api struct {
	url    string
	client *http.Client
}

// call calls the API for an order. An order that comes again has the same ID, even after a crash between the call and
// its reply. So the API can recognise a repeated call by its Idempotency-Key.
func (a api) call(ctx context.Context, order dedupe.Output) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, a.url, bytes.NewReader(order.Data))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Idempotency-Key", order.ID)
	response, err := a.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(io.Discard, response.Body); err != nil { // so that the connection is used again
		return err
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("the API answered %s", response.Status)
	}
	return nil
}
