package schema

// Bounds narrow a language to what an automaton of bounded size can hold. What is written is still
// valid; some valid values are not written.
type Bounds struct {
	// Free is how deep arrays and objects nest in values that the schema leaves free. Where the depth
	// Whole of the whole value around them allows more, that counts.
	Free  int
	Whole int

	// Arrays is how deep arrays alone nest in free values.
	Arrays int

	// Recursion is how often a definition contains itself.
	Recursion int

	// Text is the most characters of a text that has a maxLength, and Exact how many of these are
	// counted one by one (see lengthAutomaton).
	Text  int
	Exact int

	// Items is the most items of an array that has a maxItems.
	Items int
}

// levels are the bounds that are tried, from the narrowest to the widest.
var levels = []Bounds{
	{Free: 0, Arrays: 0, Recursion: 0, Text: 16, Exact: 16, Items: 3},
	{Free: 1, Arrays: 1, Recursion: 1, Text: 60, Exact: 24, Items: 6},
	{Free: 2, Arrays: 1, Recursion: 2, Text: 200, Exact: 32, Items: 10},
	{Free: 3, Arrays: 1, Recursion: 3, Text: 400, Exact: 48, Items: 20},
	{Free: 3, Arrays: 2, Recursion: 3, Text: 700, Exact: 64, Items: 40},
	{Free: 4, Arrays: 2, Recursion: 4, Text: 1000, Exact: 200, Items: 100},
	{Free: 6, Arrays: 2, Recursion: 4, Text: 1500, Exact: 600, Items: 200},
	{Free: 7, Arrays: 3, Recursion: 4, Text: 2000, Exact: 2000, Items: 300},
}

// shrinkGuess is how many times more states an automaton may have at first before it is made
// deterministic and minimal than afterwards. What a schema's automaton shrinks to shows only then.
const shrinkGuess = 3

// dimensions copy a part of Bounds each, in the order in which they grow. They are chosen one by
// one because a schema may be large in one of them alone: a recursive one with long texts keeps its
// depth when its texts become shorter.
var dimensions = []func(to *Bounds, from Bounds){
	func(to *Bounds, from Bounds) { to.Recursion = from.Recursion },
	func(to *Bounds, from Bounds) {
		to.Free = from.Free
		to.Arrays = from.Arrays
	},
	func(to *Bounds, from Bounds) { to.Items = from.Items },
	func(to *Bounds, from Bounds) { to.Text = from.Text },
	func(to *Bounds, from Bounds) { to.Exact = from.Exact },
}

// withRecursion returns the bounds with another Recursion, unless that is 0.
func (b Bounds) withRecursion(recursion int) Bounds {
	if recursion > 0 {
		b.Recursion = recursion
	}
	return b
}

// contains reports whether no part of b that levels choose is narrower than that of inner.
func (b Bounds) contains(inner Bounds) bool {
	return b.Free >= inner.Free && b.Recursion >= inner.Recursion && b.Text >= inner.Text &&
		b.Exact >= inner.Exact && b.Items >= inner.Items
}

// chooseBounds returns the widest bounds within which a schema's automaton has about limit states
// at most, and how many it has: first the widest level that fits, and then more in each dimension
// by turns.
func (c *compiler) chooseBounds(e *expr, recursion, limit int) (chosen Bounds, size int) {
	level := len(levels) - 1
	size = c.measure(e, levels[level].withRecursion(recursion), limit)
	for size > limit && level > 0 {
		level--
		size = c.measure(e, levels[level].withRecursion(recursion), limit)
	}
	chosen = levels[level]

	// A wider level does not fit as a whole. Some of its dimensions may, one after the other.
	for level++; level < len(levels) && size <= limit; level++ {
		for _, setDimension := range dimensions {
			wider := chosen
			setDimension(&wider, levels[level])
			n := c.measure(e, wider.withRecursion(recursion), limit)
			if n <= limit {
				chosen = wider
				size = n
			}
		}
	}
	return chosen.withRecursion(recursion), size
}
