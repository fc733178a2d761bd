//go:build !nofleet

package fleet

import (
	"bytes"
	"cmp"
	"fmt"
	"strings"
	"unicode"

	"github.com/nats-io/nats.go"
	"golang.org/x/time/rate"

	"unmask/runs"
)

// The requests to join that are answered. A connection has these; the server bounds how many
// connections there are.
const (
	joinsPerSecond = 2
	joinsAtOnce    = 20
	maxLimiters    = 4 * maxConnections
)

// admit answers a worker that wants to join.
func (s *session) admit(m *nats.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, ok := sender(s.h.e.join.ID, m.Subject, m.Reply)
	if s.dead || !ok {
		s.count.Dropped++
		return
	}
	if s.joins[key] == nil {
		if len(s.joins) > maxLimiters {
			clear(s.joins)
		}
		s.joins[key] = rate.NewLimiter(joinsPerSecond, joinsAtOnce)
	}
	if !s.joins[key].AllowN(s.h.o.now(), 1) {
		s.count.Refused++
		m.Respond(pack(joinReply{refusal: refusal{Busy: true}}))
		return
	}
	if s.fault("hello") {
		return
	}
	var w joinRequest
	if _, err := unpack(m.Data, &w); err != nil {
		s.count.Refused++
		m.Respond(pack(joinReply{refusal: refusal{Error: err.Error()}}))
		return
	}
	w.plain()
	if why := s.refuse(key, &w); why != "" {
		s.count.Refused++
		s.h.o.Say("refused: " + why)
		m.Respond(pack(joinReply{refusal: refusal{Error: why}}))
		return
	}
	answer := joinReply{Run: s.key, Spec: s.planHash, Size: int64(len(s.plan)), N: s.r.N,
		Lease: int64(s.h.o.Lease), Jobs: 1}
	if w.Run == s.key {
		p := s.keys[key]
		if p == nil {
			p = &peer{name: s.unused(w.Worker), rate: 1 / max(w.Seconds, 1e-3)}
			s.peers[p.name], s.keys[key] = p, p
			s.working++
			if p.name != ownName {
				s.h.o.Say(fmt.Sprintf("worker %s joined: %s, %s", p.name, w.Device, w.Platform))
			}
		}
		p.seen, p.device = s.h.o.now(), w.Device
		answer.Jobs = s.share(p)
	}
	m.Respond(pack(answer))
	s.wake()
}

// plain leaves of a worker's words what a terminal shows as text.
func (h *joinRequest) plain() {
	for _, word := range []*string{&h.Build, &h.Go, &h.Platform, &h.Device} {
		*word = strings.Map(func(r rune) rune {
			if !unicode.IsPrint(r) {
				return '?'
			}
			return r
		}, (*word)[:min(len(*word), 200)])
	}
	h.Digest = h.Digest[:min(len(h.Digest), 64)]
}

// unused returns the name, with a number after it where another connection has it.
func (s *session) unused(name string) string {
	for n, one := 2, name; ; n++ {
		if s.peers[one] == nil {
			return one
		}
		one = fmt.Sprintf("%s-%d", name, n)
	}
}

// refuse returns why a worker cannot join, in one line that names both sides, or "".
func (s *session) refuse(key string, w *joinRequest) string {
	here := s.h.o.Info
	if !name.MatchString(w.Worker) {
		return "worker's name is not 1 to 64 of A-Z a-z 0-9 . _ -"
	}
	who := "worker " + w.Worker
	switch p := s.keys[key]; {
	case w.Worker == ownName && key != s.h.e.own:
		return fmt.Sprintf("worker's name is %s, want another: it is that of the hub's own", ownName)
	case p != nil && p.expelled != "":
		return fmt.Sprintf("%s was expelled: it %s", who, p.expelled)
	case w.Protocol != protocol:
		return fmt.Sprintf("%s speaks protocol %d, the hub %d: want the same program, %s", who,
			w.Protocol, protocol, here.Build)
	case w.Go != here.Go:
		return fmt.Sprintf("%s was built with %s, the hub with %s: want the same, other versions may "+
			"write other bytes", who, w.Go, here.Go)
	case w.Run != s.key:
		return "" // it asks what the run is, or knows an earlier one: it is told this one
	}
	if d := differences(w.Settings, s.r.Settings); d != "" {
		return fmt.Sprintf("%s has %s", who, d)
	}
	if w.Digest != s.first {
		return fmt.Sprintf("%s makes output 0 as %.12s on %s (%s, %s), the hub as %.12s on %s (%s, %s): "+
			"want a device and a program that make the same bytes", who, w.Digest, w.Device, w.Platform,
			w.Build, s.first, here.Device, here.Platform, here.Build)
	}
	return ""
}

// differences lists the settings in which a worker differs from the hub.
func differences(worker, hub runs.Settings) string {
	var list []string
	for _, name := range worker.DifferingNames(hub) {
		list = append(list, fmt.Sprintf("%s %s, the hub has %s", name, worker.Quote(name),
			hub.Quote(name)))
	}
	return strings.Join(list, "; ")
}

// result accepts outputs from a worker.
func (s *session) result(m *nats.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return
	}
	var d done
	key, ok := sender(s.h.e.join.ID, m.Subject, m.Reply)
	data, err := unpack(m.Data, &d)
	if err != nil || !ok {
		s.count.Dropped++
		return
	}
	p := s.keys[key]
	switch {
	case p != nil && p.expelled != "":
		m.Respond(pack(ack{refusal: refusal{Error: "expelled: it " + p.expelled}}))
		return
	case p == nil || d.Job.Run != s.key:
		m.Respond(pack(ack{refusal: refusal{Rejoin: true}}))
		return
	case s.failed != nil:
		m.Respond(pack(ack{refusal: refusal{Busy: true}}))
		return
	}
	p.seen = s.h.o.now()
	switch {
	case d.Leave:
		s.release(p, nil)
		s.wake()
		return
	case d.Want > 0: // where there are no jobs, the answer waits for some
		s.release(p, d.Held)
		s.waiting[p] = &waiter{m: m, wants: d.Want, since: s.h.o.now()}
		s.answer(p)
		return
	case len(d.Outputs) == 0: // a heartbeat
		m.Respond(pack(ack{Jobs: s.share(p)}))
		return
	}
	s.accept(p, m, &d, data)
}

// accept takes the outputs of a result and answers it.
func (s *session) accept(p *peer, m *nats.Msg, d *done, data []byte) {
	var err error
	if d.Job.First < 0 || d.Job.Count < 0 || d.Job.First > s.r.N-d.Job.Count {
		err = fmt.Errorf("result is of outputs %d to %d, want 0 to %d", d.Job.First,
			d.Job.First+d.Job.Count-1, s.r.N-1)
	}
	var list []Output
	var damaged bool
	if err == nil {
		list, damaged, err = d.outputs(data)
	}
	switch {
	case err != nil:
		s.count.Dropped++
		s.expel(p, "sent what it was not asked for: "+err.Error())
		m.Respond(pack(ack{refusal: refusal{Error: p.expelled}}))
		return
	case damaged:
		s.count.Damaged++
		m.Respond(pack(ack{Again: true, Jobs: 1}))
		return
	}
	for _, o := range list {
		if !s.asked(p, o.Index) { // from an earlier hub, or by a worker that is no longer needed for it
			s.count.Dropped++
			continue
		}
		if !s.take(p, o) {
			return
		}
		if s.failed != nil {
			m.Respond(pack(ack{refusal: refusal{Busy: true}}))
			s.wake()
			return
		}
	}
	if d.Seconds > 0 {
		rate := float64(d.Job.Count) / max(d.Seconds, 1e-3)
		p.rate += 0.3 * (rate - p.rate)
	}
	if !s.fault("answer") {
		m.Respond(pack(ack{Jobs: s.share(p)}))
	}
}

// take puts an output into the store, or compares it with what is there: where two machines make
// different bytes of one output, the run stops. It reports false where the process ended.
func (s *session) take(p *peer, o Output) bool {
	made := s.r.DigestOf(o.Data)
	if have, ok := s.r.Store.Digest(o.Index); ok {
		if made == have {
			s.count.Duplicates++
			return true
		}
		s.failed = fmt.Errorf("output %d is %.12s by %s and %.12s by %s: one of the two machines "+
			"computes wrongly; make it on a third to tell which, then begin the run again without the "+
			"wrong one", o.Index, have, cmp.Or(s.by[o.Index], "an earlier worker"), made, p.name)
		return true
	}
	if s.fault("take") {
		return false
	}
	if err := s.r.Store.Put(o.Index, o.Seed, bytes.Clone(o.Data)); err != nil {
		s.failed = err
		return true
	}
	if s.fault("taken") {
		return false
	}
	p.made++
	s.finished(o.Index, p.name)
	return true
}

// expel refuses all that comes from a worker.
func (s *session) expel(p *peer, why string) {
	p.expelled = why
	s.count.Expelled++
	if p.name == ownName && s.failed == nil {
		s.failed = fmt.Errorf("this machine's own worker is expelled: it %s", why)
	}
	s.h.o.Say(fmt.Sprintf("worker %s is expelled: it %s", p.name, why))
}

// blob answers requests for pieces of files.
func (s *session) blob(m *nats.Msg) {
	var a blobRequest
	_, ok := sender(s.h.e.join.ID, m.Subject, m.Reply)
	if _, err := unpack(m.Data, &a); err != nil || !ok {
		return
	}
	if s.isDead() {
		return
	}
	length := min(a.Length, MaxPiece, int(s.h.e.conn.MaxPayload())-1<<12)
	var data []byte
	var size int64
	var err error
	name, known := s.files[a.SHA256]
	switch {
	case a.SHA256 == s.planHash:
		data, size, err = cutAt(bytes.NewReader(s.plan), int64(len(s.plan)), a.Offset, length)
	case known:
		data, size, err = readAt(name, a.Offset, length)
	default:
		m.Respond(pack(piece{refusal: refusal{Rejoin: true}})) // of an earlier run
		return
	}
	if err != nil {
		m.Respond(pack(piece{refusal: refusal{Error: err.Error()}}))
		return
	}
	m.Respond(pack(piece{Size: size}, data))
}
