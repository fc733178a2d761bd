//go:build !nofleet

package fleet

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// dispute is an output for which machines made different bytes. One of them computes wrongly, and a
// third machine decides which.
type dispute struct {
	votes map[string]string // digests by worker
	made  map[string]Output // by digest, but that of the store
	check *check            // by one more machine
}

// sides names who made what.
func (d *dispute) sides() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(d.votes)) {
		list = append(list, fmt.Sprintf("%s (%.12s)", name, d.votes[name]))
	}
	return strings.Join(list, " and ")
}

// earlier stands for whoever made an output before this hub began.
const earlier = "an earlier worker"

// doubt takes an output that differs from the one in the store, or that is in doubt already.
func (s *session) doubt(worker, have, made string, o Output) {
	d := s.disputes[o.Index]
	if d == nil {
		by, ok := s.by[o.Index]
		if !ok {
			by = earlier
		}
		if by == worker { // it contradicts itself
			s.convict([]string{worker}, fmt.Sprintf("made output %d twice, as %.12s and as %.12s",
				o.Index, have, made), nil)
			return
		}
		d = &dispute{votes: map[string]string{by: have}, made: map[string]Output{}}
		s.disputes[o.Index] = d
	}
	d.votes[worker] = made
	if made != have {
		o.Data = bytes.Clone(o.Data)
		d.made[made] = o
	}
	votes := map[string]int{}
	for _, v := range d.votes {
		if votes[v]++; votes[v] > 1 {
			s.decide(o.Index, d, have, v)
			return
		}
	}
	d.check = s.newCheck(o.Index, 1, slices.Sorted(maps.Keys(d.votes))...)
}

// decide ends a dispute about output i: right is the digest that two machines made, have the one in
// the store.
func (s *session) decide(i int, d *dispute, have, right string) {
	delete(s.disputes, i)
	var wrong []string
	for name, v := range d.votes {
		if v != right {
			wrong = append(wrong, name)
		}
	}
	slices.Sort(wrong)
	var fixed []Output
	if have != right {
		fixed = []Output{d.made[right]}
	}
	s.convict(wrong, fmt.Sprintf("made output %d as none of two others did: %s", i, d.sides()),
		fixed)
}

// convict expels workers whose outputs are wrong and takes back what they made, but for outputs
// that are known better.
func (s *session) convict(names []string, why string, fixed []Output) {
	var bad []int
	for i, by := range s.by {
		if slices.Contains(names, by) {
			bad = append(bad, i)
		}
	}
	for _, o := range fixed {
		if _, ok := s.r.Store.Digest(o.Index); ok && !slices.Contains(bad, o.Index) {
			bad = append(bad, o.Index)
		}
	}
	if slices.Contains(names, ownName) {
		s.failed = fmt.Errorf("this machine %s; %d outputs of it are taken back", why, len(bad))
	}
	slices.Sort(bad)
	for _, name := range names {
		s.expel(name, why)
	}
	if err := s.r.Store.Retract(bad); err != nil {
		s.failed = err
		return
	}
	for _, i := range bad {
		delete(s.by, i)
		delete(s.disputes, i)
		s.done--
		s.missing++
	}
	maps.DeleteFunc(s.audits, func(first int, a *audit) bool { // what is made anew is audited anew
		return slices.ContainsFunc(bad, func(i int) bool { return a.check.has(i) })
	})
	for _, o := range fixed {
		if err := s.r.Store.Take(o.Index, o.Seed, o.Data); err != nil {
			s.failed = err
			return
		}
		bad = slices.DeleteFunc(bad, func(i int) bool { return i == o.Index })
		s.done++
		s.missing--
	}
	s.count.Retracted += len(bad) + len(fixed)
	size := 1
	if len(bad) > 64 {
		size = max(1, len(bad)/64)
	}
	todo := s.todo
	s.todo = nil
	s.cut(bad, size) // first in the queue: others wait for them
	s.todo = append(s.todo, todo...)
	s.wake()
}

// expel refuses all that comes from a worker.
func (s *session) expel(name, why string) {
	p := s.peers[name]
	if p == nil {
		p = &peer{name: name}
		s.peers[name] = p
	}
	if p.expelled == "" {
		p.expelled = why
		s.count.Expelled++
		if name == ownName && s.failed == nil {
			s.failed = fmt.Errorf("this machine's own worker is expelled: it %s", why)
		}
		s.h.o.Say(fmt.Sprintf("worker %s is expelled: it %s", name, why))
	}
}
