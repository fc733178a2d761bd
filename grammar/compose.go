package grammar

import (
	"cmp"
	"fmt"
	"slices"

	"unmask/param"
)

// Tokens returns the automaton of the spellings of d's texts in a vocabulary, in all their ways.
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
		if err := m.walk(g, int32(i)); err != nil {
			return nil, err
		}
	}
	m.number()
	for _, g := range m.groups {
		if err := m.addEdges(g); err != nil {
			return nil, err
		}
	}
	return m.result()
}

// composition makes a Tokens: it composes an automaton with the trie of a vocabulary. States with
// edges for the same bytes form a group. What a token does to all states of a group is a vector of
// states; equal vectors are kept once, and from one of them the same byte leads to the same other
// one, whatever the tokens were, so that a walk over the trie looks nearly everything up.
type composition struct {
	d       *DFA
	v       *Vocabulary
	o       TokenOptions
	symbol  [256]int32 // classes of bytes
	symbols int
	plain   []int32 // symbols of plain bytes
	next    []int32 // [symbols, states]
	groups  []*group

	class    []int32   // [vocabulary]
	refined  []refined // classes, while groups are walked
	classes  int32
	sets     [][]int32
	setIDs   map[string]int32
	key      []byte
	scratch  []arrival // a vector at hand
	out      [][]TokenEdge
	bytes    int
	work     int     // since it was last spent
	targets  []int32 // of a state's edges, while they are made
	lists    [][]int32
	position []int32 // [states] index in targets, while they are made
}

type group struct {
	states  []int32
	vectors [][]arrival      // [vectors] of the states from which something is reached, ascending
	ids     map[uint64]int32 // by a hash
	memo    []int32          // [vectors, symbols] the vector after a byte + 2; 0 unknown, 1 none
	latest  []effect         // [vectors] of the latest token that led there
	stable  []int8           // [vectors] whether plain bytes lead back to it: 1, -1, or 0 for unknown
	reads   []vectorOf       // for each class that the group reads
}

// arrival is the state to which a token leads from a state of a group, which index numbers.
type arrival struct{ index, state int32 }

// refined is a class made from another, -1 for none before, by what its tokens do to a group.
type refined struct{ from, group, vector int32 }

// effect says that tokens of a class from, led to a vector, are of a class to.
type effect struct{ from, to int32 }

type vectorOf struct{ vector, class int32 }

func newComposition(d *DFA, v *Vocabulary, o TokenOptions) *composition {
	n := d.States()
	m := &composition{d: d, v: v, o: o, class: slices.Repeat([]int32{-1}, v.Size),
		setIDs: map[string]int32{}, out: make([][]TokenEdge, n), position: slices.Repeat([]int32{-1}, n)}
	var cut [257]bool
	for _, e := range d.edges {
		cut[e.Lo], cut[int(e.Hi)+1] = true, true
	}
	for c := range 256 {
		if cut[c] && c > 0 {
			m.symbols++
		}
		m.symbol[c] = int32(m.symbols)
		if plain(byte(c)) && !slices.Contains(m.plain, m.symbol[c]) {
			m.plain = append(m.plain, m.symbol[c])
		}
	}
	m.symbols++
	m.next = slices.Repeat([]int32{-1}, n*m.symbols)
	byBytes := map[[8]uint64]*group{}
	for s := range int32(n) {
		var bits [8]uint64 // bytes with an edge, and those of edges to the state itself
		for _, e := range d.Out(s) {
			for symbol := m.symbol[e.Lo]; symbol <= m.symbol[e.Hi]; symbol++ {
				m.reads(symbol)[s] = e.To
			}
			for word := e.Lo / 64; word <= e.Hi/64; word++ {
				first, last := max(e.Lo, word*64)%64, min(e.Hi, word*64+63)%64
				mask := (^uint64(0) >> (63 - (last - first))) << first
				if bits[word] |= mask; e.To == s {
					bits[4+word] |= mask
				}
			}
		}
		g := byBytes[bits]
		if g == nil {
			g = &group{ids: map[uint64]int32{}}
			byBytes[bits] = g
			m.groups = append(m.groups, g)
		}
		g.states = append(g.states, s)
	}
	return m
}

// reads returns the states after a symbol, by state.
func (m *composition) reads(symbol int32) []int32 {
	n := len(m.next) / m.symbols
	return m.next[int(symbol)*n : (int(symbol)+1)*n]
}

// vector returns the id of a vector.
func (m *composition) vector(g *group, list []arrival) int32 {
	hash := uint64(0)
	for _, a := range list {
		hash = mix(hash ^ uint64(a.index)<<32 ^ uint64(a.state))
	}
	for { // numbers after a hash that another vector has
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
	g.memo = append(g.memo, make([]int32, m.symbols)...)
	g.latest = append(g.latest, effect{from: -2})
	g.stable = append(g.stable, 0)
	m.bytes += 8*len(list) + 4*m.symbols + 64
	return id
}

// after returns the vector after a byte, or -1 if no state reads it.
func (m *composition) after(g *group, vector int32, c byte) int32 {
	symbol := m.symbol[c]
	at := int(vector)*m.symbols + int(symbol)
	if to := g.memo[at]; to != 0 {
		return to - 2
	}
	from, next := g.vectors[vector], m.reads(symbol)
	m.work += len(from)
	to := m.scratch[:0]
	for _, a := range from {
		if s := next[a.state]; s >= 0 {
			to = append(to, arrival{a.index, s})
		}
	}
	m.scratch = to
	id := int32(-1)
	if len(to) > 0 {
		id = m.vector(g, to)
	}
	g.memo[at] = id + 2
	return id
}

// stays reports whether plain bytes lead from a vector to itself.
func (m *composition) stays(g *group, vector int32) bool {
	if g.stable[vector] == 0 {
		g.stable[vector] = 1
		for _, symbol := range m.plain {
			next := m.reads(symbol)
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

// check returns an error once the automaton, or the work on it, needs too much memory or time.
func (m *composition) check() error {
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

func (m *composition) tooLarge() error {
	return &param.Error{Name: "token automaton", Found: fmt.Sprintf("more than %d MiB (%d states)",
		m.o.Bytes>>20, m.d.States()), Want: fmt.Sprintf("at most %d MiB", m.o.Bytes>>20)}
}

// walk refines the classes of tokens by what they do to the states of a group.
func (m *composition) walk(g *group, number int32) error {
	classes := map[vectorOf]int32{}
	refine := func(token, vector int32) {
		from := m.class[token]
		last := &g.latest[vector]
		if last.from != from {
			k := vectorOf{vector, from}
			id, ok := classes[k]
			if !ok {
				id = int32(len(m.refined))
				m.refined = append(m.refined, refined{from, number, vector})
				m.bytes += 64
				classes[k] = id
			}
			*last = effect{from, id}
		}
		m.class[token] = last.to
	}
	m.scratch = m.scratch[:0]
	for i, s := range g.states {
		m.scratch = append(m.scratch, arrival{int32(i), s})
	}
	stack := []int32{m.vector(g, m.scratch)}
	nodes := m.v.nodes
	for i := int32(0); int(i) < len(nodes); {
		n := &nodes[i]
		m.work++
		if err := m.check(); err != nil {
			return err
		}
		to := m.after(g, stack[n.depth], n.c)
		if to < 0 {
			i = n.next
			continue
		}
		if n.plain && m.stays(g, to) { // nothing below leads elsewhere
			m.work += int(n.end - n.first)
			for _, token := range m.v.ids[n.first:n.end] {
				refine(token, to)
			}
			i = n.next
			continue
		}
		stack = append(stack[:n.depth+1], to)
		for _, token := range m.v.ids[n.first:n.last] {
			refine(token, to)
		}
		i++
	}
	return nil
}

// number gives the classes that remain, and those of the ends, consecutive numbers in the order of
// their tokens.
func (m *composition) number() {
	for _, t := range slices.Concat(m.o.FillTokens, m.o.EndTokens) {
		if int(t) < len(m.class) { // read at the end alone, whatever it spells
			m.class[t] = -1
		}
	}
	names := map[int32]int32{}
	for t, c := range m.class {
		if c < 0 {
			continue
		}
		name, ok := names[c]
		if !ok {
			name = int32(len(names))
			names[c] = name
			for ; c >= 0; c = m.refined[c].from {
				r := m.refined[c]
				g := m.groups[r.group]
				g.reads = append(g.reads, vectorOf{r.vector, name})
			}
		}
		m.class[t] = name
	}
	m.classes = int32(len(names))
}

// addEdges makes the edges of a group's states.
func (m *composition) addEdges(g *group) error {
	classesOf := map[int32][]int32{} // of each vector
	var used []int32
	for _, r := range g.reads {
		if classesOf[r.vector] == nil {
			used = append(used, r.vector)
		}
		classesOf[r.vector] = append(classesOf[r.vector], r.class)
	}
	slices.Sort(used)
	local := map[string]int32{} // sets by their vectors
	moves := g.moves(used)
	for j, s := range g.states {
		m.targets = m.targets[:0]
		m.work += 1 + len(moves[j])
		for _, move := range moves[j] {
			at := m.position[move.to]
			if at < 0 {
				at = int32(len(m.targets))
				m.position[move.to] = at
				m.targets = append(m.targets, move.to)
				if len(m.lists) < len(m.targets) {
					m.lists = append(m.lists, nil)
				}
				m.lists[at] = m.lists[at][:0]
			}
			m.lists[at] = append(m.lists[at], move.vector)
		}
		m.out[s] = make([]TokenEdge, 0, len(m.targets)+1)
		for i, t := range m.targets {
			m.position[t] = -1
			m.key = appendIDs(m.key[:0], m.lists[i])
			set, ok := local[string(m.key)]
			if !ok {
				var classes []int32
				for _, v := range m.lists[i] {
					classes = append(classes, classesOf[v]...)
				}
				slices.Sort(classes)
				vectors := string(m.key)
				set = m.set(classes)
				local[vectors] = set
				m.bytes += 4*len(m.lists[i]) + 64
			}
			m.out[s] = append(m.out[s], TokenEdge{set, t})
			m.bytes += 8
		}
		if err := m.check(); err != nil {
			return err
		}
	}
	*g = group{}
	return nil
}

// mix scrambles the bits of a hash.
func mix(x uint64) uint64 {
	x *= 0x9e3779b97f4a7c15
	return x ^ x>>32
}

// move leads from a state of a group to another, as a vector has it.
type move struct{ vector, to int32 }

// moves returns the moves of each state of the group, in the order of vectors.
func (g *group) moves(vectors []int32) [][]move {
	counts, all := make([]int, len(g.states)), 0
	for _, v := range vectors {
		all += len(g.vectors[v])
		for _, a := range g.vectors[v] {
			counts[a.index]++
		}
	}
	out, flat := make([][]move, len(g.states)), make([]move, all)
	for j, n := range counts {
		out[j], flat = flat[:0:n], flat[n:]
	}
	for _, v := range vectors {
		for _, a := range g.vectors[v] {
			out[a.index] = append(out[a.index], move{v, a.state})
		}
	}
	return out
}

// set returns the number of a set of classes.
func (m *composition) set(classes []int32) int32 {
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
