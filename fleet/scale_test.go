//go:build !nofleet && linux

package fleet

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask/runs"
)

// nothing keeps digests alone: what is left is the hub's and the engine's own time.
type nothing map[int]string

func (n nothing) Pending(of int) (list []int) {
	for i := range of {
		if n[i] == "" {
			list = append(list, i)
		}
	}
	return list
}
func (n nothing) Put(i int, _ uint64, data []byte) error { n[i] = digest(data); return nil }
func (n nothing) Digest(i int) (string, bool)            { d, ok := n[i]; return d, ok }

func processTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Many simulated workers of one hub, each with a connection of its own, hand in made results of 48
// KB. The processor's time is that of the hub and of all workers together, in one process; the
// memory is the Go heap of both.
func BenchmarkHub(b *testing.B) {
	for _, workers := range []int{10, 500} {
		for _, kept := range []bool{false, true} {
			b.Run(fmt.Sprintf("workers=%d/disk=%v", workers, kept), func(b *testing.B) {
				n := b.N + 1
				data := bytes.Repeat([]byte("x"), 48<<10)
				var store Store = nothing{}
				if kept {
					f, err := runs.OpenFolder(filepath.Join(b.TempDir(), "out"), settings, runs.Shard{}, 0)
					require.NoError(b, err)
					defer f.Close()
					store = f
				}
				h, err := OpenHub(HubOptions{Listen: "127.0.0.1:0", Info: here(), Unit: 1})
				require.NoError(b, err)
				j, err := ParseJoinLine(h.JoinLine())
				require.NoError(b, err)
				ctx, cancel := context.WithCancel(b.Context())
				defer cancel()
				ended := make(chan error, 1)
				go func() {
					made := func(ctx context.Context, first, _ int, put PutFunc) error {
						if first > 0 { // the hub's own worker leaves all to others
							<-ctx.Done()
							return ctx.Err()
						}
						return put(0, seed, data)
					}
					ended <- h.Run(ctx, Run{Setup: Setup{Maker: made, Settings: settings,
						DigestOf: digest}, N: n + 1, Store: store})
				}()
				var next, failed atomic.Int64
				next.Store(1)
				var ready, done sync.WaitGroup
				begin := make(chan bool)
				for w := range workers {
					ready.Add(1)
					done.Go(func() {
						name := fmt.Sprint("w", w)
						s := connected(b, j, name)
						defer s.conn.Close()
						hi := joinRequest{Protocol: protocol, Worker: name, Go: here().Go}
						var a joinReply
						for a.Run == "" || a.Busy {
							a = joinReply{}
							s.ask("hello", pack(hi), &a)
							if a.Run == "" {
								time.Sleep(20 * time.Millisecond)
							} else if hi.Run == "" {
								hi.Run, hi.Settings, hi.Digest, hi.Seconds = a.Run, settings, digest(data), 1
								a.Run = ""
							}
						}
						s.run = a.Run
						ready.Done()
						<-begin
						for next.Add(1)-1 <= int64(b.N) {
							i := s.take().First
							var t ack
							s.ask("done", s.result(i, 1, Output{i, seed, data}), &t)
							if t.Error != "" {
								failed.Add(1)
							}
						}
					})
				}
				ready.Wait()
				before := processTime()
				b.ResetTimer()
				close(begin)
				done.Wait()
				b.StopTimer()
				b.ReportMetric(float64((processTime()-before).Microseconds())/float64(b.N), "cpu-µs/result")
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				b.ReportMetric(float64(m.HeapInuse)/1e6, "heap-MB")
				require.Zero(b, failed.Load())
				cancel()
				<-ended
				h.Close(false)
			})
		}
	}
}
