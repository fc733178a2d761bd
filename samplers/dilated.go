package samplers

// Dilated opens a block in levels that are known before it begins: first the positions at multiples
// of a wide stride from the block's start, then those at multiples of a narrower one, at last all
// others (Luxembourg et al. 2025, "Plan for speed: dilated scheduling for masked diffusion language
// models", arXiv 2506.19037, dilated_unmask_levels of the authors' program). A level takes a pass,
// so a block of 32 takes five, and neighbours open together in the last one alone.
//
// The stride begins at the block's size divided by Base^Skip and is divided by Base from level to
// level. A last level that is smaller than the one before it joins that one.
//
// With Least, a position whose largest probability is lower waits for the next level; the last
// level opens everything. In the authors' program such a position never gets another turn and its
// mask stays in the text, so that is not offered here.
//
// A block is one of semi-ar's, or everything that is masked. What is known in it counts as open,
// and a level without masks takes no pass.
type Dilated struct {
	Base  int     `param:"base 2..1024 =2" help:"what the stride is divided by from level to level"`
	Skip  int     `param:"skip 1..16 =1" help:"how many times the block's size is divided at first"`
	Least float64 `param:"least 1e-9..1 0=none" help:"largest probability below which a position waits a level"`
	ownPace
}

// dilatedState is how far a block is.
type dilatedState struct {
	// from and to are the positions of the block, from..to-1.
	from, to int

	// levels has the level of each of the block's positions, and last is the highest of these.
	levels []int
	last   int

	// next is the level that opens next.
	next int
}

// NewState returns a state before the first block.
func (Dilated) NewState(int) any { return new(dilatedState) }

// Needs nothing, because levels are known; with Least the largest probability.
func (d Dilated) Needs(int, int) Need { return Need{Top: d.Least > 0} }

// Choose opens those that wait from levels before, and then the masks of the first level that has
// any.
func (d Dilated) Choose(v *View) (Opening, error) {
	s := v.State.(*dilatedState)
	if s.levels == nil || s.from != v.BlockFrom || s.to != v.BlockTo {
		d.beginBlock(s, v.BlockFrom, v.BlockTo)
	}

	// A language may leave masks in levels that had their turn. They belong to what is due, so the
	// level that opens is never above the highest.
	level := s.last
	for _, position := range v.Masked {
		if levelOf := s.levels[position-s.from]; levelOf >= s.next {
			level = min(level, levelOf)
		}
	}
	s.next = level + 1

	isDue := func(i int) bool { return d.Least == 0 || level == s.last || v.P1[i] >= d.Least }
	o := Opening{Positions: v.Ints(len(v.Masked))[:0]}
	for i, position := range v.Masked {
		if s.levels[position-s.from] < level && isDue(i) {
			o.Positions = append(o.Positions, position)
		}
	}
	for i, position := range v.Masked {
		if s.levels[position-s.from] == level && isDue(i) {
			o.Positions = append(o.Positions, position)
		}
	}
	return o, nil
}

// beginBlock makes from..to-1 the block of a state.
func (d Dilated) beginBlock(s *dilatedState, from, to int) {
	d = WithDefaults(d)
	levels := d.Levels(to - from)
	*s = dilatedState{from: from, to: to, levels: make([]int, to-from), last: len(levels) - 1}
	for n, level := range levels {
		for _, offset := range level {
			s.levels[offset] = n
		}
	}
}

// Levels returns the levels of a block of so many positions, as offsets from its start.
func (d Dilated) Levels(length int) [][]int {
	d = WithDefaults(d)
	stride := length
	for range d.Skip {
		stride /= d.Base
	}

	var levels [][]int
	hasLevel := make([]bool, length)
	takeEvery := func(stride int) {
		var level []int
		for i := 0; i < length; i += stride {
			if !hasLevel[i] {
				hasLevel[i] = true
				level = append(level, i)
			}
		}
		if level != nil {
			levels = append(levels, level)
		}
	}
	for ; stride >= 1; stride /= d.Base {
		takeEvery(stride)
	}
	takeEvery(1) // a block that is smaller than Base^Skip has had no level yet

	if n := len(levels); n > 1 && len(levels[n-1]) < len(levels[n-2]) {
		levels[n-2] = append(levels[n-2], levels[n-1]...)
		levels = levels[:n-1]
	}
	return levels
}
