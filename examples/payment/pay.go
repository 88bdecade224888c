package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/oncebox/oncebox/examples/payment/client"
	"github.com/oncebox/oncebox/pkg/idempotency"
	"github.com/oncebox/oncebox/pkg/idempotency/dynamostore"
	"github.com/oncebox/oncebox/pkg/idempotency/oncehttp"
)

// paymentAPI is the API that charges cards. The effects of book keep a charge in the store of the function.
type paymentAPI struct {
	client.Client

	book func(charge) idempotency.Effects
}

// charge is a row of the shop.
type charge struct {
	id     string // the same in every execution
	cents  int
	answer string // of the payment API
}

// putInto puts charges into a table.
func putInto(table string) func(charge) idempotency.Effects {
	return func(c charge) idempotency.Effects {
		return dynamostore.Effects(types.TransactWriteItem{Put: &types.Put{
			TableName: &table,
			Item: map[string]types.AttributeValue{
				"id":     &types.AttributeValueMemberS{Value: c.id},
				"cents":  &types.AttributeValueMemberN{Value: strconv.Itoa(c.cents)},
				"answer": &types.AttributeValueMemberS{Value: c.answer},
			},
		}})
	}
}

// read returns the payment of a request, or false if it has none.
func read(r request) (p client.Payment, ok bool) {
	err := json.Unmarshal([]byte(r.Body), &p)
	return p, err == nil && p.Valid()
}

// pay charges the card of a request. What the payment API decides is the result: a charge (201), or that the card was
// declined (402). The answer 502 frees the key, so that the customer can try again with the same key.
func (a paymentAPI) pay(ctx context.Context, r request) (response, error) {
	p, ok := read(r)
	if !ok {
		return reply(http.StatusBadRequest, `{"error":"send {\"card\":TOKEN,\"cents\":NUMBER}"}`), nil
	}
	execution, _ := oncehttp.ExecutionOf(ctx)
	status, body, err := a.Charge(ctx, execution, p)
	if err == nil && status == http.StatusCreated { // the row is there if, and only if, the response is stored
		execution.Commit(a.book(charge{execution.KeyFor("charge"), p.Cents, body}))
	}
	if err == nil && (status == http.StatusCreated || status == http.StatusPaymentRequired) {
		return reply(status, body), nil
	}
	slog.ErrorContext(ctx, "no answer about a charge", "status", status, "error", err)
	return reply(http.StatusBadGateway, `{"error":"the payment API gives no answer; send the same request again"}`), nil
}

func reply(status int, body string) response {
	return response{StatusCode: status, Headers: map[string]string{"content-type": "application/json"}, Body: body}
}
