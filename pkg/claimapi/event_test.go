package claimapi

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/aws/aws-lambda-go/events"
)

// TestEventIsThatOfTheLibrary: decoding an event gives the same values as events.APIGatewayV2HTTPRequest, for every
// event of events/claim and some that API Gateway does not send.
func TestEventIsThatOfTheLibrary(t *testing.T) {
	t.Parallel()
	texts := []string{
		`{}`, `null`, `{"version":null,"headers":null,"requestContext":null,"body":null,"isBase64Encoded":null}`,
		`{"headers":{"Content-Type":"a","x":"b"},"isBase64Encoded":true,"body":"\u00e9\ud83d\ude00","rawPath":"/\u002F"}`,
		`{"requestContext":{"authorizer":{"lambda":{"a":[1]},"jwt":{"claims":{"sub":"x"},"scopes":["a"]}}}}`,
	}
	files, err := filepath.Glob("../../events/claim/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts = append(texts, string(text))
	}
	for _, text := range texts {
		var request events.APIGatewayV2HTTPRequest
		if err := json.Unmarshal([]byte(text), &request); err != nil {
			t.Fatal(err)
		}
		var got event
		if err := json.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, eventOf(request)) {
			t.Errorf("%s\nwant %+v\ngot  %+v, %v", text, eventOf(request), got, err)
		}
	}
}
