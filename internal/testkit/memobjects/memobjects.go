// Package memobjects is a storage of objects in memory, for tests of object sinks. A hook can watch, delay and break
// each of its calls.
package memobjects

import (
	"context"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/oncebox/oncebox/pkg/sink/objectsink"
)

// Storage keeps objects in memory. It is safe for concurrent use.
type Storage struct {
	// Page is the largest number of keys that a List returns. 0 means 1,000.
	Page int

	mu      sync.Mutex
	objects map[string]objectsink.Content
}

var _ objectsink.Storage = (*Storage)(nil)

// New returns an empty storage.
func New() *Storage { return &Storage{objects: map[string]objectsink.Content{}} }

// PutIfAbsent implements objectsink.Storage.
func (s *Storage) PutIfAbsent(_ context.Context, key string, o objectsink.Content) (created bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.objects[key]; there {
		return false, nil
	}
	s.objects[key] = o
	return true, nil
}

// Put implements objectsink.Storage.
func (s *Storage) Put(_ context.Context, key string, o objectsink.Content) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.objects[key] = o
	return nil
}

// Delete removes an object, as programs do that move objects.
func (s *Storage) Delete(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, key)
}

// Head implements objectsink.Storage.
func (s *Storage) Head(ctx context.Context, key string) (map[string]string, error) {
	o, err := s.Get(ctx, key)
	return o.Metadata, err
}

// Get implements objectsink.Storage.
func (s *Storage) Get(_ context.Context, key string) (objectsink.Content, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, there := s.objects[key]
	if !there {
		return o, fs.ErrNotExist
	}
	return o, nil
}

// List implements objectsink.Storage.
func (s *Storage) List(_ context.Context, prefix, after string) (keys []string, more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.objects {
		if strings.HasPrefix(key, prefix) && key > after {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	page := s.Page
	if page == 0 {
		page = 1000
	}
	if more = len(keys) > page; more {
		keys = keys[:page]
	}
	return keys, more, nil
}
