package engine

// WaitingTurns returns how many callers of AwaitTurn wait.
func (e *Engine) WaitingTurns() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.turns)
}
