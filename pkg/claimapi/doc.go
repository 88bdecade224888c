// Package claimapi is the HTTP API that hands out the items of campaigns. Each item goes to one claimant, and each
// claimant gets the same item on every request.
//
// A [Handler] answers events of an API Gateway HTTP API, and requests of net/http. The function in functions/claim
// and the command `oncebox local` use it.
//
// # In a Lambda function
//
//	bank := itembank.New(dynamostore.New(client, "oncebox-bank", "oncebox-dedupe"))
//	from, err := claimapi.ParseClaimantFrom("jwt:sub")
//	...
//	lambda.Start(claimapi.New(bank, from, slog.Default()))
//
// Package awsclient makes the client. ParseSettings reads the ONCEBOX_ variables of the function in functions/claim.
//
// # In a server
//
//	http.ListenAndServe("127.0.0.1:8080", claimapi.New(bank, claimapi.FromContext(), slog.Default()))
//
// Serve it at the root of a host: it has fixed paths, and the Location header repeats the path of the request.
//
// # Requests
//
//	POST /campaigns/{campaign}/claims             claim an item; the body is {"claimant":"..."}
//	GET  /campaigns/{campaign}/claims/{claimant}  look a claim up; "me" is the caller
//	GET  /campaigns/{campaign}                    the campaign's state: scheduled, open, closed, sold_out or empty
//	GET  /campaigns/{campaign}/items              the free items, of campaigns that publish them
//	GET  /openapi.json                            the OpenAPI document of this API: openapi.json in this folder
//
// And in campaigns with holds:
//
//	POST   /campaigns/{campaign}/claims/{claimant}/confirmation    confirm a hold; the body is {"claim_id":"..."}
//	POST   /campaigns/{campaign}/claims/{claimant}/prolongation    prolong a hold; {"claim_id":"...","ends_at":"..."}
//	DELETE /campaigns/{campaign}/claims/{claimant}?claim_id=...    release a hold
//
// And for back ends, with the ClaimantFrom body:
//
//	POST /campaigns/{campaign}/claims/{claimant}/replacement  give the claimant another item; the body is {"claim_id":"..."}
//
// And with WithPage, for browsers:
//
//	GET /c/{campaign}         the claim page
//	GET /c/{campaign}/{file}  its script, style sheet and logo
//
// A claim may have a slot, items and the solution of a challenge in its body. The other requests about a claim name
// the slot as ?slot=, and a confirmation, a prolongation and a replacement in their bodies. A body with another member is
// refused.
//
// Every answer except the page and its files is JSON. An error is application/problem+json (RFC 9457) with a fixed
// text; docs/problems.md explains each. The handler stops 0.5 s before the deadline of its context, so that it can
// answer 503.
//
// The families of errors of package itembank become these answers:
//
//	ErrInvalid       400
//	ErrRefused       404 (no such campaign, no claim) or 409, one problem for each member
//	ErrTryAgain      503, or 429 not-listed-yet, with Retry-After; the same request again is safe and useful
//	ErrInconsistent  500 inconsistent-claim: the operator has to repair rows; the same request again is safe and useless
//
// Any other error becomes 500 internal. The texts of errors go to the log, never to a client.
//
// # Claimants
//
// [ClaimantFrom] says who the claimant of a request is:
//
//	jwt:CLAIM      a claim of the token that API Gateway verified; jwt:email also needs its claim email_verified
//	iam            the identity that signed the request: of a Cognito identity pool, or the ARN of an IAM user
//	iam:session    the same; a session of an IAM role is a claimant by its own ARN
//	iam:role       the same; all sessions of an IAM role are one claimant, by the ARN without the session
//	link           the claimant of a personal link: a token of package claimlink in the header Authorization: Bearer
//	body           the claimant that the body or the path names; for back ends that call on behalf of claimants.
//	               An event needs the IAM identity of its caller, unless WithAnyCaller says otherwise.
//	FromContext()  the claimant that a middleware of your server verified and put into the context with WithCaller
//
// With every source except body, a request may name only its own claimant. A request without an identity is answered
// 401. So is a session of an IAM role with iam, because many customers may share its ARN. A link that is not valid or
// has expired is answered 401, and a link for another campaign 403. WithLinkKeys sets the public keys of links.
//
// # Log
//
// Each request writes one line with the message "request": method, route, status, slug of the problem, request id,
// campaign, duration. The line never contains a claimant, an item or a token. Its level is warn for 503, error for
// 500, and info otherwise. For 401, 500 and 503 the line has the text of the error.
//
// # Life of a request
//
//  1. Invoke decodes the event. Handle and ServeHTTP make an event from their request. Handler.answer sets a deadline
//     and catches panics.
//  2. call.find finds the route from the method and the path.
//  3. Handler.caller finds the caller, or refuses it. The claimant that the request names is in the body or in the path. claimantOf
//     decides whether the caller may name that claimant. All checks are made before the bank is called.
//  4. itembank.Bank answers.
//  5. granted or stateOf makes the reply. refusal makes the reply to an error, from one table of errors and problems.
//  6. report writes the log line.
//
// API Gateway percent-decodes rawPath in events of payload format 2.0 (seen in live events: honojs/hono issue 2156,
// middleapi/standard-server pull request 93), so this package does not decode it again. If you make events yourself,
// put the decoded path into them. Lambda function URLs do not decode the path; they are not supported.
package claimapi
