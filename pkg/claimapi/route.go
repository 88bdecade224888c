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
	tail   string // what follows /campaigns/{campaign}
	name   string // in logs; it holds no text from the client
	serve  func(*Handler, context.Context, *call) (reply, error)
}

func newRoute(method, tail string, serve func(*Handler, context.Context, *call) (reply, error)) route {
	return route{method, tail, method + " " + root + "{campaign}" + tail, serve}
}

const (
	root          = "/campaigns/"
	claimsTail    = "/claims"
	claimantParam = "{claimant}"
)

// routes lists all kinds of requests.
var routes = []route{
	newRoute(http.MethodPost, claimsTail, (*Handler).claim),
	newRoute(http.MethodGet, claimsTail+"/"+claimantParam, (*Handler).heldClaim),
	newRoute(http.MethodDelete, claimsTail+"/"+claimantParam, (*Handler).releaseHold),
	newRoute(http.MethodPost, claimsTail+"/"+claimantParam+"/confirmation", (*Handler).confirmation),
	newRoute(http.MethodGet, "", (*Handler).campaignState),
}

var errNoRoute = errors.New("claimapi: no such route")

var errMethod = errors.New("claimapi: method not allowed")

// methodError holds the methods that the path supports.
type methodError struct{ allowed []string }

func (e *methodError) Error() string { return errMethod.Error() }
func (e *methodError) Unwrap() error { return errMethod }

// match reports whether the tail of a path is that of the route. A claimant is all that the route leaves of the path: the
// path is decoded, so a claimant may contain slashes.
func (r route) match(tail string) (claimant string, ok bool) {
	before, after, named := strings.Cut(r.tail, claimantParam)
	if !named {
		return "", tail == r.tail
	}
	claimant, begins := strings.CutPrefix(tail, before)
	claimant, ends := strings.CutSuffix(claimant, after)
	return claimant, begins && ends && claimant != ""
}

// find sets the call's route, campaign and named claimant. Errors: errNoRoute, *methodError.
func (c *call) find() error {
	campaign, tail, ok := splitPath(strings.TrimPrefix(c.event.RawPath, stagePrefix(c.event)))
	if !ok {
		return errNoRoute
	}
	var allowed []string
	for _, r := range routes {
		claimant, ok := r.match(tail)
		if ok && r.method == c.event.RequestContext.HTTP.Method {
			c.route, c.campaign, c.named = r, campaign, claimant
			return nil
		}
		if ok {
			allowed = append(allowed, r.method)
		}
	}
	if allowed == nil {
		return errNoRoute
	}
	return &methodError{allowed}
}

// splitPath splits a path into /campaigns/{campaign} and its tail, which is empty or begins with a slash.
func splitPath(path string) (campaign, tail string, ok bool) {
	rest, ok := strings.CutPrefix(path, root)
	end := strings.IndexByte(rest, '/')
	if end < 0 {
		end = len(rest)
	}
	return rest[:end], rest[end:], ok && end > 0
}

// defaultStage is the stage whose name is not in the path.
const defaultStage = "$default"

// stagePrefix returns what API Gateway puts before the path: the name of the stage, except for $default and behind a
// custom domain. The base path of a custom domain's mapping is not removed: if the handler answered under any prefix, a
// route without authorizer could reach it.
func stagePrefix(e event) string {
	stage := e.RequestContext.Stage
	prefix := "/" + stage
	if stage == "" || stage == defaultStage || !strings.HasPrefix(e.RawPath, prefix+"/") {
		return ""
	}
	return prefix
}
