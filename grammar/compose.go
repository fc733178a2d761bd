package grammar

import (
	"cmp"
	"fmt"
	"slices"

	"unmask/param"
)

// Tokens returns the automaton of d's texts in the tokens of a vocabulary, in all ways in which
// tokens spell them. An empty language is a *param.Error, as an automaton of more than o.Bytes is.
func (d *DFA) Tokens(v *Vocabulary, o TokenOptions) (*Tokens, error) {
	o.Bytes = cmp.Or(o.Bytes, defaultBytes)
	if d.Empty() {
		return nil, &param.Error{Name: "grammar", Found: "empty", Want: "one with a text at least"}
	}
	if err := o.Budget.Spend(d.States()); err != nil {
		return nil, err
	}
	m := newComposition(d, v, o)
	for i, g := range m.groups {
		if err := m.refineClasses(g, int32(i)); err != nil {
			return nil, err
		}
	}
	m.numberClasses()
	for _, g := range m.groups {
		if err := m.addEdges(g); err != nil {
			return nil, err
		}
	}
	return m.result()
}

// composition makes a Tokens: it composes an automaton with the trie of a vocabulary.
//
// Walking the trie from each state would take states times tokens steps. Instead, states with edges
// for the same bytes form a group, which is walked at once. What a token does to all states of a
// group is a vector of states; equal vectors are kept once, and from one of them the same byte
// leads to the same other one, whatever the tokens were, so that a walk over the trie looks nearly
// everything up.
type composition struct {
	d *DFA
	v *Vocabulary
	o TokenOptions

	// Bytes that no edge tells apart are one symbol.
	symbol       [256]int32 // of each byte
	symbolCount  int
	plainSymbols []int32 // of plain bytes
	next         []int32 // [symbols, states] the state after a symbol, or -1

	groups []*group

	// class has the class of each token of the vocabulary, -1 for one that no state reads. While
	// groups are walked, classes are indexes of refined; numberClasses gives those that are left
	// numbers.
	class      []int32
	refined    []refinedClass
	classCount int32

	// sets are sets of classes, and setIDs their indexes by the bytes of their classes.
	sets   [][]int32
	setIDs map[string]int32

	out [][]TokenEdge // [states]

	// bytes is about how much memory this takes, and work what was done since it was last spent.
	bytes int
	work  int

	// Memory of single calls: a key of a map, a vector, the targets of a state's edges with lists of
	// the vectors that lead there, and the index of each state in targets.
	key      []byte
	vector   []arrival
	targets  []int32
	lists    [][]int32
	position []int32 // [states]
}

// group has the states with edges for the same bytes.
type group struct {
	states []int32

	// vectors have the states from which something is reached, ascending, and where; ids are the
	// vectors' indexes by a hash.
	vectors [][]arrival
	ids     map[uint64]int32

	// Of each vector: the vector after each symbol + 2, with 0 for unknown and 1 for none; what the
	// latest token that led there did; and whether plain bytes lead back to it: 1, -1, or 0 for
	// unknown.
	memo   []int32 // [vectors, symbols]
	latest []effect
	stable []int8

	// reads are the classes that the group reads, with the vector to which each leads.
	reads []vectorClass
}

// arrival is the state to which a token leads from a state of a group, which index numbers.
type arrival struct{ index, state int32 }

// refinedClass is a class made from another, -1 for none before, by what its tokens do to a group.
type refinedClass struct{ from, group, vector int32 }

// effect says that tokens of class from, led to a vector, are of class to.
type effect struct{ from, to int32 }

type vectorClass struct{ vector, class int32 }

// newComposition sorts the states of d into groups that read the same bytes in the same way, which
// share the work for each token.
func newComposition(d *DFA, v *Vocabulary, o TokenOptions) *composition {
	n := d.States()
	m := &composition{
		d:        d,
		v:        v,
		o:        o,
		class:    slices.Repeat([]int32{-1}, v.Size),
		setIDs:   map[string]int32{},
		out:      make([][]TokenEdge, n),
		position: slices.Repeat([]int32{-1}, n),
	}
	m.findSymbols()
	m.next = slices.Repeat([]int32{-1}, n*m.symbolCount)

	groups := map[readBytes]*group{}
	for s := range int32(n) {
		var reads readBytes
		for _, e := range d.Out(s) {
			for symbol := m.symbol[e.Lo]; symbol <= m.symbol[e.Hi]; symbol++ {
				m.statesAfter(symbol)[s] = e.To
			}
			reads.add(e, e.To == s)
		}
		g := groups[reads]
		if g == nil {
			g = &group{ids: map[uint64]int32{}}
			groups[reads] = g
			m.groups = append(m.groups, g)
		}
		g.states = append(g.states, s)
	}
	return m
}

// findSymbols finds the symbols of bytes: a new one begins where an edge begins or after its end.
func (m *composition) findSymbols() {
	var begins [257]bool
	for _, e := range m.d.edges {
		begins[e.Lo] = true
		begins[int(e.Hi)+1] = true
	}
	symbol := int32(0)
	for c := range 256 {
		if begins[c] && c > 0 {
			symbol++
		}
		m.symbol[c] = symbol
		if isPlain(byte(c)) && !slices.Contains(m.plainSymbols, symbol) {
			m.plainSymbols = append(m.plainSymbols, symbol)
		}
	}
	m.symbolCount = int(symbol) + 1
}

// readBytes is a set of bytes with an edge, and behind it that of bytes whose edge leads to the
// state itself.
type readBytes [8]uint64

// add adds the bytes of an edge.
func (r *readBytes) add(e Edge, isLoop bool) {
	for word := e.Lo / 64; word <= e.Hi/64; word++ {
		first := max(e.Lo, word*64) % 64
		last := min(e.Hi, word*64+63) % 64
		mask := (^uint64(0) >> (63 - (last - first))) << first
		r[word] |= mask
		if isLoop {
			r[4+word] |= mask
		}
	}
}

// statesAfter returns the states after a symbol, by state.
func (m *composition) statesAfter(symbol int32) []int32 {
	n := len(m.next) / m.symbolCount
	return m.next[int(symbol)*n : (int(symbol)+1)*n]
}

// vectorID returns the id of a vector, of which it keeps a copy.
func (m *composition) vectorID(g *group, list []arrival) int32 {
	hash := uint64(0)
	for _, a := range list {
		hash = mix(hash ^ uint64(a.index)<<32 ^ uint64(a.state))
	}
	for { // the next number, where another vector has the hash
		id, ok := g.ids[hash]
		if !ok {
			break
		}
		if slices.Equal(g.vectors[id], list) {
			return id
		}
		hash++
	}
	id := int32(len(g.vectors))
	g.ids[hash] = id
	g.vectors = append(g.vectors, slices.Clone(list))
	g.memo = append(g.memo, make([]int32, m.symbolCount)...)
	g.latest = append(g.latest, effect{from: -2})
	g.stable = append(g.stable, 0)
	m.bytes += 8*len(list) + 4*m.symbolCount + 64
	return id
}

// mix scrambles the bits of a hash.
func mix(x uint64) uint64 {
	x *= 0x9e3779b97f4a7c15
	return x ^ x>>32
}

// vectorAfter returns the vector after a byte, or -1 if no state reads it.
func (m *composition) vectorAfter(g *group, vector int32, c byte) int32 {
	symbol := m.symbol[c]
	slot := int(vector)*m.symbolCount + int(symbol)
	if memoized := g.memo[slot]; memoized != 0 {
		return memoized - 2
	}
	source := g.vectors[vector]
	next := m.statesAfter(symbol)
	m.work += len(source)
	arrivals := m.vector[:0]
	for _, a := range source {
		if s := next[a.state]; s >= 0 {
			arrivals = append(arrivals, arrival{a.index, s})
		}
	}
	m.vector = arrivals
	id := int32(-1)
	if len(arrivals) > 0 {
		id = m.vectorID(g, arrivals)
	}
	g.memo[slot] = id + 2
	return id
}

// isStable reports whether plain bytes lead from a vector to itself, as inside of a JSON string.
func (m *composition) isStable(g *group, vector int32) bool {
	if g.stable[vector] == 0 {
		g.stable[vector] = 1
		for _, symbol := range m.plainSymbols {
			next := m.statesAfter(symbol)
			if slices.ContainsFunc(g.vectors[vector], func(a arrival) bool {
				return next[a.state] != a.state
			}) {
				g.stable[vector] = -1
				break
			}
		}
	}
	return g.stable[vector] > 0
}

// checkBounds returns an error once the automaton, or the work on it, needs too much memory or
// time.
func (m *composition) checkBounds() error {
	if m.bytes > 4*m.o.Bytes {
		return m.tooLarge()
	}
	if m.work < 1<<12 {
		return nil
	}
	work := m.work
	m.work = 0
	return m.o.Budget.Spend(work)
}

// tooLarge returns the error of an automaton of tokens that takes more memory than allowed.
func (m *composition) tooLarge() error {
	limit := m.o.Bytes >> 20
	return &param.Error{
		Name:  "token automaton",
		Found: fmt.Sprintf("more than %d MiB (%d states)", limit, m.d.States()),
		Want:  fmt.Sprintf("at most %d MiB", limit),
	}
}

// refineClasses divides the classes of tokens by what they do to the states of a group.
func (m *composition) refineClasses(g *group, number int32) error {
	classes := map[vectorClass]int32{}
	refine := func(token, vector int32) {
		source := m.class[token]
		latest := &g.latest[vector]
		if latest.from != source {
			k := vectorClass{vector, source}
			id, ok := classes[k]
			if !ok {
				id = int32(len(m.refined))
				m.refined = append(m.refined, refinedClass{source, number, vector})
				m.bytes += 64
				classes[k] = id
			}
			*latest = effect{source, id}
		}
		m.class[token] = latest.to
	}

	m.vector = m.vector[:0]
	for i, s := range g.states {
		m.vector = append(m.vector, arrival{int32(i), s})
	}
	stack := []int32{m.vectorID(g, m.vector)} // the vectors on the way to a node
	nodes := m.v.nodes
	for i := int32(0); int(i) < len(nodes); {
		n := &nodes[i]
		m.work++
		if err := m.checkBounds(); err != nil {
			return err
		}
		vector := m.vectorAfter(g, stack[n.depth], n.c)
		if vector < 0 {
			i = n.next
			continue
		}
		if n.plain && m.isStable(g, vector) { // nothing below leads elsewhere
			m.work += int(n.end - n.first)
			for _, token := range m.v.ids[n.first:n.end] {
				refine(token, vector)
			}
			i = n.next
			continue
		}
		stack = append(stack[:n.depth+1], vector)
		for _, token := range m.v.ids[n.first:n.last] {
			refine(token, vector)
		}
		i++
	}
	return nil
}

// numberClasses gives the classes that are left consecutive numbers in the order of their tokens,
// and notes for each group which of them it reads.
func (m *composition) numberClasses() {
	for _, t := range slices.Concat(m.o.FillTokens, m.o.EndTokens, m.o.PadTokens) {
		if int(t) < len(m.class) { // whatever it spells is not read
			m.class[t] = -1
		}
	}
	numbers := map[int32]int32{}
	for t, c := range m.class {
		if c < 0 {
			continue
		}
		number, ok := numbers[c]
		if !ok {
			number = int32(len(numbers))
			numbers[c] = number
			for ; c >= 0; c = m.refined[c].from {
				r := m.refined[c]
				g := m.groups[r.group]
				g.reads = append(g.reads, vectorClass{r.vector, number})
			}
		}
		m.class[t] = number
	}
	m.classCount = int32(len(numbers))
}

// addEdges makes the edges of a group's states, and frees the group's memory.
func (m *composition) addEdges(g *group) error {
	classesOf := map[int32][]int32{} // of each vector
	var vectors []int32
	for _, r := range g.reads {
		if classesOf[r.vector] == nil {
			vectors = append(vectors, r.vector)
		}
		classesOf[r.vector] = append(classesOf[r.vector], r.class)
	}
	slices.Sort(vectors)
	setOf := map[string]int32{} // of a list of vectors: all their classes
	moves := g.movesOf(vectors)
	for j, s := range g.states {
		m.groupByTarget(moves[j])
		m.out[s] = make([]TokenEdge, 0, len(m.targets)+1)
		for i, t := range m.targets {
			m.position[t] = -1
			m.key = appendIDs(m.key[:0], m.lists[i])
			set, ok := setOf[string(m.key)]
			if !ok {
				var classes []int32
				for _, v := range m.lists[i] {
					classes = append(classes, classesOf[v]...)
				}
				slices.Sort(classes)
				key := string(m.key) // setID overwrites it
				set = m.setID(classes)
				setOf[key] = set
				m.bytes += 4*len(m.lists[i]) + 64
			}
			m.out[s] = append(m.out[s], TokenEdge{set, t})
			m.bytes += 8
		}
		if err := m.checkBounds(); err != nil {
			return err
		}
	}
	*g = group{}
	return nil
}

// groupByTarget sets targets to the states to which the moves of a state lead, and lists to the
// vectors of the moves to each of them.
func (m *composition) groupByTarget(moves []move) {
	m.targets = m.targets[:0]
	m.work += 1 + len(moves)
	for _, move := range moves {
		i := m.position[move.to]
		if i < 0 {
			i = int32(len(m.targets))
			m.position[move.to] = i
			m.targets = append(m.targets, move.to)
			if len(m.lists) < len(m.targets) {
				m.lists = append(m.lists, nil)
			}
			m.lists[i] = m.lists[i][:0]
		}
		m.lists[i] = append(m.lists[i], move.vector)
	}
}

// move leads from a state of a group to another, as a vector has it.
type move struct{ vector, to int32 }

// movesOf returns the moves of each state of the group, in the order of vectors.
func (g *group) movesOf(vectors []int32) [][]move {
	counts := make([]int, len(g.states))
	total := 0
	for _, v := range vectors {
		total += len(g.vectors[v])
		for _, a := range g.vectors[v] {
			counts[a.index]++
		}
	}
	out := make([][]move, len(g.states))
	memory := make([]move, total)
	for j, n := range counts {
		out[j] = memory[:0:n]
		memory = memory[n:]
	}
	for _, v := range vectors {
		for _, a := range g.vectors[v] {
			out[a.index] = append(out[a.index], move{v, a.state})
		}
	}
	return out
}

// setID returns the number of a set of classes, which it keeps.
func (m *composition) setID(classes []int32) int32 {
	m.key = appendIDs(m.key[:0], classes)
	if id, ok := m.setIDs[string(m.key)]; ok {
		return id
	}
	id := int32(len(m.sets))
	m.setIDs[string(m.key)] = id
	m.sets = append(m.sets, classes)
	m.bytes += 8*len(classes) + 72
	return id
}
