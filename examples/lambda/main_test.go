package main

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

// TestClaim: the event of a caller with a token gets an item, and the same item again. An event without a token is
// refused.
func TestClaim(t *testing.T) {
	t.Parallel()
	handler, err := newHandler(newBank(t, "SPRING-1", "SPRING-2").Bank)
	must(t, err)
	var items []string
	for _, c := range []struct {
		event  string
		status int
	}{
		{"claim-jwt.json", http.StatusCreated},
		{"claim-jwt.json", http.StatusOK},
		{"claim-body.json", http.StatusUnauthorized},
	} {
		event, err := os.ReadFile("../../events/claim/" + c.event)
		must(t, err)
		answer, err := handler.Invoke(t.Context(), event)
		must(t, err)
		var reply events.APIGatewayV2HTTPResponse
		must(t, json.Unmarshal(answer, &reply))
		if reply.StatusCode != c.status {
			t.Fatalf("%s: want %d, got %d %s", c.event, c.status, reply.StatusCode, reply.Body)
		}
		var claim struct{ Item string }
		must(t, json.Unmarshal([]byte(reply.Body), &claim))
		items = append(items, claim.Item)
	}
	if items[0] == "" || items[1] != items[0] || items[2] != "" {
		t.Errorf("want an item, the same one, and none; got %q", items)
	}
}

func newBank(t *testing.T, items ...string) *itembank.Operator {
	t.Helper()
	store, err := sqlitestore.Create(t.Context(), filepath.Join(t.TempDir(), "shop.db"))
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	bank := itembank.NewOperator(store)
	_, _, err = bank.CreateCampaign(t.Context(), "spring", itembank.Settings{})
	must(t, err)
	_, err = bank.Load(t.Context(), "spring", itembank.Items(items...), nil)
	must(t, err)
	return bank
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
