package claimapi

import "time"

// SetIntN replaces the random numbers of a handler.
func (h *Handler) SetIntN(intN func(n int) int) { h.intN = intN }

// SetNow replaces the clock by which links expire.
func (h *Handler) SetNow(now func() time.Time) { h.now = now }
