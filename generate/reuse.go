package generate

import (
	"fmt"

	"unmask/param"
)

// Reuse says which keys and values a step takes from earlier steps. All kinds but Blocks and
// Causal are approximations. The first pass over a sequence is full; later ones compute some
// positions, always including those whose token changed since.
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
	// Causal computes what is not final yet and is exact. It is for models whose final tokens go
	// through causally (model.Spec.Causal).
	Causal
	// Finished computes what is behind finished blocks, for samplers that open several blocks at
	// once (d3LLM, arXiv 2601.07568). With Refresh, every so many passes are full.
	Finished
	// BlockDelayed is Delayed within blocks: it computes the block's masked positions and those that
	// just opened, and at a block's start the masks behind it as well. With Refresh, every so many
	// steps are full passes.
	BlockDelayed
)

var reuses = []string{NoReuse: "none", Prefix: "prefix", Dual: "dual", Delayed: "dkv",
	Blocks: "blocks", Causal: "causal", Finished: "finished",
	BlockDelayed: "block-dkv"}

// String returns the name that ParseReuse reads.
func (u Reuse) String() string {
	if int(u) >= len(reuses) {
		return fmt.Sprintf("reuse(%d)", uint8(u))
	}
	return reuses[u]
}

// ParseReuse reads none, prefix, dual, dkv, blocks, causal, finished or block-dkv.
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
