package bench

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask/backend/cpu"
	"unmask/model"
)

// BenchmarkLLaDA8B loads the file in UNMASK_8B, such as makemodel writes. It times a full pass over
// 256 positions with the head at a block of 32, a pass over that block alone with its head, and one
// over 128 positions with the head at all, as a reply of 128 tokens in 32 passes makes them. It
// reports the seconds of loading, and the largest resident memory, including the file's mapped
// pages, beside the file's size.
func BenchmarkLLaDA8B(b *testing.B) {
	name := os.Getenv("UNMASK_8B")
	if name == "" {
		b.Skip("UNMASK_8B names no file; go run ./tools/makemodel writes one")
	}
	info, err := os.Stat(name)
	require.NoError(b, err)
	began := time.Now()
	src, err := model.Open(name)
	require.NoError(b, err)
	defer src.Set.Close()
	m, err := model.Load(src, model.Options{Backend: cpu.New(cpu.Options{})})
	require.NoError(b, err)
	loaded := time.Since(began)

	const length, block, reply = 256, 32, 128
	batch := maskedBatch(m, 1)
	batch.Length, batch.Tokens = length, batch.Tokens[:length]
	refiner := m.Denoiser.(model.Refiner)
	batch.Cache = refiner.NewCache(1, length)
	short := maskedBatch(m, 1)
	short.Length, short.Tokens = reply, short.Tokens[:reply]
	for _, pass := range []struct {
		name       string
		from, rows int // of the head
		run        func(rows []int32) (model.Marginals, error)
	}{
		{"full", length - block, block, func([]int32) (model.Marginals, error) {
			return refiner.Forward(context.Background(), batch)
		}},
		{"block", length - block, block, func(rows []int32) (model.Marginals, error) {
			return refiner.Refine(context.Background(), batch, rows)
		}},
		{"reply128", 0, reply, func([]int32) (model.Marginals, error) {
			return refiner.Forward(context.Background(), short)
		}},
	} {
		b.Run(pass.name, func(b *testing.B) {
			rows := make([]int32, pass.rows)
			for i := range rows {
				rows[i] = int32(pass.from + i)
			}
			stats := model.Stats{P1: make([]float64, pass.rows), Arg: make([]int32, pass.rows)}
			for b.Loop() {
				got, err := pass.run(rows)
				require.NoError(b, err)
				require.NoError(b, got.Stats(rows, &stats))
			}
			b.ReportMetric(loaded.Seconds(), "s-loading")
			b.ReportMetric(float64(info.Size())/1e6, "MB-file")
			b.ReportMetric(peak(b), "MB-peak")
		})
	}
}

// peak returns the largest resident memory so far, in MB.
func peak(b *testing.B) (mb float64) {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return 0 // another system
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if text, ok := strings.CutPrefix(s.Text(), "VmHWM:"); ok {
			_, err := fmt.Sscan(text, &mb)
			require.NoError(b, err)
			return mb / 1e3 * 1.024
		}
	}
	return 0
}
