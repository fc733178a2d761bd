package model

import (
	"slices"

	"unmask/backend"
)

// headOrder puts the rows of a call in the order of the heads that they belong to, where a model
// has several, and the results back: one call of a head has rows of that head alone. It has memory
// for the latest call.
type headOrder struct {
	// heads is the number of heads; with 0 or 1 the order stays the caller's.
	heads int

	// rows are the rows in the new order, and index has, for each of them, its place in the call.
	rows  []int32
	index []int

	// Memory of results and of uniform numbers in the other order.
	floats  []float64
	tokens  []int32
	uniform []float64
}

// sortRows returns the rows by head, each head's in the order of the call.
func (t *headOrder) sortRows(rows []int32, heads []backend.Head) []int32 {
	t.heads = len(heads)
	if t.heads < 2 {
		return rows
	}
	t.index = t.index[:0]
	t.rows = t.rows[:0]
	for h := range t.heads {
		for i, row := range rows {
			if int(row)%t.heads == h {
				t.index = append(t.index, i)
				t.rows = append(t.rows, row)
			}
		}
	}
	return t.rows
}

// callIndex returns the place in the call of a row in the new order.
func (t *headOrder) callIndex(i int) int {
	if t.heads < 2 {
		return i
	}
	return t.index[i]
}

// sortUniform returns numbers of a call's rows in the new order.
func (t *headOrder) sortUniform(x []float64) []float64 {
	if t.heads < 2 {
		return x
	}
	t.uniform = t.uniform[:0]
	for _, i := range t.index {
		t.uniform = append(t.uniform, x[i])
	}
	return t.uniform
}

// unsort puts results in the order of the call; nil stays nil.
func unsort[T any](t *headOrder, x []T, memory *[]T) {
	if t.heads < 2 || x == nil {
		return
	}
	*memory = append((*memory)[:0], x...)
	for sorted, i := range t.index {
		x[i] = (*memory)[sorted]
	}
}

// nextCall returns the rows of the next call to a head, at most HeadRows, and the head.
func (m *HeadMarginals) nextCall(rows []int32) ([]int32, backend.Head) {
	rows = rows[:min(HeadRows, len(rows))]
	n := len(m.Heads)
	if n == 0 {
		return rows, m.Head
	}
	head := int(rows[0]) % n
	end := slices.IndexFunc(rows, func(r int32) bool { return int(r)%n != head })
	if end > 0 {
		rows = rows[:end]
	}
	return rows, m.Heads[head]
}

// Width returns that of the head's input.
func (m *HeadMarginals) Width() int {
	if m.Heads != nil {
		return m.Heads[0].W.In()
	}
	return m.Head.W.In()
}
