package model

import "slices"

// NewRaggedBatch returns a batch of sequences of any lengths, with the time of their masks. Rows to
// read are the caller's to set.
func NewRaggedBatch(s Spec, list [][]int32) *Batch {
	b := &Batch{Size: len(list)}
	for _, tokens := range list {
		b.Length = max(b.Length, len(tokens))
	}
	for _, tokens := range list {
		b.Tokens = append(b.Tokens, tokens...)
		b.Tokens = append(b.Tokens, make([]int32, b.Length-len(tokens))...) // not in use
		b.Time = append(b.Time, float64(s.CountMasked(tokens))/float64(len(tokens)))
		b.Lengths = append(b.Lengths, len(tokens))
	}
	if !s.Ragged {
		b.Lengths = nil
	}
	return b
}

// groupRows is about the number of positions of one of Groups.
const groupRows = 2048

// VisitGroups calls visit with the indexes of sequences that go through a network together: by
// length, about 2048 rows each, of one length where the network wants that. It ends at the first
// error.
func VisitGroups(s Spec, list [][]int32, visit func(group []int) error) error {
	order := Indexes(0, len(list))
	slices.SortStableFunc(order, func(a, b int) int { return len(list[a]) - len(list[b]) })
	for len(order) > 0 {
		n := 1
		shortest := len(list[order[0]])
		for n < len(order) {
			length := len(list[order[n]])
			if length*(n+1) > groupRows || !s.Ragged && length != shortest {
				break
			}
			n++
		}
		if err := visit(order[:n]); err != nil {
			return err
		}
		order = order[n:]
	}
	return nil
}

// Indexes returns the numbers first..end-1.
func Indexes(first, end int) []int {
	list := make([]int, end-first)
	for i := range list {
		list[i] = first + i
	}
	return list
}

// Pick returns the elements of a list at indexes.
func Pick[T any](list []T, indexes []int) []T {
	out := make([]T, len(indexes))
	for i, index := range indexes {
		out[i] = list[index]
	}
	return out
}
