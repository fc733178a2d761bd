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
	maxJoinBurst   = 20
	maxLimiters    = 4 * maxConnections
)

// onJoin answers a worker that wants to join.
func (s *session) onJoin(m *nats.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, ok := senderKey(s.hub.engine.join.ID, m.Subject, m.Reply)
	if s.hasEnded || !ok {
		s.counts.Dropped++
		return
	}
	if !s.allowJoin(key) {
		s.counts.Refused++
		m.Respond(pack(joinReply{refusal: refusal{Busy: true}}))
		return
	}
	var request joinRequest
	if _, err := unpack(m.Data, &request); err != nil {
		s.counts.Refused++
		m.Respond(pack(joinReply{refusal: refusal{Error: err.Error()}}))
		return
	}
	request.sanitize()
	if why := s.reasonToRefuse(key, &request); why != "" {
		s.counts.Refused++
		s.hub.o.Say("refused: " + why)
		m.Respond(pack(joinReply{refusal: refusal{Error: why}}))
		return
	}

	// A worker asks twice: first for the run's key and its plan's hash and, once it has fetched the
	// plan and made output 0 for comparison, with that key. Only then is it one of the run's workers.
	reply := joinReply{
		Run:   s.key,
		Spec:  s.planHash,
		Size:  int64(len(s.plan)),
		N:     s.run.N,
		Lease: int64(s.hub.o.Lease),
		Jobs:  1,
	}
	if request.Run == s.key {
		p := s.addPeer(key, &request)
		reply.Jobs = s.jobLimit(p)
	}
	m.Respond(pack(reply))
	s.wake()
}

// allowJoin reports whether a connection may ask to join now. A worker that asks without end would
// keep the hub from answering others.
func (s *session) allowJoin(key string) bool {
	if s.joinRates[key] == nil {
		if len(s.joinRates) > maxLimiters {
			clear(s.joinRates) // keys are chosen by workers, so they must not fill the memory
		}
		s.joinRates[key] = rate.NewLimiter(joinsPerSecond, maxJoinBurst)
	}
	return s.joinRates[key].AllowN(s.hub.o.now(), 1)
}

// addPeer returns the worker of a connection, a new one if it has not joined before.
func (s *session) addPeer(key string, request *joinRequest) *peer {
	p := s.peerOfKey[key]
	if p == nil {
		p = &peer{name: s.unusedName(request.Worker), rate: 1 / max(request.Seconds, 1e-3)}
		s.peers[p.name] = p
		s.peerOfKey[key] = p
		s.present++
		if p.name != ownName {
			s.hub.o.Say(fmt.Sprintf("worker %s joined: %s, %s", p.name, request.Device,
				request.Platform))
		}
	}
	p.lastSeen = s.hub.o.now()
	p.device = request.Device
	return p
}

// sanitize keeps of a worker's words what a terminal shows as text: escape sequences in them could
// change what the hub's user sees.
func (r *joinRequest) sanitize() {
	for _, word := range []*string{&r.Build, &r.Go, &r.Platform, &r.Device} {
		*word = strings.Map(func(r rune) rune {
			if !unicode.IsPrint(r) {
				return '?'
			}
			return r
		}, (*word)[:min(len(*word), 200)])
	}
	r.Digest = r.Digest[:min(len(r.Digest), 64)]
}

// unusedName returns the name, with a number after it if another connection has it.
func (s *session) unusedName(name string) string {
	candidate := name
	for n := 2; s.peers[candidate] != nil; n++ {
		candidate = fmt.Sprintf("%s-%d", name, n)
	}
	return candidate
}

// reasonToRefuse returns why a worker cannot join, in one line that names both sides, or "".
func (s *session) reasonToRefuse(key string, r *joinRequest) string {
	hubInfo := s.hub.o.Info
	if !validName.MatchString(r.Worker) {
		return "worker's name is not 1 to 64 of A-Z a-z 0-9 . _ -"
	}
	who := "worker " + r.Worker
	p := s.peerOfKey[key]
	switch {
	case r.Worker == ownName && key != s.hub.engine.ownKey:
		return fmt.Sprintf("worker's name is %s, want another: it is that of the hub's own", ownName)
	case p != nil && p.expelReason != "":
		return fmt.Sprintf("%s was expelled: it %s", who, p.expelReason)
	case r.Protocol != protocol:
		return fmt.Sprintf("%s is %s and speaks protocol %d, the hub is %s and speaks %d: want the "+
			"same program", who, r.Build, r.Protocol, hubInfo.Build, protocol)
	case r.Go != hubInfo.Go:
		return fmt.Sprintf("%s was built with %s, the hub with %s: want the same, other versions may "+
			"write other bytes", who, r.Go, hubInfo.Go)
	case r.Run != s.key:
		return "" // it asks what the run is, or knows an earlier one: the reply has this one
	}
	if d := listDifferences(r.Settings, s.run.Settings); d != "" {
		return fmt.Sprintf("%s has %s", who, d)
	}
	if r.Digest != s.firstDigest {
		return fmt.Sprintf("%s makes output 0 as %.12s on %s (%s, %s), the hub as %.12s on %s (%s, "+
			"%s): want a device and a program that make the same bytes", who, r.Digest, r.Device,
			r.Platform, r.Build, s.firstDigest, hubInfo.Device, hubInfo.Platform, hubInfo.Build)
	}
	return ""
}

// listDifferences lists the settings in which a worker differs from the hub.
func listDifferences(worker, hub runs.Settings) string {
	var list []string
	for _, name := range worker.DifferingNames(hub) {
		list = append(list, fmt.Sprintf("%s %s, the hub has %s", name, worker.Quote(name),
			hub.Quote(name)))
	}
	return strings.Join(list, "; ")
}

// onResult receives outputs, a heartbeat or a wish of a worker.
func (s *session) onResult(m *nats.Msg) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.hasEnded {
		return
	}
	var r result
	key, ok := senderKey(s.hub.engine.join.ID, m.Subject, m.Reply)
	data, err := unpack(m.Data, &r)
	if err != nil || !ok {
		s.counts.Dropped++
		return
	}
	p := s.peerOfKey[key]
	switch {
	case p != nil && p.expelReason != "":
		m.Respond(pack(ack{refusal: refusal{Error: "expelled: it " + p.expelReason}}))
		return
	case p == nil || r.Job.Run != s.key:
		m.Respond(pack(ack{refusal: refusal{Rejoin: true}}))
		return
	case s.failed != nil:
		m.Respond(pack(ack{refusal: refusal{Busy: true}}))
		return
	}

	p.lastSeen = s.hub.o.now()
	switch {
	case r.Leave:
		s.keepOnly(p, nil)
		s.wake()
	case r.Want > 0: // where there are no jobs, the answer waits for some
		s.keepOnly(p, r.Held)
		s.waiters[p] = &waiter{request: m, wanted: r.Want, since: s.hub.o.now()}
		s.answerWaiter(p)
	case len(r.Outputs) == 0: // a heartbeat
		m.Respond(pack(ack{Jobs: s.jobLimit(p)}))
	default:
		s.acceptResult(p, m, &r, data)
	}
}

// acceptResult stores the outputs of a result and answers it.
func (s *session) acceptResult(p *peer, m *nats.Msg, r *result, data []byte) {
	outputs, damaged, err := s.checkResult(r, data)
	if err != nil {
		s.counts.Dropped++
		s.expel(p, "sent what it was not asked for: "+err.Error())
		m.Respond(pack(ack{refusal: refusal{Error: p.expelReason}}))
		return
	}
	if damaged {
		s.counts.Damaged++
		m.Respond(pack(ack{Again: true, Jobs: 1}))
		return
	}

	for _, o := range outputs {
		// It may be of an earlier hub, or of a worker that is no longer needed for it.
		if !s.wasAsked(p, o.Index) {
			s.counts.Dropped++
			continue
		}
		s.storeOutput(p, o)
		if s.failed != nil {
			m.Respond(pack(ack{refusal: refusal{Busy: true}}))
			s.wake()
			return
		}
	}
	if r.Seconds > 0 {
		rate := float64(r.Job.Count) / max(r.Seconds, 1e-3)
		p.rate += 0.3 * (rate - p.rate)
	}
	m.Respond(pack(ack{Jobs: s.jobLimit(p)}))
}

// checkResult returns the outputs of a result, see result.splitOutputs.
func (s *session) checkResult(r *result, data []byte) (outputs []Output, damaged bool, err error) {
	first := r.Job.First
	count := r.Job.Count
	if first < 0 || count < 0 || first > s.run.N-count {
		return nil, false, fmt.Errorf("result is of outputs %d to %d, want 0 to %d", first,
			first+count-1, s.run.N-1)
	}
	return r.splitOutputs(data)
}

// storeOutput puts an output into the store, or compares it with what is there: if two machines
// make different bytes of one output, the run stops.
func (s *session) storeOutput(p *peer, o Output) {
	hash := s.run.DigestOf(o.Data)
	if stored, ok := s.run.Store.Digest(o.Index); ok {
		if hash == stored {
			s.counts.Duplicates++
			return
		}
		maker := cmp.Or(s.makerOf[o.Index], "an earlier worker")
		s.failed = fmt.Errorf("output %d is %.12s by %s and %.12s by %s: one of the two machines "+
			"computes wrongly; make it on a third to tell which, then begin the run again without the "+
			"wrong one", o.Index, stored, maker, hash, p.name)
		return
	}
	if err := s.run.Store.Put(o.Index, o.Seed, bytes.Clone(o.Data)); err != nil {
		s.failed = err
		return
	}
	p.made++
	s.markStored(o.Index, p.name)
}

// expel refuses all that comes from a worker from now on.
func (s *session) expel(p *peer, why string) {
	p.expelReason = why
	s.counts.Expelled++
	if p.name == ownName && s.failed == nil {
		s.failed = fmt.Errorf("this machine's own worker is expelled: it %s", why)
	}
	s.hub.o.Say(fmt.Sprintf("worker %s is expelled: it %s", p.name, why))
}

// onBlobRequest answers a request for a piece of a file.
func (s *session) onBlobRequest(m *nats.Msg) {
	var request blobRequest
	_, ok := senderKey(s.hub.engine.join.ID, m.Subject, m.Reply)
	if _, err := unpack(m.Data, &request); err != nil || !ok {
		return
	}
	s.mu.Lock()
	hasEnded := s.hasEnded
	s.mu.Unlock()
	if hasEnded {
		return
	}

	// The rest of a message's bytes is for its header.
	maxData := int(s.hub.engine.conn.MaxPayload()) - 1<<12
	length := min(request.Length, MaxPiece, maxData)
	var data []byte
	var size int64
	var err error
	name, isPlanned := s.filePlace[request.SHA256]
	switch {
	case request.SHA256 == s.planHash:
		data, size, err = readSlice(bytes.NewReader(s.plan), int64(len(s.plan)), request.Offset,
			length)
	case isPlanned:
		data, size, err = readFileSlice(name, request.Offset, length)
	default:
		m.Respond(pack(pieceHeader{refusal: refusal{Rejoin: true}})) // it is of an earlier run
		return
	}
	if err != nil {
		m.Respond(pack(pieceHeader{refusal: refusal{Error: err.Error()}}))
		return
	}
	m.Respond(pack(pieceHeader{Size: size}, data))
}
