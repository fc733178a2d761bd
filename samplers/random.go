package samplers

import "unmask/backend/rank"

// Random orders positions uniformly at random (Hayakawa et al. 2025, section 5: "Random", and
// "Fixed" in the appendix on numerical precision).
type Random struct{}

// Needs nothing: positions are chosen first.
func (Random) Needs(int, int) Need { return Need{} }

// Rank returns k positions; every arrangement is equally likely.
func (Random) Rank(v *View, k int) []int { return v.Top(k, v.Uniform) }

// Ranking ranks by noise.
func (Random) Ranking(int, int, []int) (Ranking, bool) { return rankBy(rank.ByNoise), true }
