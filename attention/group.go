package attention

import "unmask/backend"

// FillSequences sets r to all positions of n sequences, whose indexes in the batch of keys and
// values begin at first.
func (r *Rows) FillSequences(first, n, length int) {
	r.Reset()
	for s := range n {
		r.Segs = append(r.Segs, backend.Segment{Seq: first + s, Row: s * length, Rows: length})
		for p := range length {
			r.Pos = append(r.Pos, int32(p))
		}
	}
}

// SplitGroup splits rows, sequence*length + position in ascending order of sequences, after about
// `target` of them. The rows of a sequence stay together, because they see each other's new keys
// and values.
func SplitGroup(rows []int32, length, target int) (group, remaining []int32) {
	n := min(target, len(rows))
	for n < len(rows) && int(rows[n])/length == int(rows[n-1])/length {
		n++
	}
	return rows[:n], rows[n:]
}
