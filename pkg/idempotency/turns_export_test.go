package idempotency

// Lines returns the number of keys that the process has calls of.
func (r *Runner) Lines() int {
	r.turns.mu.Lock()
	defer r.turns.mu.Unlock()
	return len(r.turns.lines)
}

// Copies returns the number of copies in the cache, and their bytes.
func (r *Runner) Copies() (copies, bytes int) {
	r.copies.mu.Lock()
	defer r.copies.mu.Unlock()
	return r.copies.used.Len(), r.copies.bytes
}
