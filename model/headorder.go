package model

import (
	"slices"

	"unmask/backend"
)

// headOrder puts the rows of a call in the order of the heads that they belong to, where a model
// has several, and the results back. It has memory for the latest call.
type headOrder struct {
	heads int     // 0 or 1: the order is the caller's
	index []int   // for each row in the new order, its place in the call
	rows  []int32 // in the new order

	floats, uniform []float64
	tokens          []int32
}

// order returns the rows by head, each head's in the order of the call.
func (t *headOrder) order(rows []int32, heads []backend.Head) []int32 {
	if t.heads = len(heads); t.heads < 2 {
		return rows
	}
	t.index, t.rows = t.index[:0], t.rows[:0]
	for h := range t.heads {
		for i, row := range rows {
			if int(row)%t.heads == h {
				t.index, t.rows = append(t.index, i), append(t.rows, row)
			}
		}
	}
	return t.rows
}

// at returns the place in the call of a row in the new order.
func (t *headOrder) at(i int) int {
	if t.heads < 2 {
		return i
	}
	return t.index[i]
}

// sorted returns numbers of a call's rows in the new order.
func (t *headOrder) sorted(x []float64) []float64 {
	if t.heads < 2 {
		return x
	}
	t.uniform = t.uniform[:0]
	for _, i := range t.index {
		t.uniform = append(t.uniform, x[i])
	}
	return t.uniform
}

// restore puts results in the order of the call; nil stays nil.
func restore[T any](t *headOrder, x []T, memory *[]T) {
	if t.heads < 2 || x == nil {
		return
	}
	*memory = append((*memory)[:0], x...)
	for at, i := range t.index {
		x[i] = (*memory)[at]
	}
}

// next returns the rows of the next call to a head, at most HeadRows, and the head.
func (m *HeadMarginals) next(rows []int32) ([]int32, backend.Head) {
	rows = rows[:min(HeadRows, len(rows))]
	n := len(m.Heads)
	if n == 0 {
		return rows, m.Head
	}
	h := int(rows[0]) % n
	if end := slices.IndexFunc(rows, func(r int32) bool { return int(r)%n != h }); end > 0 {
		rows = rows[:end]
	}
	return rows, m.Heads[h]
}

// Width returns that of the head's input.
func (m *HeadMarginals) Width() int {
	if m.Heads != nil {
		return m.Heads[0].W.In()
	}
	return m.Head.W.In()
}
