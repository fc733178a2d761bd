// Package fleet makes the outputs of one run on many machines. A hub has the run's folder and sends
// out jobs over NATS, and workers do them. The finished folder is byte for byte the one
// that a single machine makes.
//
// The folder alone records what is done; NATS only transports. At every start a hub lists the
// folder and computes what is missing; which jobs are out is known in memory only. An output
// depends only on the run's settings and its index, so any worker may repeat any job, and results
// can be checked by making them again.
//
// A worker joins by making the run's first output: its bytes must be those of the hub. That tries
// its weights, kernels, tokenizer and encoders at once.
//
// Every connection has a key that only it and the hub know. It speaks and hears answers under this
// key alone, and results count only from the connection that was asked for them.
package fleet

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"
)

// Output is a finished output of a run.
type Output struct {
	Index int
	Seed  uint64
	Data  []byte
}

// PutFunc takes an output of a run.
type PutFunc = func(i int, seed uint64, data []byte) error

// Maker makes the outputs first to first+count-1 of a run and hands each to put, in any order. The
// same index must give the same bytes on every machine.
type Maker func(ctx context.Context, first, count int, put PutFunc) error

// makeFirst makes output 0, and returns the seconds that it took.
func (m Maker) makeFirst(ctx context.Context, now clock) (o *Output, seconds float64, err error) {
	start := now()
	err = m(ctx, 0, 1, func(i int, seed uint64, data []byte) error {
		o = &Output{i, seed, data}
		return nil
	})
	if err == nil && (o == nil || o.Index != 0) {
		err = errors.New("the maker made no output 0")
	}
	return o, now.since(start).Seconds(), err
}

// Store keeps the outputs of a run, such as runs.Folder. One goroutine calls it at a time.
type Store interface {
	// Pending returns the indexes that a run of n outputs still has to make.
	Pending(n int) []int
	// Put takes a pending output, in any order. After an error the store is not used any more.
	Put(i int, seed uint64, data []byte) error
	// Digest returns a hash of output i, ok is false where it is pending. Equal outputs have equal
	// digests; what may differ, such as a time, is not in it.
	Digest(i int) (digest string, ok bool)
}

// Run describes what is made.
type Run struct {
	// Setup is this machine's. A worker's must have the same Settings.
	Setup

	// N is the number of outputs.
	N int

	// Spec is what a worker makes its own Setup from.
	Spec []byte

	// Trees are the files that the Spec needs.
	Trees []Tree

	Store Store
}

// Source has everything from which a worker makes its Setup.
type Source struct {
	Spec []byte

	// Trees has the place of each Tree on this machine, by its name.
	Trees map[string]string
}

// Setup is what a machine makes outputs with.
type Setup struct {
	Maker Maker

	// Settings are what the outputs' bytes depend on.
	Settings map[string]string

	// Device is what computes, for messages. "" is that of the worker's Info.
	Device string

	// DigestOf returns the Store's Digest of an output of these bytes.
	DigestOf func(data []byte) string
}

// Limits of messages and files.
const (
	MaxResult = 8 << 20 // bytes of a result
	MaxPiece  = 4 << 20 // bytes of a file at once
	maxSpec   = 64 << 20
)

// clock returns the time on a machine. No message has a time, so clocks may differ.
type clock func() time.Time

func (c clock) since(t time.Time) time.Duration { return c().Sub(t) }

// digest returns the SHA-256 of data in hex.
func digest(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }
