package generate

import (
	"fmt"

	"unmask/param"
)

// Reuse says which keys and values a step takes from earlier steps. All kinds but Blocks are
// approximations. The first pass over a sequence is full; later ones compute some positions, always
// including those whose token changed since.
type Reuse uint8

// The kinds of reuse.
const (
	NoReuse Reuse = iota // every step is a full pass

	// Prefix makes a full pass at a block's start; then it computes the block and everything after
	// it (Wu et al. 2025, Fast-dLLM).
	Prefix
	// Dual makes a full pass at a block's start; then it computes the block alone (ibid.,
	// DualCache).
	Dual
	// Delayed computes masked positions and those that just opened, with a full pass every Refresh
	// steps (Ma et al. 2025, dKV-Cache).
	Delayed
	// Blocks computes the current block and is exact. It is for models whose positions see no later
	// block (model.Spec.Block), which open block after block.
	Blocks
)

var reuses = []string{NoReuse: "none", Prefix: "prefix", Dual: "dual", Delayed: "dkv",
	Blocks: "blocks"}

// String returns the name that ParseReuse reads.
func (u Reuse) String() string {
	if int(u) >= len(reuses) {
		return fmt.Sprintf("reuse(%d)", uint8(u))
	}
	return reuses[u]
}

// ParseReuse reads none, prefix, dual, dkv or blocks.
func ParseReuse(name string) (Reuse, error) {
	for u, s := range reuses {
		if s == name {
			return Reuse(u), nil
		}
	}
	return NoReuse, fmt.Errorf("generate: %w", param.Unknown("reuse", name, reuses))
}

// defaultRefresh is the refresh interval in the examples of dKV-Cache-Decode.
const defaultRefresh = 8

// partial reports whether the member's next pass uses keys and values of earlier ones.
func (m *member) partial() bool {
	return m.Reuse == Blocks || m.Reuse != NoReuse && len(m.cache.tokens) > 0
}

// stale reports whether the step needs a full pass.
func (m *member) stale() bool {
	switch {
	case m.cache.step == 0:
		return true
	case m.Reuse == Delayed:
		return m.N+1-m.cache.step >= m.Refresh
	}
	return m.from != m.cache.from
}

// feed adds the rows of a partial pass: those that the kind of reuse always computes, and every
// position whose token differs from the cache's.
func (m *member) feed(rows []int32, base int, mask int32) []int32 {
	before := len(rows)
	if m.Reuse == Blocks {
		rows = m.feedBlocks(rows, base, mask)
		m.fed = len(rows) - before
		return rows
	}
	full := m.stale()
	for p, t := range m.Tokens {
		if full || m.cache.tokens[p] != t || m.feeds(p, mask) {
			rows = append(rows, int32(base+p))
		}
	}
	m.fed = len(rows) - before
	return rows
}

// feeds reports whether a position is in every partial pass.
func (m *member) feeds(p int, mask int32) bool {
	switch first, last := m.free[m.from], m.free[m.to-1]; m.Reuse {
	case Prefix:
		return p >= first
	case Dual:
		return p >= first && p <= last
	}
	return m.Tokens[p] == mask
}

// passed counts the work of the step's pass and records what the cache holds after it.
func (m *member) passed() {
	if m.Reuse == Blocks {
		m.work.Partial += m.fed
		if !m.block.alone { // after a part alone the block's keys and values are not these tokens'
			m.cache.tokens = append(m.cache.tokens[:0], m.Tokens[:m.block.to]...)
		}
		return
	}
	if m.fed == len(m.Tokens) {
		m.work.Full++
	} else {
		m.work.Partial += m.fed
	}
	if m.Reuse == NoReuse {
		return
	}
	if m.stale() {
		m.cache.step, m.cache.from = m.N+1, m.from
	}
	m.cache.tokens = append(m.cache.tokens[:0], m.Tokens...)
}
