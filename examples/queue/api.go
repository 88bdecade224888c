package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

type api struct {
	url    string
	client *http.Client
}

// call calls the API for an order. An order that comes again has the same ID, even after a crash between the call and
// its reply. So the API can recognise a repeated call by its Idempotency-Key. A *dedupe.PoisonError says that the API
// will never take the order.
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
	return errorOf(response.StatusCode)
}

// errorOf says what an answer of the API means for the order. The API will never take an order that it answers with one
// of the four codes below. It may take all others later: 401, 403 and 404 mean that a setting is wrong, 409 that the
// first call with the key still runs, 408, 429 and 5xx that the API is busy or down.
func errorOf(status int) error {
	answer := fmt.Sprintf("the API answered %d %s", status, http.StatusText(status))
	switch {
	case status/100 == 2:
		return nil
	case slices.Contains([]int{
		http.StatusBadRequest, http.StatusPaymentRequired, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity,
	}, status):
		return &dedupe.PoisonError{Reason: answer}
	}
	return errors.New(answer)
}
