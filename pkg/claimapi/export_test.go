package claimapi

// SetIntN replaces the random numbers of a handler.
func (h *Handler) SetIntN(intN func(n int) int) { h.intN = intN }
