package main

import (
	"net/http"
	"testing"

	"github.com/aws/aws-lambda-go/events"
)

// TestNewHandler: the handler answers without asking the tables, where no route needs them.
func TestNewHandler(t *testing.T) {
	for name, value := range map[string]string{
		"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"BANK_TABLE": "bank", "CLAIM_TABLE": "claims",
	} {
		t.Setenv(name, value)
	}
	handler, err := newHandler(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	event := events.APIGatewayV2HTTPRequest{Version: "2.0", RawPath: "/elsewhere"}
	reply, err := handler.Handle(t.Context(), event)
	if err != nil || reply.StatusCode != http.StatusNotFound {
		t.Errorf("want 404, got %d, %v", reply.StatusCode, err)
	}
}
