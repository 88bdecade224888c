package memobjects

import (
	"context"

	"github.com/oncebox/oncebox/pkg/sink/objectsink"
)

// Method names a call of a storage.
type Method string

// These are the calls.
const (
	PutIfAbsent Method = "PutIfAbsent"
	Put         Method = "Put"
	Head        Method = "Head"
	Get         Method = "Get"
	List        Method = "List"
)

// Call is one call of a storage: its arguments and its answer.
type Call struct {
	Method Method
	Key    string // the key; for List: the prefix
	After  string // List

	Content  objectsink.Content // the content to put, or the content that Get has read
	Replace  bool               // PutIfAbsent: replace an existing object
	Created  bool               // PutIfAbsent
	Metadata map[string]string  // Head
	Keys     []string           // List
	More     bool

	do func(context.Context, *Call) error
}

// Do makes the call and sets its answer. A hook may change the call's arguments before Do and its answer after Do. It
// may call Do several times, or not at all.
func (c *Call) Do(ctx context.Context) error { return c.do(ctx, c) }

// Hook runs in place of each call. The fields of c and the returned error are the call's answer.
type Hook func(ctx context.Context, c *Call) error

// Hooked makes all calls of a storage through a hook.
func Hooked(s objectsink.Storage, h Hook) objectsink.Storage { return hooked{s, h} }

type hooked struct {
	inner objectsink.Storage
	hook  Hook
}

func (h hooked) PutIfAbsent(ctx context.Context, key string, o objectsink.Content) (bool, error) {
	c := &Call{Method: PutIfAbsent, Key: key, Content: o, do: func(ctx context.Context, c *Call) (err error) {
		if c.Replace {
			c.Created = true
			return h.inner.Put(ctx, c.Key, c.Content)
		}
		c.Created, err = h.inner.PutIfAbsent(ctx, c.Key, c.Content)
		return err
	}}
	err := h.hook(ctx, c)
	return c.Created && err == nil, err
}

func (h hooked) Put(ctx context.Context, key string, o objectsink.Content) error {
	return h.hook(ctx, &Call{Method: Put, Key: key, Content: o, do: func(ctx context.Context, c *Call) error {
		return h.inner.Put(ctx, c.Key, c.Content)
	}})
}

func (h hooked) Head(ctx context.Context, key string) (map[string]string, error) {
	c := &Call{Method: Head, Key: key, do: func(ctx context.Context, c *Call) (err error) {
		c.Metadata, err = h.inner.Head(ctx, c.Key)
		return err
	}}
	err := h.hook(ctx, c)
	return c.Metadata, err
}

func (h hooked) Get(ctx context.Context, key string) (objectsink.Content, error) {
	c := &Call{Method: Get, Key: key, do: func(ctx context.Context, c *Call) (err error) {
		c.Content, err = h.inner.Get(ctx, c.Key)
		return err
	}}
	err := h.hook(ctx, c)
	return c.Content, err
}

func (h hooked) List(ctx context.Context, prefix, after string) ([]string, bool, error) {
	c := &Call{Method: List, Key: prefix, After: after, do: func(ctx context.Context, c *Call) (err error) {
		c.Keys, c.More, err = h.inner.List(ctx, c.Key, c.After)
		return err
	}}
	err := h.hook(ctx, c)
	return c.Keys, c.More, err
}
