package neon

import (
	"cmp"
	"maps"
	"slices"
)

// life is where a register is in use. Instruction i reads at 2i and writes at 2i+1.
type life struct {
	v        V
	from, to int
}

// allocate chooses machine registers by a linear scan (Poletto and Sarkar 1999): lives in order of
// their beginning, each in the lowest register that is free, or a copy in its source's if that is.
func (f *Func) allocate() map[V]int {
	registers := map[V]int{}
	for v := range V(32) {
		registers[v] = int(v)
	}
	sources := map[V]V{}
	for _, l := range f.lines {
		if l.copy {
			sources[l.v[0]] = l.v[1]
		}
	}
	var active []life
	for _, l := range f.lives() {
		if l.v < 32 {
			continue
		}
		active = slices.DeleteFunc(active, func(a life) bool { return a.to < l.from })
		var used [32]bool
		for _, a := range active {
			used[registers[a.v]] = true
		}
		free := slices.Index(used[:], false)
		if free < 0 {
			panic("neon: no vector register is left")
		}
		if a, ok := sources[l.v]; ok && a >= 32 && !used[registers[a]] {
			free = registers[a]
		}
		registers[l.v] = free
		active = append(active, l)
	}
	return registers
}

// lives are sorted by their beginnings. What is there before a loop and needed in it lives to its
// end.
func (f *Func) lives() []life {
	found := map[V]*life{}
	labels := map[string]int{}
	var loops [][2]int
	for i, l := range f.lines {
		if l.label != "" {
			labels[l.label] = 2 * i
		}
		if at, ok := labels[l.to]; ok && l.to != "" {
			loops = append(loops, [2]int{at, 2*i + 1})
		}
		for j, v := range l.v {
			at := 2 * i
			if j < l.defs {
				at++
			}
			if found[v] == nil {
				found[v] = &life{v, at, at}
			}
			found[v].to = max(found[v].to, at)
		}
	}
	for changed := true; changed; {
		changed = false
		for _, l := range found {
			for _, loop := range loops {
				if l.from < loop[0] && l.to >= loop[0] && l.to < loop[1] {
					l.to = loop[1]
					changed = true
				}
			}
		}
	}
	all := make([]life, 0, len(found))
	for _, v := range slices.Sorted(maps.Keys(found)) {
		all = append(all, *found[v])
	}
	slices.SortStableFunc(all, func(a, b life) int { return cmp.Compare(a.from, b.from) })
	return all
}
