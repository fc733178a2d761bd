package schema

// Bounds narrow a language to what an automaton of bounded size can hold. What is written is still
// valid; some valid values are not written.
type Bounds struct {
	Free      int // depth of arrays and objects in values that the schema leaves free
	Whole     int // or depth of the whole value that these are in, where that is deeper; see deepen
	Arrays    int // depth of arrays alone there
	Recursion int // how often a definition contains itself
	Text      int // characters of texts with a maxLength
	Exact     int // of these, those that are counted one by one: see length
	Items     int // items of arrays with a maxItems
}

// bounds are what is tried, from the narrowest.
var bounds = []Bounds{
	{Free: 0, Arrays: 0, Recursion: 0, Text: 16, Exact: 16, Items: 3},
	{Free: 1, Arrays: 1, Recursion: 1, Text: 60, Exact: 24, Items: 6},
	{Free: 2, Arrays: 1, Recursion: 2, Text: 200, Exact: 32, Items: 10},
	{Free: 3, Arrays: 1, Recursion: 3, Text: 400, Exact: 48, Items: 20},
	{Free: 3, Arrays: 2, Recursion: 3, Text: 700, Exact: 64, Items: 40},
	{Free: 4, Arrays: 2, Recursion: 4, Text: 1000, Exact: 200, Items: 100},
	{Free: 6, Arrays: 2, Recursion: 4, Text: 1500, Exact: 600, Items: 200},
	{Free: 7, Arrays: 3, Recursion: 4, Text: 2000, Exact: 2000, Items: 300},
}

// roomy is how many times more states an automaton may have before it is made deterministic and
// minimal than afterwards, at first.
const roomy = 3

// dimensions are the parts of Bounds that are chosen by themselves, in the order in which they
// grow.
var dimensions = []func(to *Bounds, from Bounds){
	func(to *Bounds, from Bounds) { to.Recursion = from.Recursion },
	func(to *Bounds, from Bounds) { to.Free, to.Arrays = from.Free, from.Arrays },
	func(to *Bounds, from Bounds) { to.Items = from.Items },
	func(to *Bounds, from Bounds) { to.Text = from.Text },
	func(to *Bounds, from Bounds) { to.Exact = from.Exact },
}

// to returns the bounds with definitions in themselves as often as depth, if it is not 0.
func (b Bounds) to(depth int) Bounds {
	if depth > 0 {
		b.Recursion = depth
	}
	return b
}

// contains reports whether no part of b is narrower than that of other.
func (b Bounds) contains(other Bounds) bool {
	return b.Free >= other.Free && b.Recursion >= other.Recursion && b.Text >= other.Text &&
		b.Exact >= other.Exact && b.Items >= other.Items
}

// choose returns the widest bounds within which a schema's automaton has about so many states at
// most, and how many it has: as many in all dimensions as fit, and then more in each by turns.
func (c *compiler) choose(e *expr, depth, most int) (chosen Bounds, size int) {
	level := len(bounds) - 1
	size = c.measure(e, bounds[level].to(depth), most)
	for size > most && level > 0 {
		level--
		size = c.measure(e, bounds[level].to(depth), most)
	}
	chosen = bounds[level]
	for level++; level < len(bounds) && size <= most; level++ {
		for _, set := range dimensions {
			wider := chosen
			set(&wider, bounds[level])
			if n := c.measure(e, wider.to(depth), most); n <= most {
				chosen, size = wider, n
			}
		}
	}
	return chosen.to(depth), size
}
