package exchange

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"slices"

	"github.com/oncebox/oncebox/pkg/idempotency"
)

// alwaysStored are the headers without which a body cannot be read, or the result of a request cannot be found.
var alwaysStored = []string{"Content-Encoding", "Content-Language", "Content-Type", "Location"}

// neverStored are headers that no setting can have stored, and why.
var neverStored = map[string]string{
	"Set-Cookie":                "it gives a session to its reader",
	"Set-Cookie2":               "it gives a session to its reader",
	"Cookie":                    "it has credentials",
	"Authorization":             "it has credentials",
	"Proxy-Authorization":       "it has credentials",
	"Authentication-Info":       "it has credentials",
	"Proxy-Authentication-Info": "it has credentials",
	"Www-Authenticate":          "its challenge is for one request",
	"Proxy-Authenticate":        "its challenge is for one request",
	"Connection":                "it belongs to one connection",
	"Keep-Alive":                "it belongs to one connection",
	"Te":                        "it belongs to one connection",
	"Trailer":                   "it belongs to one connection",
	"Transfer-Encoding":         "it belongs to one connection",
	"Upgrade":                   "it belongs to one connection",
	"Content-Length":            "it is calculated from the body",
	"Date":                      "it is the time of one response",
	ReplayedHeader:              "it tells a replay",
	KeyHeader:                   "it is a header of requests",
}

// storedHeaders returns the names of all headers that are stored: alwaysStored, and the names of a setting.
func storedHeaders(names []string) ([]string, error) {
	stored := slices.Clone(alwaysStored)
	for _, name := range names {
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		why, never := neverStored[canonical]
		switch {
		case !isToken(name):
			return nil, &idempotency.InvalidError{Field: "Headers", Detail: fmt.Sprintf("%q is not the name of a header", name)}
		case never:
			return nil, &idempotency.InvalidError{
				Field: "Headers", Detail: fmt.Sprintf("%q is never stored, because %s; remove it", name, why),
			}
		case !slices.Contains(stored, canonical):
			stored = append(stored, canonical)
		}
	}
	return stored, nil
}

// isToken reports whether a text is a token (RFC 9110, section 5.6.2), as the name of a header is.
func isToken(text string) bool {
	for _, c := range []byte(text) {
		isAlphanumeric := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !isAlphanumeric && !bytes.ContainsRune([]byte("!#$%&'*+-.^_`|~"), rune(c)) {
			return false
		}
	}
	return text != ""
}

// mediaType is the type of a stored response: the message of HTTP/1.1 (RFC 9112, section 10.1) without the headers that
// frame its body, which goes to the end.
const mediaType = "message/http"

// encode returns what the record keeps of a response.
func (x *Exchange) encode(r Response) idempotency.Result {
	var message bytes.Buffer
	fmt.Fprintf(&message, "HTTP/1.1 %03d %s\r\n", r.Status, http.StatusText(r.Status))
	kept := http.Header{}
	for _, name := range x.stored {
		for _, value := range r.Header.Values(name) {
			kept.Add(name, withoutControls(value))
		}
	}
	_ = kept.Write(&message) // a buffer takes everything
	message.WriteString("\r\n")
	message.Write(r.Body)
	return idempotency.Result{ContentType: mediaType, Body: message.Bytes()}
}

// withoutControls replaces bytes that no header may have: a message with them could not be read.
func withoutControls(value string) string {
	clean := []byte(value)
	for i, c := range clean {
		if c < ' ' && c != '\t' || c == 0x7f {
			clean[i] = ' '
		}
	}
	return string(clean)
}

// decode returns a stored response. The error belongs to idempotency.ErrResultUnreadable.
func decode(result idempotency.Result) (Response, error) {
	if result.ContentType != mediaType {
		return Response{}, fmt.Errorf("%w: it is not a response", idempotency.ErrResultUnreadable)
	}
	message := textproto.NewReader(bufio.NewReader(bytes.NewReader(result.Body)))
	line, err := message.ReadLine()
	var r Response
	if err == nil {
		_, err = fmt.Sscanf(line, "HTTP/1.1 %d", &r.Status)
	}
	if err == nil {
		var header textproto.MIMEHeader
		header, err = message.ReadMIMEHeader()
		r.Header = http.Header(header)
	}
	if err == nil {
		r.Body, err = io.ReadAll(message.R)
	}
	if err != nil {
		return Response{}, fmt.Errorf("%w: %w", idempotency.ErrResultUnreadable, err)
	}
	return r, nil
}
