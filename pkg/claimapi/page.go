package claimapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/oncebox/oncebox/pkg/claimpage"
	"github.com/oncebox/oncebox/pkg/itembank"
)

const pagePath = "/c/" + campaignParam

// pageRoutes are the claim page and its files.
var pageRoutes = []route{
	{http.MethodGet, pagePath, (*Handler).page},
	{http.MethodGet, pagePath + "/", (*Handler).withoutSlash},
	{http.MethodGet, pagePath + "/{file}", (*Handler).page},
}

// WithPage serves the claim page of package claimpage at /c/{campaign}, with its files below it. The Handler and browsers
// may use a copy of a page for the duration cache.
func WithPage(cache time.Duration) Option {
	return func(h *Handler) {
		h.routes = slices.Concat(routes, pageRoutes)
		h.pages.life = cache
	}
}

// pages are copies of the pages of campaigns. There is at most one for each campaign.
type pages struct {
	life time.Duration

	mu     sync.Mutex
	copies map[string]pageCopy // by campaign
}

type pageCopy struct {
	page  claimpage.Page
	until time.Time
}

func (p *pages) get(campaign string, now time.Time) (claimpage.Page, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.copies[campaign]
	return c.page, now.Before(c.until)
}

func (p *pages) put(campaign string, page claimpage.Page, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.copies == nil {
		p.copies = map[string]pageCopy{}
	}
	p.copies[campaign] = pageCopy{page, now.Add(p.life)}
}

// page answers GET /c/{campaign} and GET /c/{campaign}/{file}, for any caller: the page is the same for every
// visitor.
func (h *Handler) page(ctx context.Context, c *call) (reply, error) {
	page, err := h.pageOf(ctx, c.campaign)
	switch {
	case c.named == "" && (errors.Is(err, itembank.ErrNoCampaign) || errors.Is(err, itembank.ErrInvalid)):
		return noCampaign(c.event.Headers.AcceptLanguage), nil
	case err != nil:
		return reply{}, err
	}
	file, ok := page.Asset(c.named, claimpage.Site{
		Campaign: c.campaign, Languages: c.event.Headers.AcceptLanguage, Tokens: h.from.source != fromBody,
		Challenge: h.challenge.onPage(),
	})
	if !ok {
		return reply{}, errNoRoute
	}
	file.Headers["Cache-Control"] = "public, max-age=" + strconv.Itoa(int(h.pages.life.Seconds()))
	return reply{status: http.StatusOK, headers: file.Headers, file: file.Body}, nil
}

// withoutSlash sends a visitor who typed a slash behind the campaign to the page, whose files are relative to its path.
// The browser keeps the token, which is behind #.
func (h *Handler) withoutSlash(_ context.Context, c *call) (reply, error) {
	location := "../" + url.PathEscape(c.campaign)
	if query := c.event.RawQueryString; query != "" {
		location += "?" + query
	}
	return reply{status: http.StatusPermanentRedirect, headers: map[string]string{"Location": location}}, nil
}

// noCampaign answers a visitor, who has no use for JSON. No cache keeps the answer: the campaign may come.
func noCampaign(languages string) reply {
	file := claimpage.NoCampaign(languages)
	file.Headers["Cache-Control"] = "no-store"
	p := problemOf(itembank.ErrNoCampaign)
	return reply{status: p.status, headers: file.Headers, file: file.Body, slug: p.slug}
}

func (h *Handler) pageOf(ctx context.Context, campaign string) (claimpage.Page, error) {
	now := h.now()
	if page, ok := h.pages.get(campaign, now); ok {
		return page, nil
	}
	document, err := h.bank.PageDocument(ctx, campaign)
	if err != nil {
		return claimpage.Page{}, err
	}
	page, err := claimpage.Parse(document)
	if err != nil {
		return claimpage.Page{}, fmt.Errorf("campaign %s: %w", campaign, err)
	}
	h.pages.put(campaign, page, now)
	return page, nil
}
