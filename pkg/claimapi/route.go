package claimapi

import (
	"context"
	"errors"
	"net/http"
	"strings"
)

// route is one kind of request.
type route struct {
	method string
	path   string // may have the parameter {campaign}, and after it {claimant} or {file}
	serve  func(*Handler, context.Context, *call) (reply, error)
}

const (
	campaignParam = "{campaign}"
	claimantParam = "{claimant}"

	campaignPath = "/campaigns/" + campaignParam
	claimsPath   = campaignPath + "/claims"
	claimPath    = claimsPath + "/" + claimantParam
	documentPath = "/openapi.json"
)

// The ends of the paths of a confirmation and of a prolongation.
const (
	confirmationPart = "/confirmation"
	prolongationPart = "/prolongation"
)

// routes lists all kinds of requests, except those for the page. openapi.json describes the same ones. If a path
// matches several routes, the path of the first one counts: a claimant may contain slashes.
var routes = []route{
	{http.MethodPost, claimsPath, (*Handler).claim},
	{http.MethodPost, claimPath + confirmationPart, (*Handler).confirmation},
	{http.MethodPost, claimPath + prolongationPart, (*Handler).prolongation},
	{http.MethodPost, claimPath + replacementPart, (*Handler).replacement},
	{http.MethodGet, claimPath, (*Handler).heldClaim},
	{http.MethodDelete, claimPath, (*Handler).releaseHold},
	{http.MethodGet, campaignPath + "/items", (*Handler).freeItems},
	{http.MethodGet, campaignPath, (*Handler).campaignState},
	{http.MethodGet, documentPath, (*Handler).openAPI},
}

// name returns the route for logs. It contains no text from the client.
func (r route) name() string {
	if r.path == "" {
		return "" // no route was found
	}
	return r.method + " " + r.path
}

var errNoRoute = errors.New("claimapi: no such route")

var errMethod = errors.New("claimapi: method not allowed")

// methodError has the methods that the path supports.
type methodError struct{ allowed []string }

func (e *methodError) Error() string { return errMethod.Error() }
func (e *methodError) Unwrap() error { return errMethod }

// match reports whether a path belongs to the route. The campaign ends at the next slash. The claimant is the rest of
// the path: the path is decoded, so a claimant may contain slashes.
func (r route) match(path string) (campaign, named string, ok bool) {
	root, tail, has := strings.Cut(r.path, campaignParam)
	if !has {
		return "", "", path == r.path
	}
	rest, ok := strings.CutPrefix(path, root)
	end := strings.IndexByte(rest, '/')
	if end < 0 {
		end = len(rest)
	}
	named, matches := matchTail(tail, rest[end:])
	return rest[:end], named, ok && end > 0 && matches
}

// matchTail compares the parts after the campaign in a route and in a path.
func matchTail(tail, path string) (named string, ok bool) {
	before, parameter, _ := strings.Cut(tail, "{")
	_, after, has := strings.Cut(parameter, "}")
	if !has {
		return "", path == tail
	}
	named, begins := strings.CutPrefix(path, before)
	named, ends := strings.CutSuffix(named, after)
	return named, begins && ends && named != ""
}

// find sets the call's route, its campaign, and the claimant or file in the path. Errors: errNoRoute, *methodError.
func (c *call) find(routes []route) error {
	path := strings.TrimPrefix(c.event.RawPath, stagePrefix(c.event))
	first, allowed := "", []string(nil)
	for _, r := range routes {
		campaign, named, ok := r.match(path)
		if !ok || first != "" && r.path != first {
			continue
		}
		if r.method == c.event.RequestContext.HTTP.Method {
			c.route, c.campaign, c.named = r, campaign, named
			return nil
		}
		first, allowed = r.path, append(allowed, r.method)
		if r.method == http.MethodGet && c.event.served {
			allowed = append(allowed, http.MethodHead)
		}
	}
	if allowed == nil {
		return errNoRoute
	}
	return &methodError{allowed}
}

// defaultStage is the stage whose name is not in the path.
const defaultStage = "$default"

// stagePrefix returns the part that API Gateway puts before the path: the name of the stage, unless it is $default or
// the request came by a custom domain. The base path of a custom domain's mapping is not removed: if the handler
// answered under any prefix, a route without an authorizer could reach it.
func stagePrefix(e event) string {
	stage := e.RequestContext.Stage
	prefix := "/" + stage
	if stage == "" || stage == defaultStage || !strings.HasPrefix(e.RawPath, prefix+"/") {
		return ""
	}
	return prefix
}
