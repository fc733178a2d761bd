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

// heldJob is a job that a worker has taken, and what it made of it.
type heldJob struct {
	job

	// missing counts the outputs that are still to be made.
	missing int

	outputs []Output

	// began is when the first of the outputs was begun.
	began time.Time
}

// pullJobs takes jobs and makes them, until the run is over. Results travel while the next jobs are
// made.
func (w *worker) pullJobs(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer w.leave()
	var renewing sync.WaitGroup
	renewing.Go(func() { w.renewLease(ctx) })
	defer func() { // it reads what joining the next run writes
		cancel(nil)
		renewing.Wait()
	}()

	results := make(chan *heldJob, 1)
	sent := make(chan error, 1)
	go func() {
		var err error
		for j := range results {
			if err != nil {
				continue // makeJobs must not wait for a receiver
			}
			err = w.sendResult(ctx, j)
			if err != nil {
				cancel(err)
			}
		}
		sent <- err
	}()
	err := w.makeUntilOver(ctx, results)
	close(results)
	if sendErr := <-sent; sendErr != nil && errors.Is(err, context.Canceled) {
		return sendErr
	}
	return err
}

// leave tells the hub that the worker gives its jobs up, so that others have them at once.
func (w *worker) leave() {
	w.held.Clear()
	if w.conn.IsClosed() {
		return
	}
	w.conn.Publish(subject(w.id, "done."+w.key), pack(result{Job: job{Run: w.run}, Leave: true}))
	w.conn.FlushTimeout(time.Second)
}

// makeUntilOver takes jobs and makes them. Jobs that follow one another are made at once.
func (w *worker) makeUntilOver(ctx context.Context, results chan<- *heldJob) error {
	for {
		jobs, err := w.nextJobs(ctx)
		if err != nil {
			return err
		}
		for len(jobs) > 0 {
			n := 1
			for n < len(jobs) && jobs[n].First == jobs[n-1].First+jobs[n-1].Count {
				n++
			}
			if err := w.makeJobs(ctx, jobs[:n], results); err != nil {
				return err
			}
			jobs = jobs[n:]
		}
	}
}

// nextJobs returns at least one job, in the order of their outputs.
func (w *worker) nextJobs(ctx context.Context) (jobs []*heldJob, err error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		// Jobs that the hub believes to be here, and that are not among those held, are given to others:
		// their reply was lost.
		wish := result{Job: job{Run: w.run}, Want: int(w.jobLimit.Load())}
		w.held.Range(func(first, _ any) bool {
			wish.Held = append(wish.Held, first.(int))
			return true
		})
		reply, err := w.deliver(ctx, pack(wish))
		if err != nil {
			return nil, err
		}
		for _, j := range reply.Give {
			if j.Run == w.run && j.Count > 0 {
				w.held.Store(j.First, nil)
				jobs = append(jobs, &heldJob{job: j, missing: j.Count})
			}
		}
		if len(jobs) > 0 {
			slices.SortFunc(jobs, func(a, b *heldJob) int { return a.First - b.First })
			return jobs, nil
		}
	}
}

// makeJobs makes jobs that follow one another, and sends each to results when it is complete.
func (w *worker) makeJobs(ctx context.Context, jobs []*heldJob, results chan<- *heldJob) error {
	last := jobs[len(jobs)-1]
	first := jobs[0].First
	end := last.First + last.Count
	began := w.o.now()
	put := func(i int, seed uint64, data []byte) error {
		if i < first || i >= end {
			return fmt.Errorf("the maker made output %d, want %d to %d", i, first, end-1)
		}
		if len(data) > MaxResult {
			return fmt.Errorf("output %d is %d bytes, want at most %d", i, len(data), MaxResult)
		}
		j := jobs[slices.IndexFunc(jobs, func(j *heldJob) bool { return i < j.First+j.Count })]
		j.outputs = append(j.outputs, Output{i, seed, data})
		j.missing--
		if j.missing > 0 {
			return nil
		}
		j.began = began // the moment when the one before it was complete: jobs are made in turn
		began = w.o.now()
		select {
		case results <- j:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	err := w.setup.Maker(ctx, first, end-first, put)
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// sendResult hands in what was made of a job, in messages of at most MaxResult bytes, and forgets
// the job when the hub has it.
func (w *worker) sendResult(ctx context.Context, j *heldJob) error {
	maxBytes := min(MaxResult, int(w.conn.MaxPayload())-1<<16)
	seconds := w.o.now.since(j.began).Seconds()
	for len(j.outputs) > 0 {
		r := result{Job: j.job, Seconds: seconds}
		var data [][]byte
		size := 0
		for _, o := range j.outputs {
			isFull := size+len(o.Data) > maxBytes && len(data) > 0 || len(data) == 4096
			if isFull {
				break
			}
			size += len(o.Data)
			data = append(data, o.Data)
			r.Outputs = append(r.Outputs, outputHeader{o.Index, o.Seed, len(o.Data), digest(o.Data)})
		}
		if _, err := w.deliver(ctx, pack(r, data...)); err != nil {
			return err
		}
		j.outputs = j.outputs[len(data):]
		seconds = 0 // the time of a job counts once
	}
	w.held.Delete(j.First)
	return nil
}

// deliver sends a result or a wish until the hub has it, and returns its reply. It joins again if
// the hub began again.
func (w *worker) deliver(ctx context.Context, message []byte) (ack, error) {
	for {
		var reply ack
		if _, err := w.request(ctx, "done", message, &reply, &reply.refusal); err != nil {
			return reply, err
		}
		switch {
		case reply.Rejoin:
			if err := w.join(ctx, false); err != nil {
				return reply, err
			}
		case reply.Again:
		default:
			w.setJobLimit(reply.Jobs)
			return reply, nil
		}
	}
}

// work runs this machine's own worker.
func (s *session) work(ctx context.Context) error {
	o := WorkerOptions{
		Name:        ownName,
		Info:        s.hub.o.Info,
		natsOptions: s.hub.engine.ownOptions(),
		key:         s.hub.engine.ownKey,
		now:         s.hub.o.now,
		Build: func(context.Context, Source) (Setup, error) {
			setup := s.run.Setup
			setup.Device = s.hub.o.Info.Device
			return setup, nil
		},
	}
	err := Work(ctx, s.hub.engine.join, o)
	if ctx.Err() != nil {
		return nil
	}
	return err
}
