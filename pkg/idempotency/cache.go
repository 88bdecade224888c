package idempotency

import (
	"container/list"
	"strings"
	"sync"

	"github.com/oncebox/oncebox/pkg/idempotency/engine"
)

// cache keeps copies of completed records: those that were used last, up to a number of bytes. It does not know what
// time it is: useCopy decides whether a copy still counts.
type cache struct {
	limit int // bytes; 0: it keeps none

	mu    sync.Mutex
	bytes int
	used  list.List                // of *kept, from the one used last
	byKey map[string]*list.Element // by the name of the key: a Runner has one namespace
}

type kept struct {
	name   string
	record *engine.Record
	bytes  int
}

// restOfCopy is how many bytes a copy takes beside its key and its result: the record, its hash and its tokens, and its
// places in the list and in the map.
const restOfCopy = 512

// get returns the copy of a record, or nil.
func (c *cache) get(name string) *engine.Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.byKey[name]
	if at == nil {
		return nil
	}
	c.used.MoveToFront(at)
	return at.Value.(*kept).record
}

// add keeps a completed record that the store has confirmed or shown, instead of an earlier one of its key. Replies come
// in any order: the record of an earlier execution, or one that was evicted, does not come back.
func (c *cache) add(name string, record *engine.Record) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.byKey[name]; at != nil {
		old := at.Value.(*kept).record
		if record.Number < old.Number || record.Number == old.Number && old.Status != engine.Completed {
			return
		}
	}
	c.replace(name, record)
}

// evict forgets the copy of a key. A record in progress takes its place, which useCopy does not use, so that a late
// reply does not bring the copy back.
func (c *cache) evict(name string, number int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.replace(name, &engine.Record{Status: engine.InProgress, Number: number})
}

// replace puts a record in the place of the one of its key. The caller holds the lock.
func (c *cache) replace(name string, record *engine.Record) {
	c.remove(c.byKey[name])
	size := restOfCopy + len(name) + len(record.Result.ContentType) + len(record.Result.Body)
	if size > c.limit {
		return
	}
	if c.byKey == nil {
		c.byKey = map[string]*list.Element{}
	}
	name = strings.Clone(name) // it may be a part of a long text
	c.byKey[name] = c.used.PushFront(&kept{name, record, size})
	for c.bytes += size; c.bytes > c.limit; {
		c.remove(c.used.Back())
	}
}

// remove removes an element, or nothing if it is nil. The caller holds the lock.
func (c *cache) remove(at *list.Element) {
	if at == nil {
		return
	}
	old := c.used.Remove(at).(*kept)
	delete(c.byKey, old.name)
	c.bytes -= old.bytes
}
