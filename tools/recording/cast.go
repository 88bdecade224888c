package main

import (
	"bytes"
	"encoding/json"
)

// cast is the session in the format asciicast v2: a header and one event a line, each with its time in seconds, the
// letter o for output, and the text.
func (s session) cast() []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	header := struct {
		Version int    `json:"version"`
		Width   int    `json:"width"`
		Height  int    `json:"height"`
		Title   string `json:"title"`
	}{2, columns, len(s.lines) + 1, s.lines[0]}
	_ = encoder.Encode(header) // a bytes.Buffer takes everything
	for i, line := range s.lines {
		_ = encoder.Encode([]any{float64(i) * lineDelay.Seconds(), "o", line + "\r\n"})
	}
	return out.Bytes()
}
