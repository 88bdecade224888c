// Package oncehttp is a middleware of net/http that runs a handler once for an Idempotency-Key, and gives its response
// to every later request with the key. It follows the IETF draft of the header, revision 07
// (draft-ietf-httpapi-idempotency-key-header). Package oncelambda does the same for events of AWS Lambda.
//
// A client that got no response cannot know whether its payment was made. It sends the same request with the same key
// again, as often as it likes, and the payment is made once.
//
// # Use
//
//	runner, err := idempotency.New(store, "payments", idempotency.Settings{})
//	...
//	once, err := oncehttp.New(runner, customer, oncehttp.Settings{})
//	...
//	mux.Handle("POST /payments", authenticate(once.Wrap(http.HandlerFunc(pay))))
//
//	// customer names the caller whom authenticate has put into the context.
//	func customer(r *http.Request) (string, error) { return session.Of(r.Context()).CustomerID, nil }
//
//	func pay(w http.ResponseWriter, r *http.Request) {
//		execution, _ := oncehttp.ExecutionOf(r.Context())
//		charge, err := bank.Charge(r.Context(), amount, execution.KeyFor("charge"))
//		...
//	}
//
// What a crash can still do is in package idempotency: an effect outside of the store can happen twice. So give what
// the handler calls a key of its own, as above.
//
// # Order of handlers
//
// Handlers that authenticate, limit the rate or write access logs come first: they see every request, also replays.
// The headers that they set go to every client, and the handler sees them. They are not stored.
//
// Handlers that read the body or compress responses come after the Middleware. A request whose body was read before is
// answered 500, because its payload could not be compared. The Middleware knows that from the Content-Length or from
// the parsed form. It cannot know it of another body without a Content-Length: such requests would all have the same
// payload.
//
// http.TimeoutHandler comes first, too: its client gets 503, and the handler keeps its key while it goes on. Behind the
// Middleware its 503 would free the key while the handler goes on, and the next request would run a second one beside
// it. The same is true of every handler that answers before its work has ended.
//
// Wrap a handler once. If the same Middleware wraps it twice, its requests are answered 500.
//
// # Keys
//
// GET, HEAD, OPTIONS and TRACE change nothing, so their requests go to the handler as they are. All other requests need
// the header:
//
//	Idempotency-Key: "8e03978e-40d5-43e8-bc93-6894a57f9324"
//
// The value is a string of a structured field without parameters, 1 to 255 characters long. The same text without
// quotes, as clients of Stripe send it, is the same key. Two headers are refused, also if they are the same.
//
// A key belongs to its caller, whom the function that New gets names. The record has the caller and the key in its name
// ([KeyOf]); a long name is hashed. The payload is the hash of the method, the path, the query and the body, as the
// Middleware gets them: after http.StripPrefix, two APIs can have the same path. The host and the headers of the
// request are no part of it. Give each API a Runner with its own namespace.
//
// # Responses
//
// The status, the body, and the headers Content-Type, Content-Encoding, Content-Language and Location are stored, with
// the headers in Settings.Headers. Every replay has them, and Idempotency-Replayed: true. All other headers, such as
// Set-Cookie, go to the first client only. Credentials cannot be stored: New refuses their headers.
//
// A response with the status 408, 409, 423, 425, 429 or 5xx is a failure, not a result: it frees the key, and the next
// request runs the handler again. All other statuses are results, so a client that repeats a request gets the same 404
// or 422 within the window of the Runner. A panic frees the key, too, and goes on to the server.
//
// The handler gets a ResponseWriter that keeps the response until it is stored. It cannot flush, hijack, push or set
// deadlines: the type assertions fail, and the methods of http.ResponseController return http.ErrNotSupported.
// Trailers and informational responses are not sent. A request whose response must be a stream is answered 501 before
// the handler runs: it accepts only text/event-stream, asks for a WebSocket, or has the method CONNECT.
//
// # Contexts
//
// The context of a handler does not end when the client goes away: the handler may have charged a card, and the client
// will ask again. It ends at the deadline of the request's context, if a handler before has set one, and before the
// lease of the key is over. A request that waits for another one with its key ends with its client.
//
// By default such a request waits until it gets the response of the other one. With idempotency.Settings.DoNotWait it
// is answered 409 at once.
//
// # Problems
//
// A request that is refused gets application/problem+json (RFC 9457) with a fixed text, and the handler does not run.
// docs/idempotency-problems.md explains each problem.
//
//	status  type               when
//	400     key-missing        the header is missing (unless Settings.KeyOptional)
//	400     key-invalid        the header is not one valid key
//	400     body-cut           the client did not send its whole body
//	401     unauthenticated    the caller is ""; an earlier handler sends WWW-Authenticate
//	409     in-progress        another request with the key runs, with DoNotWait; Retry-After: 1 to 5 seconds
//	413     body-too-large     the body is larger than Settings.MaxBody
//	422     key-reused         idempotency.ErrOtherPayload
//	500     result-not-stored  idempotency.ErrResultNotStored: the handler has run, and its response was too large
//	500     result-unreadable  idempotency.ErrResultUnreadable: another program has written the record
//	500     internal           any other error: of the function that names callers, of a handler that read the body, of
//	                           effects that the store refuses (Execution.Commit)
//	501     no-stream          the response would be a stream or a connection
//	503     outcome-unknown    idempotency.ErrOutcomeUnknown, ErrLeaseLost: the handler has run; Retry-After
//	503     try-again          any other idempotency.ErrTryAgain, or the context ended; Retry-After
//
// The first client gets a response that is too large to be stored. Only later ones get result-not-stored. It is a 500,
// because the server is at fault, and because the operator should see it.
//
// # Log
//
// Each refused request writes a line with the message "idempotency": method, status, slug of the problem, request id.
// The level is warn for 503, error for 500, and info otherwise. For 500 and 503 the line has the text of the error. The
// line never has the path, the key or the body. It has the caller only if the error of the function that names callers
// has it.
//
// # Limits
//
//   - A body: Settings.MaxBody. It is checked before the handler runs. The whole body is in memory.
//   - A response: the MaxResult of the engine, with its stored headers. Its size is known only after the handler has
//     run, so only the first client gets a larger one. The whole response is in memory.
//
// # Not promised
//
//   - That the handler runs at most once. See "What a crash can still do" in package idempotency.
//   - Anything about requests without a key, with KeyOptional.
//
// # Files
//
// Wrap in middleware.go reads a request and sends its response. recorder.go keeps the response of a handler. The rules
// are in package internal/exchange, which package oncelambda has, too.
package oncehttp
