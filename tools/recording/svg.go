package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
)

// The sizes of the picture, in pixels.
const (
	letterWidth = 8.0
	lineHeight  = 19
	margin      = 16
	fontSize    = 13
)

// The window is always dark, so that the text is legible on light and dark pages.
const head = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" font-size="%[3]d">
<title>%[4]s</title>
<style>
text { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d6deeb;
  white-space: pre; animation: appear 1ms backwards; }
.prompt { fill: #7fdbca; font-weight: bold; }
@keyframes appear { from { visibility: hidden; } }
@media (prefers-reduced-motion: reduce) { text { animation: none; } }
</style>
<rect width="%[1]d" height="%[2]d" rx="8" fill="#011627"/>
`

// svg returns the session as a picture in which one line after the other appears. The last state stays.
func (s session) svg() []byte {
	var out bytes.Buffer
	width, height := columns*letterWidth+2*margin, len(s.lines)*lineHeight+2*margin
	fmt.Fprintf(&out, head, int(width), height, fontSize, escape(s.lines[0]))
	for i, line := range s.lines {
		class := ""
		if i == 0 {
			class = ` class="prompt"`
		}
		fmt.Fprintf(&out, "<text%s x=\"%d\" y=\"%d\" style=\"animation-delay: %dms\" xml:space=\"preserve\">%s</text>\n",
			class, margin, margin+(i+1)*lineHeight-lineHeight/3, i*int(lineDelay.Milliseconds()), escape(line))
	}
	out.WriteString("</svg>\n")
	return out.Bytes()
}

func escape(text string) string {
	var out bytes.Buffer
	_ = xml.EscapeText(&out, []byte(text)) // a bytes.Buffer takes everything
	return out.String()
}
