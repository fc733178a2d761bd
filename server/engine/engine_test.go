package engine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/constrain"
	"unmask/demo"
	"unmask/generate"
	"unmask/grammar"
	"unmask/server/engine"
)

// counted are Stats that only count.
type counted struct {
	mu        sync.Mutex
	sequences int
	hits      int
	cancelled []string
}

func (c *counted) CallBegan(time.Duration)     {}
func (c *counted) FirstStepDone(time.Duration) {}
func (c *counted) PassDone(float64, int, int)  {}
func (c *counted) PositionsOpened(int)         {}
func (c *counted) PassRepeated()               {}
func (c *counted) SequenceDone(generate.Work)  { c.mu.Lock(); c.sequences++; c.mu.Unlock() }
func (c *counted) AnswerReused()               { c.mu.Lock(); c.hits++; c.mu.Unlock() }
func (c *counted) CallCancelled(why string) {
	c.mu.Lock()
	c.cancelled = append(c.cancelled, why)
	c.mu.Unlock()
}

// tokens is an answer.
type tokens []int32

func (tokens) Bytes() int64 { return 100 }

// setup is an engine of an exact model. It runs once run is called.
type setup struct {
	*testing.T
	m      *unmask.Model
	now    time.Time
	late   atomic.Int64 // nanoseconds since now
	engine *engine.Engine
	calls  *engine.Calls
	stats  counted
}

func newSetup(t *testing.T, queue int) *setup {
	m, err := unmask.Load(t.Context(), "oracle:markov:length=16,tokens=4", unmask.Options{})
	require.NoError(t, err)
	s := &setup{T: t, m: m, now: time.Now()}
	s.calls = engine.NewCalls(1<<20, &s.stats)
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	s.engine = engine.New(ctx, m, engine.Options{Rows: 64, Memory: 1 << 20, Queue: queue,
		Calls: s.calls,
		Now:   func() time.Time { return s.now.Add(time.Duration(s.late.Load())) }})
	return s
}

// call returns a call for the sequence of a seed.
func (s *setup) call(seed uint64, limit time.Duration) *engine.Call {
	q, err := s.m.Prepare(s.Context(), unmask.Request{Seed: seed})
	require.NoError(s, err)
	var c *engine.Call
	c, err = s.engine.NewCall(engine.Spec{Key: fmt.Sprint(seed), Sequences: []generate.Request{q},
		Created: s.now, Deadline: s.now.Add(limit),
		Answer: func() (engine.Answer, error) { return tokens(c.Members[0].Tokens), nil }})
	require.NoError(s, err)
	return c
}

// refused requires an error of a kind.
func (s *setup) refused(kind engine.Kind, err error) {
	var e *engine.Error
	require.ErrorAs(s, err, &e)
	require.Equal(s, kind, e.Kind, e.Message)
}

func TestEqualCallsShareOne(t *testing.T) {
	s := newSetup(t, 10)
	first, hit, err := s.calls.Begin(s.call(7, time.Hour))
	require.NoError(t, err)
	require.False(t, hit)
	second, hit, err := s.calls.Begin(s.call(7, time.Hour))
	require.NoError(t, err)
	require.False(t, hit)
	require.Same(t, first, second)
	require.Equal(t, 2, first.Watchers())
	go s.engine.Run()
	require.NoError(t, first.Wait(t.Context()))
	answer, err := first.Result()
	require.NoError(t, err)
	third, hit, err := s.calls.Begin(s.call(7, time.Hour))
	require.NoError(t, err)
	require.True(t, hit)
	require.Same(t, first, third)
	require.Equal(t, 1, s.stats.sequences)

	// The bytes are those of the request alone.
	q, err := s.m.Prepare(t.Context(), unmask.Request{Seed: 7})
	require.NoError(t, err)
	for step, err := range generate.Run(t.Context(), s.m.Denoiser,
		generate.Options{Request: generate.Request{Recipe: q.Recipe, Seed: 7}}) {
		require.NoError(t, err)
		if step.Sequences[0].Done {
			require.Equal(t, tokens(step.Sequences[0].Tokens), answer)
		}
	}
	events, done, _ := first.EventsFrom(0)
	require.True(t, done)
	require.Equal(t, events, first.Members[0].Events())
}

func TestCallsAreRefused(t *testing.T) {
	s := newSetup(t, 2)
	var calls []*engine.Call
	for seed := range uint64(2) {
		c, _, err := s.calls.Begin(s.call(seed, time.Hour))
		require.NoError(t, err)
		calls = append(calls, c)
	}
	_, _, err := s.calls.Begin(s.call(2, time.Hour))
	s.refused(engine.QueueFull, err)

	s.calls.Unwatch(calls[0])
	_, err = calls[0].Result()
	s.refused(engine.Cancelled, err)
	require.Equal(t, []string{"client"}, s.stats.cancelled)

	s.engine.Drain()
	_, err = calls[1].Result()
	s.refused(engine.ShuttingDown, err)
	_, _, err = s.calls.Begin(s.call(3, time.Hour))
	s.refused(engine.ShuttingDown, err)
	s.calls.Drain()
	_, _, err = s.calls.Begin(s.call(4, time.Hour))
	s.refused(engine.ShuttingDown, err)
}

func TestCallsEndAtTheirLimit(t *testing.T) {
	s := newSetup(t, 2)
	s.engine.Pace(1)
	first, _, err := s.calls.Begin(s.call(1, time.Hour)) // 256 rows
	require.NoError(t, err)
	_, _, err = s.calls.Begin(s.call(2, time.Minute))
	s.refused(engine.WaitTooLong, err)
	var e *engine.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 120, e.Retry) // at most two minutes

	s.now = s.now.Add(2 * time.Hour)
	go s.engine.Run()
	require.NoError(t, first.Wait(t.Context()))
	_, err = first.Result()
	s.refused(engine.Deadline, err)
}

// The steps of a language of much work count as its owner's time, so that another's calls wait for
// few of them.
func TestLanguagesTakeTheirOwnersTime(t *testing.T) {
	d, err := grammar.Regexp("[ab]{0,900}c[ab]{0,900}c[abc]{0,900}", nil)
	require.NoError(t, err)
	v := grammar.NewVocabulary(4, func(id int32) (string, bool) { return "abcd"[id : id+1], true })
	automaton, err := d.Tokens(v, grammar.TokenOptions{})
	require.NoError(t, err)
	s := newSetup(t, 10)
	s.engine.Pace(1000)
	var quick []*engine.Call
	var last atomic.Int64 // when they last made a step
	for seed := range uint64(4) {
		c := s.call(seed, time.Hour)
		c.Owner = "quick"
		c.Members[0].Request.Filter.Adjust = func(int32, []float32) { last.Store(s.late.Load()) }
		quick = append(quick, c)
	}
	slow := s.call(4, time.Hour)
	slow.Owner = "slow"
	r := &slow.Members[0].Request
	r.Language = &constrain.Language{Tokens: automaton, EndPosition: 16}
	require.Greater(t, r.Language.Work(), 1<<16)
	r.Filter.Adjust = func(int32, []float32) { s.late.Add(int64(time.Second)) } // of a row
	for _, c := range append(quick, slow) {
		_, _, err := s.calls.Begin(c)
		require.NoError(t, err)
	}
	go s.engine.Run()
	for _, c := range append(quick, slow) {
		require.NoError(t, c.Wait(t.Context()))
		_, err := c.Result()
		require.NoError(t, err)
	}
	require.Less(t, 6*last.Load(), s.late.Load())
}

// An answer without an end grows only while there is time for it. What ends for that reason is not
// kept, because an equal call may have the time.
func TestGrowthIsAdmitted(t *testing.T) {
	m, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{Threads: 1})
	require.NoError(t, err)
	m.AnswerLength = 8
	r := unmask.Request{Messages: []byte(`[{"role":"user","content":"Hello!"}]`), MaxTokens: 24}
	r.Overrides = generate.Overrides{"sampler": "p2", "steps": "4"}
	q, err := m.Prepare(t.Context(), r)
	require.NoError(t, err)
	q.Filter.Ban = append(q.Filter.Ban, m.Spec().EndTokens...)
	q.HasEnd = func([]int32) bool { return false }

	for _, test := range []struct {
		secondsPerLook int64 // how far the clock goes on whenever it is read
		limit          time.Duration
		grows          bool
	}{
		{secondsPerLook: 1, limit: 1e6 * time.Second, grows: true},
		{secondsPerLook: 300, limit: 1e6 * time.Second},
		{secondsPerLook: 10, limit: 300 * time.Second},
	} {
		var stats counted
		var looks atomic.Int64
		began := time.Now()
		calls := engine.NewCalls(1<<20, &stats)
		ctx, stop := context.WithCancel(context.Background())
		e := engine.New(ctx, m, engine.Options{Rows: 4096, Memory: 1 << 30, Queue: 2, Calls: calls,
			Now: func() time.Time {
				return began.Add(time.Duration(test.secondsPerLook*looks.Add(1)) * time.Second)
			}})
		var c *engine.Call
		c, err := e.NewCall(engine.Spec{Key: "k", Sequences: []generate.Request{q}, Created: began,
			Deadline: began.Add(test.limit),
			Answer:   func() (engine.Answer, error) { return tokens(c.Members[0].Tokens), nil }})
		require.NoError(t, err)
		_, _, err = calls.Begin(c)
		require.NoError(t, err)
		go e.Run()
		require.NoError(t, c.Wait(t.Context()))
		a, err := c.Result()
		require.NoError(t, err, test)
		if test.grows {
			require.Len(t, a, q.MaxLength)
		} else {
			require.Len(t, a, q.Length, test)
		}
		calls.Wait()
		require.Equal(t, test.grows, calls.Lookup("k") != nil)
		stop()
	}
}
