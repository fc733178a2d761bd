package engine

// WaitingTurns returns how many callers of AwaitTurn wait.
func (e *Engine) WaitingTurns() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.turns)
}

// Pace sets what RowsPerSecond returns until the next pass ends.
func (e *Engine) Pace(rows float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.rate = rows
}
