package exchange

import (
	"bytes"
	"errors"
	"net/http"
	"reflect"
	"testing"

	"github.com/oncebox/oncebox/pkg/idempotency"
)

// FuzzStored: every response comes back as it was, with the headers that are stored.
func FuzzStored(f *testing.F) {
	f.Add(200, "text/plain", "value", []byte("body"))
	f.Add(999, "", " a\r\nSet-Cookie: x\x00\xff\t ", []byte("\r\n\r\nbody\r\n"))
	f.Add(204, "", "", []byte(nil))
	f.Fuzz(func(t *testing.T, status int, contentType, value string, body []byte) {
		if status < 100 || status > 999 {
			return
		}
		x := &Exchange{stored: []string{"Content-Type", "X-Kept", "X-Other"}}
		r := Response{status, http.Header{
			"Content-Type": {contentType}, "X-Kept": {value, value}, "Set-Cookie": {value}, "X-Dropped": {value},
		}, body}
		stored := x.encode(r)
		if again := x.encode(r); !bytes.Equal(stored.Body, again.Body) {
			t.Error("the same response has two forms")
		}
		got, err := decode(stored)
		if err != nil {
			t.Fatalf("%q: %v", stored.Body, err)
		}
		want := Response{status, http.Header{
			"Content-Type": {onWire(contentType)}, "X-Kept": {onWire(value), onWire(value)},
		}, body}
		if got.Status != want.Status || !reflect.DeepEqual(got.Header, want.Header) || !bytes.Equal(got.Body, want.Body) {
			t.Errorf("want %v, got %v", want, got)
		}
	})
}

// onWire returns the value of a header as a client gets it.
func onWire(value string) string {
	return string(bytes.Trim([]byte(withoutControls(value)), " \t"))
}

// TestDecodeOthers: a record that another program wrote is no response.
func TestDecodeOthers(t *testing.T) {
	t.Parallel()
	for _, result := range []idempotency.Result{
		{}, {ContentType: mediaType}, {ContentType: "application/json", Body: []byte("HTTP/1.1 200 OK\r\n\r\n")},
		{ContentType: mediaType, Body: []byte("{}")}, {ContentType: mediaType, Body: []byte("HTTP/1.1 x\r\n\r\n")},
		{ContentType: mediaType, Body: []byte("HTTP/1.1 200 OK\r\na b\r\n\r\n")},
	} {
		if r, err := decode(result); !errors.Is(err, idempotency.ErrResultUnreadable) {
			t.Errorf("%q: %v, %v", result.Body, r, err)
		}
	}
}
