package idempotency

// Lines returns the number of keys that the process has calls of.
func (r *Runner) Lines() int {
	r.turns.mu.Lock()
	defer r.turns.mu.Unlock()
	return len(r.turns.lines)
}
