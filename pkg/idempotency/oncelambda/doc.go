// Package oncelambda runs the handler of a Lambda function once for an Idempotency-Key, and gives its response to every
// later request with the key. [Event] does that for any event, and [SQS], [Kinesis] and [DynamoDB] for each message of a
// batch. The rest of this text is about the other wrappers, for handlers of API Gateway (payload formats 1.0 and 2.0), of
// Application Load Balancers and of function URLs. Package oncehttp documents keys, responses and problems, which are
// the same here: read it first.
//
// # Use
//
//	runner, err := idempotency.New(store, "payments", idempotency.Settings{LeaseUntilDeadline: true})
//	...
//	handler, err := oncelambda.APIGatewayV2(runner, customer, oncehttp.Settings{}, pay)
//	...
//	lambda.Start(handler)
//
//	// customer names the caller whose token API Gateway has verified.
//	func customer(_ context.Context, r events.APIGatewayV2HTTPRequest) (string, error) {
//		if a := r.RequestContext.Authorizer; a != nil && a.JWT != nil {
//			return a.JWT.Claims["sub"], nil
//		}
//		return "", nil // 401
//	}
//
//	func pay(ctx context.Context, r events.APIGatewayV2HTTPRequest) (events.APIGatewayV2HTTPResponse, error) {
//		execution, _ := oncehttp.ExecutionOf(ctx)
//		...
//	}
//
// Set LeaseUntilDeadline: Lambda stops a function at its deadline, so an execution cannot hold its key longer. After a
// crash the key is blocked until the deadline of the invocation that crashed.
//
// # Callers
//
// Take the name from what the source has verified, never from a header that a client can set:
//
//	source                caller
//	HTTP API, JWT         RequestContext.Authorizer.JWT.Claims["sub"]
//	HTTP API, IAM         RequestContext.Authorizer.IAM.UserARN
//	HTTP API, Lambda      a member of RequestContext.Authorizer.Lambda that your authorizer sets
//	REST API, Cognito     the claim "sub" of RequestContext.Authorizer["claims"]
//	REST API, IAM         RequestContext.Identity.UserArn
//	load balancer, OIDC   the header x-amzn-oidc-data, after your code has verified its signature
//	function URL, IAM     RequestContext.Authorizer.IAM.UserARN
//
// The ARN of an assumed role ends with the name of the session. A client that repeats a request in another session is
// another caller, and the handler runs again. If the sessions of a role are one caller, cut the name off.
//
// # Errors of the handler
//
// An error of the handler frees the key, and is the error of the invocation. With idempotency.Final it is the result of
// the key: every later invocation fails with its text.
//
// A response that the source cannot send is such a result, too: a status outside of 200 to 599, or a body that is marked
// as base64 and is not. The source answers 502. The handler has run, and does not run again for the key.
//
// An event that is not a request of the source is answered with [ErrNotHTTP], which fails the invocation. So records of
// a queue or a stream that invokes the function by mistake do not count as delivered.
//
// # Differences between the sources
//
//   - Two headers with keys: API Gateway with format 1.0, and load balancers with multi-value headers, send both, and
//     the request is refused. With format 2.0 and function URLs the values come with a comma between them, which is no
//     valid key. A load balancer without multi-value headers sends the last one only, so the first is not seen.
//   - Query: format 1.0 and load balancers send parameters instead of a text. Their order between names is not part of
//     the payload.
//   - Path: a REST API sends it without the stage. Give each stage its own table or namespace.
//   - CORS: let the source add the headers for browsers. If the handler adds them, name them in
//     oncehttp.Settings.Headers, because replays need them, too. Problems never have them.
//   - Body of a replay: in base64 if and only if it is not UTF-8. All sources decode it, but a REST API only for its
//     binary media types.
//   - Headers of a replay: several values of a header have a comma between them, except where the request has
//     multi-value headers.
//   - Streams: handlers that stream have response types of their own, which no wrapper takes.
//
// # Deadlines
//
// A request that waits for another one with its key is answered 503 try-again half a second before the deadline. The
// context of a handler ends earlier: when a tenth of the lease is left, at most 5 seconds. By default API Gateway waits
// for 29 seconds (REST API) or 30 seconds (HTTP API) at most. A function with a longer time-out goes on, and its client
// gets the response when it asks again.
//
// # Limits
//
// Lambda takes requests and responses of up to 6 MB, and of 1 MB from load balancers. oncehttp.Settings.MaxBody is
// checked after base64 is decoded.
//
// # Files
//
// handler.go has the wrappers of HTTP. format.go reads and writes the events of each source. event.go has Event,
// messages.go the wrappers of queues and streams, and jmespath.go the expressions.
package oncelambda
