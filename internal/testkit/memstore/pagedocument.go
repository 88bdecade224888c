package memstore

import (
	"bytes"
	"context"

	"github.com/oncebox/oncebox/pkg/itembank/engine"
)

// PutPageDocument implements engine.Store.
func (s *Items) PutPageDocument(ctx context.Context, campaign string, document []byte) (put bool, err error) {
	if err := s.begin(ctx); err != nil {
		return false, err
	}
	defer s.mu.Unlock()
	if c, found := s.campaigns[campaign]; !found || c.Mode == engine.Deleted {
		return false, nil
	}
	s.pages[campaign] = bytes.Clone(document)
	return true, nil
}

// PageDocument implements engine.Store.
func (s *Items) PageDocument(ctx context.Context, campaign string, _ engine.Consistency) ([]byte, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return bytes.Clone(s.pages[campaign]), nil
}
