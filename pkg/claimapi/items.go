package claimapi

import (
	"context"
	"net/http"
	"strconv"

	"github.com/oncebox/oncebox/pkg/itembank"
)

// usualItems is the number of items in a page if the query has no limit.
const usualItems = 100

// itemsCache lets browsers and proxies keep a page of items for a second. An item of a page may be taken at any moment in
// any case.
const itemsCache = "public, max-age=1"

// itemsBody is a page of free items as clients get it.
type itemsBody struct {
	Campaign string     `json:"campaign"`
	Items    []ItemBody `json:"items"`
	Next     string     `json:"next,omitempty"` // the cursor of the next page; absent: there is none
}

// freeItems answers GET /campaigns/{campaign}/items, for any caller, like campaignState.
func (h *Handler) freeItems(ctx context.Context, c *call) (reply, error) {
	cursor, err := inQuery(c.event, "cursor")
	if err != nil {
		return reply{}, err
	}
	limit, err := limitInQuery(c.event)
	if err != nil {
		return reply{}, err
	}
	page, err := h.bank.PublishedItems(ctx, c.campaign, cursor, limit)
	if err != nil {
		return reply{}, err
	}
	body := itemsBody{Campaign: c.campaign, Items: []ItemBody{}, Next: page.Next}
	for _, item := range page.Items {
		body.Items = append(body.Items, ItemBody(item))
	}
	headers := newHeaders("application/json")
	headers["Cache-Control"] = itemsCache
	return reply{status: http.StatusOK, headers: headers, body: body}, nil
}

func limitInQuery(e event) (int, error) {
	text, err := inQuery(e, "limit")
	if err != nil || text == "" {
		return usualItems, err
	}
	limit, err := strconv.Atoi(text)
	if err != nil || limit < 1 || limit > itembank.MaxItemPage {
		return 0, badMember("limit", "is not a whole number from 1 to "+strconv.Itoa(itembank.MaxItemPage))
	}
	return limit, nil
}
