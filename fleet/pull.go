//go:build !nofleet

package fleet

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// taken is a job that a worker has taken, and what it made of it.
type taken struct {
	job
	left  int
	made  []Output
	began time.Time
}

// pull takes jobs and makes them, until the run is over. Results travel while the next jobs are
// made.
func (w *worker) pull(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer func() { // others have its jobs at once
		w.held.Clear()
		if !w.conn.IsClosed() {
			w.conn.Publish(subject(w.id, "done."+w.key), pack(done{Job: job{Run: w.run}, Leave: true}))
			w.conn.FlushTimeout(time.Second)
		}
	}()
	var renewing sync.WaitGroup
	renewing.Go(func() { w.renew(ctx) })
	defer func() { // it reads what the next run writes
		cancel(nil)
		renewing.Wait()
	}()
	results, sent := make(chan *taken, 1), make(chan error, 1)
	go func() {
		var err error
		for t := range results {
			if err == nil {
				if err = w.send(ctx, t); err != nil {
					cancel(err)
				}
			}
		}
		sent <- err
	}()
	err := w.jobsUntilOver(ctx, results)
	close(results)
	if failed := <-sent; failed != nil && errors.Is(err, context.Canceled) {
		err = failed
	}
	return err
}

// jobsUntilOver takes jobs and makes them.
func (w *worker) jobsUntilOver(ctx context.Context, results chan<- *taken) error {
	for {
		list, err := w.next(ctx)
		if err != nil {
			return err
		}
		for len(list) > 0 { // those that follow one another are made at once
			n := 1
			for n < len(list) && list[n].First == list[n-1].First+list[n-1].Count {
				n++
			}
			if err := w.make(ctx, list[:n], results); err != nil {
				return err
			}
			list = list[n:]
		}
	}
}

// next returns jobs, in the order of their outputs, one at least.
func (w *worker) next(ctx context.Context) (list []*taken, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		wish := done{Job: job{Run: w.run}, Want: int(w.jobs.Load())}
		w.held.Range(func(first, _ any) bool {
			wish.Held = append(wish.Held, first.(int))
			return true
		})
		t, err := w.deliver(ctx, pack(wish))
		if err != nil {
			return nil, err
		}
		for _, j := range t.Give {
			if j.Run == w.run && j.Count > 0 {
				w.held.Store(j.First, nil)
				list = append(list, &taken{job: j, left: j.Count})
			}
		}
		if len(list) > 0 {
			slices.SortFunc(list, func(a, b *taken) int { return a.First - b.First })
			return list, nil
		}
	}
}

// make makes jobs that follow one another.
func (w *worker) make(ctx context.Context, list []*taken, results chan<- *taken) error {
	if err := w.killed("make"); err != nil {
		return err
	}
	last := list[len(list)-1]
	first, end := list[0].First, last.First+last.Count
	began := w.o.now()
	err := w.built.Maker(ctx, first, end-first, func(i int, seed uint64, data []byte) error {
		if i < first || i >= end {
			return fmt.Errorf("the maker made output %d, want %d to %d", i, first, end-1)
		}
		if len(data) > MaxResult {
			return fmt.Errorf("output %d is %d bytes, want at most %d", i, len(data), MaxResult)
		}
		t := list[slices.IndexFunc(list, func(t *taken) bool { return i < t.First+t.Count })]
		t.made = append(t.made, Output{i, seed, data})
		if t.left--; t.left > 0 {
			return nil
		}
		t.began = began
		began = w.o.now()
		select {
		case results <- t:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// send hands in what was made of a job, in messages of 8 MiB at most, and gives the job back when
// the hub has it.
func (w *worker) send(ctx context.Context, t *taken) error {
	most := min(MaxResult, int(w.conn.MaxPayload())-1<<16)
	seconds := w.o.now.since(t.began).Seconds()
	for len(t.made) > 0 {
		d := done{Job: t.job, Seconds: seconds}
		var data [][]byte
		size := 0
		for _, o := range t.made {
			if size+len(o.Data) > most && len(data) > 0 || len(data) == 4096 {
				break
			}
			size += len(o.Data)
			data = append(data, o.Data)
			d.Outputs = append(d.Outputs, sent{o.Index, o.Seed, len(o.Data), digest(o.Data)})
		}
		if _, err := w.deliver(ctx, pack(d, data...)); err != nil {
			return err
		}
		t.made, seconds = t.made[len(data):], 0
	}
	if err := w.killed("ack"); err != nil {
		return err
	}
	w.held.Delete(t.First)
	return nil
}

// deliver sends a result or a wish until the hub has it, and returns its answer. It joins again
// where the hub began again.
func (w *worker) deliver(ctx context.Context, message []byte) (ack, error) {
	for {
		var t ack
		if _, err := w.ask(ctx, "done", message, &t, &t.refusal); err != nil {
			return t, err
		}
		switch {
		case t.Rejoin:
			if err := w.join(ctx, false); err != nil {
				return t, err
			}
		case t.Again:
		default:
			w.note(t.Jobs)
			return t, nil
		}
	}
}

// work is this machine's own worker.
func (s *session) work(ctx context.Context) error {
	o := WorkerOptions{Name: ownName, Info: s.h.o.Info, options: s.h.e.options(), key: s.h.e.own,
		now: s.h.o.now,
		Build: func(context.Context, Source) (Setup, error) {
			b := s.r.Setup
			b.Device = s.h.o.Info.Device
			return b, nil
		}}
	err := Work(ctx, s.h.e.join, o)
	if ctx.Err() != nil {
		return nil
	}
	return err
}
