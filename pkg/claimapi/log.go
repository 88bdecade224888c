package claimapi

import (
	"context"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/oncebox/oncebox/internal/aws/emf"
	"github.com/oncebox/oncebox/internal/aws/requestid"
	"github.com/oncebox/oncebox/pkg/itembank"
)

// report writes the log line of a request. It has the text of an error only if the operator may have to act: for a
// fault of the server, and for an identity that the settings do not accept. For other faults of clients, the slug is
// enough.
func (h *Handler) report(ctx context.Context, c *call, r reply, err error, took time.Duration) {
	level := slog.LevelInfo
	attrs := []slog.Attr{
		slog.String("method", c.event.RequestContext.HTTP.Method),
		slog.String("route", c.route.name()),
		slog.Int("status", r.status),
		slog.String("slug", r.slug),
		slog.String(requestid.Key, c.id),
		slog.String("campaign", c.validCampaign()),
		slog.Bool("replayed", r.replayed),
		slog.Float64("duration_ms", emf.Milli(took)),
	}
	if r.status >= http.StatusInternalServerError {
		level = slog.LevelError
	}
	if r.status >= http.StatusInternalServerError || r.status == http.StatusUnauthorized {
		attrs = append(attrs, slog.String("error", c.maskClaimant(err.Error())))
	}
	if r.slug == slugTryAgain {
		level = slog.LevelWarn
	}
	if c.stack != nil {
		attrs = append(attrs, slog.String("stack", string(c.stack))) // it contains addresses, but no texts
	}
	h.metrics.Log(ctx, h.log, level, "request", attrs, h.numbers(c, r, took))
}

// refuse writes the log line of an event that is not a request, and returns the error of the invocation.
func (h *Handler) refuse(ctx context.Context, why string) error {
	h.log.LogAttrs(ctx, slog.LevelError, "request", slog.String(requestid.Key, requestid.Of(ctx)),
		slog.String("error", ErrNotHTTP.Error()+": "+why))
	return ErrNotHTTP
}

// validCampaign returns the campaign if its name is valid, because the path of a request may contain anything.
func (c *call) validCampaign() string {
	if itembank.ValidateName("campaign", c.campaign) != nil {
		return ""
	}
	return c.campaign
}

// maskClaimant replaces the claimant in the text of an error, plain or quoted, in the spelling of the request and in
// the spelling of the Bank. The engines put no claimant into their errors, but a panic might. It replaces only whole
// words, so that a claimant of one letter does not damage the text.
func (c *call) maskClaimant(text string) string {
	if c.claimant == "" {
		return text
	}
	for _, spelling := range itembank.Spellings(c.claimant) {
		quoted := strconv.Quote(spelling)
		text = replaceWord(replaceWord(text, spelling), quoted[1:len(quoted)-1])
	}
	return text
}

// replaceWord replaces word by [claimant] where text has it as a whole word.
func replaceWord(text, word string) string {
	var out strings.Builder
	copied := 0
	for at := 0; ; {
		i := strings.Index(text[at:], word)
		if i < 0 {
			return out.String() + text[copied:]
		}
		begin := at + i
		if at = begin + len(word); isWord(text, begin, at) {
			out.WriteString(text[copied:begin] + "[claimant]")
			copied = at
		} else {
			at = begin + 1
		}
	}
}

// isWord reports whether text[begin:end] is not a part of a longer word: at neither end, letters or digits are on
// both sides.
func isWord(text string, begin, end int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:begin])
	first, _ := utf8.DecodeRuneInString(text[begin:end])
	last, _ := utf8.DecodeLastRuneInString(text[begin:end])
	after, _ := utf8.DecodeRuneInString(text[end:])
	inside := inWord(before) && inWord(first) || inWord(last) && inWord(after)
	return !inside
}

func inWord(r rune) bool {
	return r != utf8.RuneError && (r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r))
}
