package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/arn"
	"github.com/aws/aws-sdk-go-v2/service/apigatewayv2"
	"github.com/aws/aws-sdk-go-v2/service/apigatewayv2/types"
)

// Throttle is the limit of API Gateway for the route of claims. A member that is 0 has no limit of the stage.
type Throttle struct {
	Rate  float64 // requests a second
	Burst int32   // requests at once
}

// claimsRoute is the route of new claims.
const claimsRoute = "POST /campaigns/{campaign}/claims"

// httpAPI is an HTTP API whose routes lead to the claim function.
type httpAPI struct {
	id, address string
	closed      bool // its own address is turned off
	routes      []types.Route
	called      map[string]string // what the integrations invoke, by their targets in routes
	stage       types.Stage
}

// CheckAPI checks the HTTP APIs of the stack that lead to a claim function: the authorizers of their routes, their
// domains, and what a request without credentials gets. It returns the throttle of the route of claims. It returns false if
// it does not know the throttle.
func (c Account) CheckAPI(ctx context.Context, f Function) (t Throttle, known bool) {
	a := c.Report.Area("api")
	if c.Stack == nil {
		a.NotPlayed(f.title(), "doctor finds the API in a stack, and the function was named")
		return t, false
	}
	for _, id := range c.Stack.APIs {
		api, err := c.readAPI(ctx, id, f)
		if err != nil {
			a.NotRead("API "+id, c.Explain(err))
			continue
		}
		if len(api.called) == 0 {
			continue // it is another API of the stack
		}
		c.checkRoutes(ctx, a, api, f)
		for _, address := range c.addresses(ctx, a, api) {
			c.checkAddress(ctx, a, address, f)
		}
		t, known = api.throttle(), true
	}
	if !known {
		a.NotPlayed(f.title(), "doctor has seen no HTTP API of the stack that leads to the function")
	}
	return t, known
}

// readAPI reads an API. Its routes are those that lead to the function.
func (c Account) readAPI(ctx context.Context, id string, f Function) (api httpAPI, err error) {
	out, err := c.Gateway.GetApi(ctx, &apigatewayv2.GetApiInput{ApiId: &id})
	if err != nil {
		return api, err
	}
	api = httpAPI{
		id: id, address: aws.ToString(out.ApiEndpoint), closed: aws.ToBool(out.DisableExecuteApiEndpoint),
		called: map[string]string{},
	}
	for in := (&apigatewayv2.GetIntegrationsInput{ApiId: &id}); ; {
		page, err := c.Gateway.GetIntegrations(ctx, in)
		if err != nil {
			return api, err
		}
		for _, i := range page.Items {
			if called := calledBy(aws.ToString(i.IntegrationUri)); strings.Contains(called+":", ":function:"+f.Name+":") {
				api.called["integrations/"+aws.ToString(i.IntegrationId)] = called
			}
		}
		if in.NextToken = page.NextToken; in.NextToken == nil {
			break
		}
	}
	if len(api.called) == 0 {
		return api, nil
	}
	for in := (&apigatewayv2.GetRoutesInput{ApiId: &id}); ; {
		page, err := c.Gateway.GetRoutes(ctx, in)
		if err != nil {
			return api, err
		}
		for _, route := range page.Items {
			if api.called[aws.ToString(route.Target)] != "" {
				api.routes = append(api.routes, route)
			}
		}
		if in.NextToken = page.NextToken; in.NextToken == nil {
			break
		}
	}
	for in := (&apigatewayv2.GetStagesInput{ApiId: &id}); ; {
		page, err := c.Gateway.GetStages(ctx, in)
		if err != nil {
			return api, err
		}
		for _, s := range page.Items {
			if api.stage.StageName == nil || aws.ToString(s.StageName) == defaultStage {
				api.stage = s
			}
		}
		if in.NextToken = page.NextToken; in.NextToken == nil {
			return api, nil
		}
	}
}

// defaultStage is the stage at the root of an address.
const defaultStage = "$default"

// calledBy returns the ARN of the function, version or alias that an integration invokes. An integration names it by
// its ARN, or by the path of Lambda's API that has it.
func calledBy(uri string) string {
	if _, called, ok := strings.Cut(uri, "/functions/"); ok {
		return strings.TrimSuffix(called, "/invocations")
	}
	return uri
}

// authorization returns the authorizer that the routes of claims must have for the settings of the function.
func (f Function) authorization() types.AuthorizationType {
	switch source, _, _ := strings.Cut(f.Env["ONCEBOX_CLAIMANT_FROM"], ":"); {
	case source == "jwt":
		return types.AuthorizationTypeJwt
	case source == "link", f.open():
		return types.AuthorizationTypeNone
	}
	return types.AuthorizationTypeAwsIam
}

// open reports whether everybody may claim, by choice.
func (f Function) open() bool {
	return f.Env["ONCEBOX_CLAIMANT_FROM"] == "body" && f.Env["ONCEBOX_CALLER"] == "any"
}

// checkRoutes checks the authorizer of each route, and that the route invokes the alias and may do so. The routes of the
// claim page and of CORS have no authorizer: browsers ask for these before the visitor is known.
func (c Account) checkRoutes(ctx context.Context, a Area, api httpAPI, f Function) {
	name, settings := "routes of "+api.id, "ONCEBOX_CLAIMANT_FROM is "+f.Env["ONCEBOX_CLAIMANT_FROM"]
	if caller := f.Env["ONCEBOX_CALLER"]; caller != "" {
		settings += " and ONCEBOX_CALLER is " + caller
	}
	good := true
	if !slices.ContainsFunc(api.routes, leadsClaims) {
		a.Fail(name, "none of them is "+claimsRoute+": nobody can claim", "Deploy the stack again, or put the route back: a "+
			"deployment makes it only if its template changes.")
		good = false
	}
	self, _ := arn.Parse(f.Invoked) // an ARN of Lambda
	for _, route := range api.routes {
		key, want := aws.ToString(route.RouteKey), f.authorization()
		method, path, _ := strings.Cut(key, " ")
		if strings.HasPrefix(path, "/c/") || method == http.MethodOptions {
			want = types.AuthorizationTypeNone
		}
		if has := cmp.Or(route.AuthorizationType, types.AuthorizationTypeNone); has != want {
			a.Fail(name, fmt.Sprintf("%s has the authorizer %s and needs %s, since %s: %s", key, has, want, settings, without(want)),
				"Deploy the stack again, or set the authorizer of the route.")
			good = false
		}
		if called := api.called[aws.ToString(route.Target)]; called != f.Invoked {
			a.Fail(name, fmt.Sprintf("%s invokes %s and not %s: while a deployment changes the function, requests fail", key, called,
				f.Invoked), "Deploy the stack again, or change the integration to the alias.")
			good = false
			continue
		}
		source := fmt.Sprintf("arn:%s:execute-api:%s:%s:%s/%s/%s%s", self.Partition, self.Region, self.AccountID, api.id,
			aws.ToString(api.stage.StageName), method, path)
		allowed, err := c.mayInvoke(ctx, f, "apigateway.amazonaws.com", source)
		switch {
		case err != nil:
			a.NotRead("permission of "+name, c.Explain(err))
			return
		case !allowed:
			a.Fail(name, key+" may not invoke "+f.Invoked+": it answers 500", "Deploy the stack again, or add the permission with "+
				"`aws lambda add-permission`.")
			good = false
		}
	}
	if good {
		a.OK(name, fmt.Sprintf("all %d have the authorizers that the function needs (%s), and may invoke it", len(api.routes), settings))
	}
}

// leadsClaims reports whether a route leads new claims to the function.
func leadsClaims(route types.Route) bool {
	key := aws.ToString(route.RouteKey)
	return key == claimsRoute || key == "$default" || strings.HasPrefix(key, "ANY ")
}

// without says what happens without the authorizer that is needed.
func without(want types.AuthorizationType) string {
	if want == types.AuthorizationTypeNone {
		return "API Gateway refuses the callers of the function"
	}
	return "the function refuses every request, since nobody has verified its caller"
}

// addresses checks the domains of the stack that lead to an API, and returns all of its addresses.
func (c Account) addresses(ctx context.Context, a Area, api httpAPI) (all []string) {
	for _, domain := range c.Stack.Domains {
		mappings, err := c.mappingsOf(ctx, domain)
		if err != nil {
			a.NotRead("domain "+domain, c.Explain(err))
			continue
		}
		i := slices.IndexFunc(mappings, func(m types.ApiMapping) bool { return aws.ToString(m.ApiId) == api.id })
		if i < 0 {
			if !slices.ContainsFunc(mappings, func(m types.ApiMapping) bool {
				return slices.Contains(c.Stack.APIs, aws.ToString(m.ApiId))
			}) {
				a.Fail("domain "+domain, "has no mapping to the API "+api.id+": its callers get 403 or another API",
					"Deploy the stack again, or map the domain to the API.")
			}
			continue
		}
		if c.checkDomain(ctx, a, domain) {
			all = append(all, strings.TrimSuffix("https://"+domain+"/"+aws.ToString(mappings[i].ApiMappingKey), "/"))
		}
	}
	switch {
	case !api.closed:
		if len(all) > 0 {
			a.Info("endpoint of "+api.id, "the API also answers at "+api.address+
				"; claims.execute-api-endpoint off leaves only the domain")
		}
		stage := "/" + aws.ToString(api.stage.StageName)
		all = append(all, api.address+strings.TrimSuffix(stage, "/"+defaultStage))
	case len(all) == 0:
		a.NotPlayed("address of "+api.id, "its endpoint is off, and doctor has seen no domain of the stack that leads to it")
	}
	return all
}

// mappingsOf returns the mappings of a domain to APIs.
func (c Account) mappingsOf(ctx context.Context, domain string) (all []types.ApiMapping, err error) {
	for in := (&apigatewayv2.GetApiMappingsInput{DomainName: &domain}); ; {
		page, err := c.Gateway.GetApiMappings(ctx, in)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if in.NextToken = page.NextToken; in.NextToken == nil {
			return all, nil
		}
	}
}

// checkDomain checks the status of a domain and of its certificate. It reports whether the domain answers.
func (c Account) checkDomain(ctx context.Context, a Area, domain string) bool {
	out, err := c.Gateway.GetDomainName(ctx, &apigatewayv2.GetDomainNameInput{DomainName: &domain})
	if err != nil {
		a.NotRead("domain "+domain, c.Explain(err))
		return true
	}
	for _, d := range out.DomainNameConfigurations {
		switch d.DomainNameStatus {
		case types.DomainNameStatusAvailable:
		case types.DomainNameStatusUpdating:
			a.Warn("domain "+domain, "is UPDATING", "Run doctor again in a few minutes.")
			return true
		default:
			a.Fail("domain "+domain, strings.TrimSpace(fmt.Sprintf("is %s: %s", d.DomainNameStatus,
				aws.ToString(d.DomainNameStatusMessage))), "Renew or import its certificate "+aws.ToString(d.CertificateArn)+".")
			return false
		}
	}
	a.OK("domain "+domain, "is AVAILABLE, and mapped to the API")
	return true
}

// answerTime is how long an address may take to answer. An HTTP API waits 30 seconds for a function at most (API Gateway
// Developer Guide, "Quotas for configuring and running an HTTP API").
const answerTime = 35 * time.Second

// checkAddress sends one request without credentials, for a claim that does not exist. An authorizer refuses it with 401
// or 403, and so does a function that verifies links itself.
func (c Account) checkAddress(ctx context.Context, a Area, address string, f Function) {
	const check = "Check the settings of the API and its domain: docs/problems.md, unauthenticated."
	status, problem, err := c.get(ctx, address+"/campaigns/oncebox-doctor/claims/oncebox-doctor")
	detail := fmt.Sprintf("answers %d to a request without credentials", status)
	switch {
	case err != nil:
		a.Fail(address, "cannot be reached: "+reason(err), "Check the DNS record and the certificate of the name.")
	case status == http.StatusTooManyRequests:
		a.NotPlayed(address, detail+": the API is at its rate limit")
	case status >= http.StatusInternalServerError:
		a.Fail(address, detail+": the API or its function fails", "docs/operations.md, claim-server-errors.")
	case !problem && (status == http.StatusNotFound || status/100 == 3):
		a.Fail(address, detail+", and not as the function does: the address leads somewhere else", check)
	case f.open() && status != http.StatusUnauthorized && status != http.StatusForbidden:
		a.Info(address, detail+": everybody may claim, by choice (ONCEBOX_CALLER is any)")
	case f.open():
		a.Fail(address, detail+", though everybody may claim (ONCEBOX_CALLER is any)", check)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		a.OK(address, detail)
	default:
		a.Fail(address, detail+", and must answer 401 or 403: everybody may claim", check)
	}
}

// get sends a GET request and returns the status of the answer, and whether the answer is a problem as the function
// writes it. It follows no redirect.
func (c Account) get(ctx context.Context, url string) (status int, problem bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, false, err
	}
	response, err := c.HTTP.RoundTrip(request)
	if err != nil {
		return 0, false, err
	}
	_, _ = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20)) // the body does not matter
	_ = response.Body.Close()
	return response.StatusCode, strings.HasPrefix(response.Header.Get("Content-Type"), "application/problem+json"), nil
}

// reason returns the last error of a failed connection, such as "no such host".
func reason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer within " + answerTime.String()
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	return err.Error()
}

// throttle returns the limits of the route of claims: its own, or those of all routes of the stage.
func (api httpAPI) throttle() Throttle {
	limits := api.stage.DefaultRouteSettings
	if own := api.stage.RouteSettings[claimsRoute]; own.ThrottlingRateLimit != nil {
		limits = &own
	}
	if limits == nil {
		return Throttle{}
	}
	return Throttle{aws.ToFloat64(limits.ThrottlingRateLimit), aws.ToInt32(limits.ThrottlingBurstLimit)}
}
