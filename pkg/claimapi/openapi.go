package claimapi

import (
	"context"
	_ "embed" // the document
	"encoding/json"
	"net/http"
)

// document is the OpenAPI document of this API, formatted for people.
//
//go:embed openapi.json
var document []byte

// openAPI answers GET /openapi.json, for any caller, like campaignState. The encoder removes the white space.
func (h *Handler) openAPI(context.Context, *call) (reply, error) {
	return reply{status: http.StatusOK, headers: newHeaders("application/json"), body: json.RawMessage(document)}, nil
}
