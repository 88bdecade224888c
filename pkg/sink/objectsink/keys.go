package objectsink

import (
	"fmt"
	"strings"

	"github.com/oncebox/oncebox/pkg/dedupe"
)

// The names of the other objects in the folder of a stream or a shard. Names that begin with "_" are hidden from
// readers of data.
const (
	layoutName   = "_layout"
	headName     = "_head"
	letterPrefix = "letter-"
)

func streamFolder(k dedupe.ChainKey) string {
	stream := k.Stream.Account + "." + k.Stream.Region + "." + k.Stream.Name
	return "scope=" + escape(k.Scope) + "/stream=" + escape(stream) + "/"
}

func shardFolder(k dedupe.ChainKey) string { return streamFolder(k) + "shard=" + escape(k.Shard) + "/" }

// escape keeps the usual characters in names of scopes, streams and shards, and writes each other byte as %XX, as
// Hive does.
func escape(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// letterKey returns the key of the object of a dead letter.
func letterKey(k dedupe.ChainKey, letter, extension string) string {
	return shardFolder(k) + letterPrefix + escape(strings.TrimSuffix(letter, ".json")) + extension
}
