package claimapi

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/oncebox/oncebox/internal/shared/problemjson"
	"github.com/oncebox/oncebox/pkg/claimlink"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// problemDocs is the page that explains every problem, under the heading of its slug.
const problemDocs = problemjson.Docs + "problems.md#"

// problem is the part of an error that a client gets. The texts are fixed, so that nothing from the error can leak.
type problem struct {
	causes []error // matched by errors.Is
	status int
	slug   string
	title  string
	detail string
}

// problems maps errors to answers. The first match counts. An error without a match becomes internal.
var problems = []problem{
	{
		causes: []error{itembank.ErrInvalid},
		status: http.StatusBadRequest, slug: "invalid-request", title: "Invalid request",
		detail: "The request is not valid. Nothing was changed. The member errors says what to correct.",
	},
	{
		causes: []error{errUnauthenticated},
		status: http.StatusUnauthorized, slug: "unauthenticated", title: "Not authenticated",
		detail: "The request has no identity that can be a claimant. Credentials are missing, or do not name a customer.",
	},
	{
		causes: []error{claimlink.ErrInvalid},
		status: http.StatusUnauthorized, slug: "invalid-link", title: "Invalid link",
		detail: "The link is not valid. It was cut off or changed, or its key does not count any more.",
	},
	{
		causes: []error{claimlink.ErrExpired},
		status: http.StatusUnauthorized, slug: "link-expired", title: "Link expired",
		detail: "The link has expired.",
	},
	{
		causes: []error{errOtherCampaign},
		status: http.StatusForbidden, slug: "other-campaign", title: "Other campaign",
		detail: "The link is for another campaign.",
	},
	{
		causes: []error{errNotYours},
		status: http.StatusForbidden, slug: "not-your-claim", title: "Not your claim",
		detail: "The request names a claimant other than the caller.",
	},
	{
		causes: []error{errMayNotConfirm},
		status: http.StatusForbidden, slug: "may-not-confirm", title: "May not confirm",
		detail: "Claimants may not confirm their own holds here. A back end does it for them.",
	},
	{
		causes: []error{errMayNotReplace},
		status: http.StatusForbidden, slug: "may-not-replace", title: "May not replace",
		detail: "Claimants may not replace their items. A back end or an operator does it for them.",
	},
	{
		causes: []error{itembank.ErrNotEligible},
		status: http.StatusForbidden, slug: "not-eligible", title: "Not eligible",
		detail: "The claimant gets no item here. Repeating the request does not help.",
	},
	{
		causes: []error{errChallenge},
		status: http.StatusForbidden, slug: "challenge-failed", title: "Challenge failed",
		detail: "The member challenge of the body is missing, or is not a right solution of the challenge that counts now.",
	},
	{
		causes: []error{errChallengeUnavailable},
		status: http.StatusServiceUnavailable, slug: "challenge-unavailable", title: "Challenge unavailable",
		detail: "The solution of the challenge could not be checked. Nothing was claimed. Send the request again with a new " +
			"solution.",
	},
	{
		causes: []error{errNoRoute},
		status: http.StatusNotFound, slug: "no-such-route", title: "No such route",
		detail: "The API has nothing at this path.",
	},
	{
		causes: []error{itembank.ErrNoCampaign},
		status: http.StatusNotFound, slug: "no-such-campaign", title: "No such campaign",
		detail: "There is no campaign of this name.",
	},
	{
		causes: []error{itembank.ErrNotPublished},
		status: http.StatusNotFound, slug: "not-published", title: "Not published",
		detail: "The campaign does not publish its items.",
	},
	{
		causes: []error{itembank.ErrNoClaim},
		status: http.StatusNotFound, slug: "no-claim", title: "No claim",
		detail: "The claimant holds no item of this campaign, or one whose claim is over.",
	},
	{
		causes: []error{errMethod},
		status: http.StatusMethodNotAllowed, slug: "method-not-allowed", title: "Method not allowed",
		detail: "The path does not support this method. The Allow header lists the methods that it supports.",
	},
	{
		causes: []error{itembank.ErrSoldOut},
		status: http.StatusConflict, slug: slugSoldOut, title: "Sold out",
		detail: "The campaign has no item left. A claimant who holds one keeps it.",
	},
	{
		causes: []error{itembank.ErrItemTaken},
		status: http.StatusConflict, slug: "item-taken", title: "Item taken",
		detail: "The request names an item that is not free. Nothing was claimed.",
	},
	{
		causes: []error{itembank.ErrNotOpen},
		status: http.StatusConflict, slug: "not-open", title: "Not open yet",
		detail: "The campaign has not opened yet.",
	},
	{
		causes: []error{itembank.ErrClosed},
		status: http.StatusConflict, slug: "closed", title: "Closed",
		detail: "The campaign is closed. A claimant who holds an item of this campaign keeps it.",
	},
	{
		causes: []error{itembank.ErrClaimEnded},
		status: http.StatusConflict, slug: "claim-ended", title: "Claim ended",
		detail: "The claim with this id was released or replaced, or has ended. The claimant holds another one.",
	},
	{
		causes: []error{itembank.ErrConfirmed},
		status: http.StatusConflict, slug: "claim-confirmed", title: "Claim confirmed",
		detail: "The claim is confirmed. Only an operator can release it.",
	},
	{
		causes: []error{itembank.ErrClaimedElsewhere},
		status: http.StatusConflict, slug: "claimed-elsewhere", title: "Claimed elsewhere",
		detail: "The claimant holds an item of another campaign in the same scope. The member campaign names it.",
	},
	{
		causes: []error{errTooLarge},
		status: http.StatusRequestEntityTooLarge, slug: "body-too-large", title: "Body too large",
		detail: "The body of the request is larger than 16 KiB.",
	},
	{
		causes: []error{errNotJSON},
		status: http.StatusUnsupportedMediaType, slug: "not-json", title: "Not JSON",
		detail: "The body of the request must have the content type application/json.",
	},
	{
		causes: []error{errOtherHost},
		status: http.StatusMisdirectedRequest, slug: "other-host", title: "Other host",
		detail: "The server does not answer requests for this host. Nothing was changed.",
	},
	{
		causes: []error{itembank.ErrInconsistent},
		status: http.StatusInternalServerError, slug: "inconsistent-claim", title: "Inconsistent claim",
		detail: "The stored rows of the claimant's claim contradict each other. Repeating the request does not help: " +
			"the operator has to repair the rows. To report it, give the instance.",
	},
	{
		causes: []error{itembank.ErrNotListedYet},
		status: http.StatusTooManyRequests, slug: "not-listed-yet", title: "Not listed yet",
		detail: "The free items are read in parts, one a second, and the part at this cursor was not read yet. Send the request " +
			"again.",
	},
	{
		causes: []error{itembank.ErrMoved, itembank.ErrRestored},
		status: http.StatusServiceUnavailable, slug: "moved", title: "Moved",
		detail: "The campaign is being moved to another store. Nothing was changed. Repeating the request is safe.",
	},
	{
		// The time is nearly over, or the client has disconnected.
		causes: []error{itembank.ErrTryAgain, context.DeadlineExceeded, context.Canceled},
		status: http.StatusServiceUnavailable, slug: slugTryAgain, title: "Try again",
		detail: "The service is busy. Repeating the request is safe: the same claimant gets the same item.",
	},
}

const (
	slugSoldOut  = "sold-out"
	slugTryAgain = "try-again"
)

// internal answers every error that is not in the table.
var internal = problem{
	status: http.StatusInternalServerError, slug: "internal", title: "Internal error",
	detail: "Something is wrong on the server. Repeating the request is safe. To report it, give the instance.",
}

// problemBody is the body of the answer.
type problemBody struct {
	problemjson.Body

	Errors   []memberError `json:"errors,omitempty"`   // with invalid-request
	Campaign string        `json:"campaign,omitempty"` // with claimed-elsewhere
}

// memberError says what is wrong with one part of the request. Pointer is a JSON pointer into the body, or "" for the
// whole body. A parameter of the path is written like a member of the body.
type memberError struct {
	Pointer string `json:"pointer"`
	Detail  string `json:"detail"`
}

func problemOf(err error) problem {
	for _, p := range problems {
		for _, cause := range p.causes {
			if errors.Is(err, cause) {
				return p
			}
		}
	}
	return internal
}

// refusal returns the reply to an error.
func (h *Handler) refusal(err error, requestID string) reply {
	p := problemOf(err)
	body := problemBody{Body: problemjson.Body{
		Type: problemDocs + p.slug, Title: p.title, Status: p.status, Detail: p.detail, Instance: requestID,
	}}
	headers := newHeaders(problemjson.ContentType)
	if e, ok := errors.AsType[*itembank.InvalidError](err); ok && p.status == http.StatusBadRequest {
		body.Errors = []memberError{{pointer(e.Field), e.Detail}}
	}
	if e, ok := errors.AsType[*itembank.ClaimedElsewhereError](err); ok {
		body.Campaign = e.Campaign
	}
	if e, ok := errors.AsType[*methodError](err); ok {
		headers["Allow"] = strings.Join(e.allowed, ", ")
	}
	if challenge := h.from.challenge(err); challenge != "" && p.status == http.StatusUnauthorized {
		headers["WWW-Authenticate"] = challenge
	}
	if p.status == http.StatusServiceUnavailable || p.status == http.StatusTooManyRequests {
		headers["Retry-After"] = problemjson.RetryAfter(h.intN)
	}
	return reply{status: p.status, headers: headers, body: body, slug: p.slug}
}

func pointer(field string) string {
	if field == "" {
		return ""
	}
	return "/" + pointerEscapes.Replace(field)
}

// pointerEscapes escapes a member for a JSON pointer (RFC 6901, section 3).
var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")
