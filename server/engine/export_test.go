package engine

// Visits returns how many visits wait.
func (e *Engine) Visits() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.visits)
}
