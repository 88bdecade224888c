package claimapi_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/oncebox/oncebox/pkg/awsclient"
	"github.com/oncebox/oncebox/pkg/claimapi"
	"github.com/oncebox/oncebox/pkg/itembank"
	"github.com/oncebox/oncebox/pkg/itembank/dynamostore"
	"github.com/oncebox/oncebox/pkg/itembank/sqlitestore"
)

// The claim API in a server of your own, over a SQLite file.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "oncebox")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	store, err := sqlitestore.Create(ctx, filepath.Join(dir, "oncebox.db"))
	if err != nil {
		log.Fatal(err)
	}
	bank := itembank.NewOperator(store)
	if _, _, err := bank.CreateCampaign(ctx, "spring", itembank.Settings{}); err != nil {
		log.Fatal(err)
	}
	if _, err := bank.Load(ctx, "spring", itembank.Items("SPRING-1"), nil); err != nil {
		log.Fatal(err)
	}

	api := claimapi.New(bank.Bank, claimapi.FromContext(), slog.New(slog.DiscardHandler))
	server := httptest.NewServer(authenticate(api)) // in production: http.ListenAndServe
	defer server.Close()

	for range 2 {
		response, err := http.Post(server.URL+"/campaigns/spring/claims", "", nil)
		if err != nil {
			log.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		_ = response.Body.Close() // it was only read
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(response.Status, strings.Contains(string(body), `"item":"SPRING-1"`))
	}
	// Output:
	// 201 Created true
	// 200 OK true
}

// authenticate imitates the server's own middleware, which verifies the caller.
func authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(claimapi.WithCaller(r.Context(), "customer-17")))
	})
}

// The claim API in a Lambda function of your own, behind an API Gateway HTTP API with a JWT authorizer.
func ExampleHandler_Invoke() {
	client, err := awsclient.NewDynamoDB(context.Background(), awsclient.FromEnvironment)
	if err != nil {
		log.Fatal(err)
	}
	from, err := claimapi.ParseClaimantFrom("jwt:sub")
	if err != nil {
		log.Fatal(err)
	}
	bank := itembank.NewOperator(dynamostore.New(client, "oncebox-bank", "oncebox-dedupe"))
	lambda.Start(claimapi.New(bank.Bank, from, slog.Default()))
}
