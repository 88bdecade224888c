package claimapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/aws/aws-lambda-go/events"
)

// route is one request of the API.
type route struct {
	method string
	tail   string // what follows /campaigns/{campaign}
	serve  func(*Handler, context.Context, *call) (reply, error)
}

const (
	root          = "/campaigns/"
	claimsTail    = "/claims"
	claimantParam = "{claimant}"
)

// routes are all requests of the API.
var routes = []route{
	{http.MethodPost, claimsTail, (*Handler).claim},
	{http.MethodGet, claimsTail + "/" + claimantParam, (*Handler).heldClaim},
	{http.MethodGet, "", (*Handler).campaignState},
}

var errNoRoute = errors.New("claimapi: no such route")

var errMethod = errors.New("claimapi: method not allowed")

// methodError names the methods that the path has.
type methodError struct{ allowed []string }

func (e *methodError) Error() string { return errMethod.Error() }
func (e *methodError) Unwrap() error { return errMethod }

// name is the route as logs show it: never what the client put into it.
func (r route) name() string { return r.method + " " + root + "{campaign}" + r.tail }

// match reports whether the route has this tail. A claimant is the whole rest
// of the path: API Gateway has decoded it, so it may hold slashes.
func (r route) match(tail string) (claimant string, ok bool) {
	prefix, named := strings.CutSuffix(r.tail, claimantParam)
	if !named {
		return "", tail == r.tail
	}
	claimant, ok = strings.CutPrefix(tail, prefix)
	return claimant, ok && claimant != ""
}

// find fills in the call's route and what the path names. Errors: errNoRoute,
// *methodError.
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

// splitPath takes /campaigns/{campaign} from a path. The tail is empty or
// begins with a slash.
func splitPath(path string) (campaign, tail string, ok bool) {
	rest, ok := strings.CutPrefix(path, root)
	end := strings.IndexByte(rest, '/')
	if end < 0 {
		end = len(rest)
	}
	return rest[:end], rest[end:], ok && end > 0
}

// defaultStage is the stage that does not show in paths.
const defaultStage = "$default"

// stagePrefix is what API Gateway puts in front of the path: the stage's name,
// except for $default and behind a custom domain. The base path of a custom
// domain's mapping is not taken off: a handler that answers under any prefix
// could be reached by a route that its authorizer does not guard.
func stagePrefix(e events.APIGatewayV2HTTPRequest) string {
	stage := e.RequestContext.Stage
	prefix := "/" + stage
	if stage == "" || stage == defaultStage || !strings.HasPrefix(e.RawPath, prefix+"/") {
		return ""
	}
	return prefix
}
