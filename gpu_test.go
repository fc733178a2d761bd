//go:build linux && (amd64 || arm64) && !nocuda

package unmask_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/backend/cuda"
	"unmask/backend/open"
	"unmask/backend/rank"
	"unmask/demo"
	"unmask/generate"
	"unmask/generate/footprint"
	"unmask/internal/fakecuda"
	"unmask/media/codecs/vqgan"
	"unmask/model"
	"unmask/samplers"
)

// emulateGPU makes an emulated GPU the only visible one.
func emulateGPU(t *testing.T) {
	t.Setenv(cuda.LibraryVariable, fakecuda.BuildLibrary(t))
}

// useGPU makes the test use a GPU, or an emulated one if there is none.
func useGPU(t *testing.T) {
	if !fakecuda.UsesGPU() {
		emulateGPU(t)
	}
}

// On a GPU every sampler gives the CPU's tokens, in float32, for any batch size.
func TestGoldenTextOnGPU(t *testing.T) {
	useGPU(t)
	data, err := os.ReadFile(filepath.Join("testdata", "golden", "text.json"))
	require.NoError(t, err)
	golden := map[string][][]int32{}
	require.NoError(t, json.Unmarshal(data, &golden))
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{Device: "cuda:0"})
	require.NoError(t, err)
	require.Contains(t, m.Backend.Name(), "cuda:0 ")
	batch := 0
	for i, name := range slices.Sorted(maps.Keys(goldenCaches)) { // small batches take more passes
		if !fakecuda.UsesGPU() && i%2 == 1 {
			continue // slow; TestGPUChooses has them all, on a small network
		}
		batch = min(batch+1, goldenCount)
		got := tokens(t, m, goldenRun(name, goldenCaches[name], batch))
		require.Equal(t, golden[name], got, "%s, batch %d", name, batch)
	}
}

// Under a grammar a GPU gives the CPU's tokens, for samplers that it chooses for and others.
func TestGrammarOnGPU(t *testing.T) {
	useGPU(t)
	var got [2][][]int32
	for i, device := range []string{"cpu", "cuda"} {
		m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{Device: device})
		require.NoError(t, err)
		for _, sampler := range []string{"moment", "halton", "p2"} {
			r := unmask.Request{Seed: 4, Length: 16, Overrides: unmask.Overrides{"sampler": sampler,
				"steps": "3"}}
			r.Regex = ` (Lily|Tom) was [a-z ]{3,20}\.`
			for _, made := range tokens(t, m, samples{Request: r, N: 2, Batch: 2}) {
				require.Regexp(t, "^"+r.Regex, m.Text.Decode(made), "%s, %s", device, sampler)
				got[i] = append(got[i], made)
			}
		}
	}
	require.Equal(t, got[0], got[1])
}

// Images have the CPU's tokens on a GPU, and its pixels except for rounding.
func TestImageOnGPU(t *testing.T) {
	useGPU(t)
	run := samples{Request: unmask.Request{Seed: 3,
		Overrides: unmask.Overrides{"steps": "2", "cache": "1"}}}
	var codes [2][][]int32
	var pixels [2][]float32
	for i, device := range []string{"cpu", "cuda"} {
		m, err := unmask.LoadFS(demo.Image(), "demo", unmask.Options{Device: device})
		require.NoError(t, err)
		codes[i] = tokens(t, m, run)
		v, err := vqgan.Load(m.Source, model.Options{Backend: m.Backend})
		require.NoError(t, err)
		image, err := v.Image(codes[0][0])
		require.NoError(t, err)
		for _, p := range image.Pix {
			pixels[i] = append(pixels[i], float32(p))
		}
	}
	require.Equal(t, codes[0], codes[1])
	require.InDeltaSlice(t, pixels[0], pixels[1], 1, "a byte may round the other way")
}

// The default batch depends on the free memory. A batch that was set and does not fit is an error
// that gives the reason.
func TestBatchOnGPU(t *testing.T) {
	l := fakecuda.Open(t)
	t.Setenv(cuda.LibraryVariable, l.Path)
	m, err := unmask.LoadFS(demo.Text(), "demo", unmask.Options{Device: "cuda"})
	require.NoError(t, err)
	sized := m.Denoiser.(model.Sized)
	require.Equal(t, 256, sized.MaxSequences(256, true), "four groups of rows, where there is memory enough")
	l.Set(t, "memory", 400<<20)
	some := sized.MaxSequences(256, true)
	require.Greater(t, some, 1)
	require.Less(t, some, 256)

	r := unmask.Request{
		Overrides: unmask.Overrides{"sampler": "moment", "steps": "2", "cache": "1"}}
	q, err := m.Prepare(t.Context(), r)
	require.NoError(t, err)
	err = footprint.CheckBatch(m.Denoiser, m.Backend, q, 5000)
	require.Error(t, err)
	require.Regexp(t, `^batch is 5000, want 1 to [0-9]+: a sequence takes [0-9.]+ MB, and [0-9.]+ GB are free$`, err.Error())
	r.Length = 16
	require.Len(t, tokens(t, m, samples{Request: r, Batch: 1}), 1,
		"the next run is as if nothing had been")
}

// A step waits for the GPU once, and once more for a partial pass. From the fourth batch of a run
// on, each wait launches three graphs and nothing else: the pass up to where its last block drops
// rows, the end of that block, and the work after the pass.
func TestStepsAreGraphs(t *testing.T) {
	l := fakecuda.Open(t)
	t.Setenv(cuda.LibraryVariable, l.Path)
	m, err := unmask.Load(t.Context(), filepath.Join("testdata", "packs", "sdtt-tiny"),
		unmask.Options{Device: "cuda"})
	require.NoError(t, err)
	const steps = 3
	for cache, waits := range []int{steps, 2 * steps} {
		var live map[string]int
		run := samples{N: 4, Batch: 1, Request: unmask.Request{Length: 12,
			Overrides: unmask.Overrides{"sampler": "moment", "schedule": "uniform",
				"cache": strconv.Itoa(cache), "steps": strconv.Itoa(steps)}}}
		for step, err := range generateSamples(t.Context(), m, run) {
			require.NoError(t, err)
			if step.Done && step.Sequences[0].Index == 2 {
				l.Forget()
				live = l.Live()
			}
		}
		require.Equal(t, live, l.Live(), "nothing is made that is not given back")
		require.Equal(t, waits, l.Calls("cuStreamSynchronize"))
		require.LessOrEqual(t, l.Calls("cuGraphLaunch"), 3*waits,
			"up to the rows that are read, from there, and what follows")
		for _, name := range []string{"cuLaunchKernel", "cuEventSynchronize", "cuMemAlloc_v2",
			"cuMemcpyDtoHAsync_v2"} {
			require.Zero(t, l.Calls(name), "%s with %d stages of cache", name, cache)
		}
	}
}

func TestOpenDevice(t *testing.T) {
	for _, name := range []string{"", "gpu", "cuda:", "cuda:-1", "cuda:x", "cuda:99999999999", "CPU"} {
		require.ErrorContains(t, open.CheckName(name), "want auto, cpu, cuda or cuda:N", name)
		_, err := open.Device(name, 1)
		require.Error(t, err)
	}
	b, err := open.Device("cpu", 1)
	require.NoError(t, err)
	require.Contains(t, b.Name(), "cpu ")

	t.Setenv(cuda.LibraryVariable, "/nowhere/libcuda.so.1")
	_, err = open.Device("cuda", 1)
	require.ErrorContains(t, err, "cuda: ")
	b, err = open.Device("auto", 1)
	require.NoError(t, err)
	require.Contains(t, b.Name(), "cpu ")

	emulateGPU(t)
	for _, name := range []string{"auto", "cuda", "cuda:0"} {
		b, err = open.Device(name, 1)
		require.NoError(t, err)
		require.Equal(t, "cuda:0 Fake GPU", b.Name())
	}
	_, err = open.Device("cuda:1", 1)
	require.ErrorContains(t, err, "GPU is 1, want 0 to 0")
}

// opened records what a run opened, step by step.
type opened struct {
	Positions []generate.OpenedPosition
	Evaluated generate.Work
}

func record(t *testing.T, m *unmask.Model, run samples) (all []opened, logP []float64) {
	for step, err := range generateSamples(context.Background(), m, run) {
		require.NoError(t, err)
		for _, s := range step.Sequences {
			o := opened{slices.Clone(s.Opened), s.Work}
			for i := range o.Positions {
				logP = append(logP, o.Positions[i].LogP)
				o.Positions[i].LogP = 0
			}
			all = append(all, o)
		}
	}
	return all, logP
}

// odds is an order of another module that a device can follow because it has the method Ranking:
// odd positions come first.
type odds struct{}

func init() {
	samplers.Register(samplers.Rule{Prototype: odds{}, Name: "odds", Line: "odd positions first",
		Paper: "a test"})
}

var oddsOrders sync.Map // length -> []int32

func oddsFirst(length int) []int32 {
	if order, ok := oddsOrders.Load(length); ok {
		return order.([]int32)
	}
	var order []int32
	for _, first := range []int{1, 0} {
		for p := first; p < length; p += 2 {
			order = append(order, int32(p))
		}
	}
	kept, _ := oddsOrders.LoadOrStore(length, order)
	return kept.([]int32)
}

func (odds) Needs(step, steps int) samplers.Need { return samplers.Need{} }

func (odds) Rank(v *samplers.View, k int) (positions []int) {
	for _, p := range oddsFirst(len(v.Tokens)) {
		if slices.Contains(v.Masked, int(p)) && len(positions) < k {
			positions = append(positions, int(p))
		}
	}
	return positions
}

func (odds) Ranking(_, _ int, shape []int) (samplers.Ranking, bool) {
	by := [2]rank.Measure{rank.ByOrder, rank.ByOrder}
	return samplers.Ranking{Measures: by, Share: 1, Order: oddsFirst(shape[0])}, true
}

// The GPU chooses positions and tokens for the paper's samplers except vanilla, and they equal the
// CPU's in the same order, with the same number of head rows. With filters the host chooses.
func TestGPUChooses(t *testing.T) {
	if !cuda.Supported {
		t.Skip("this build has no GPU support")
	}
	var l *fakecuda.Library // nil on a GPU, whose calls are not counted
	if !fakecuda.UsesGPU() {
		l = fakecuda.Open(t)
		t.Setenv(cuda.LibraryVariable, l.Path)
	}
	pack := filepath.Join("testdata", "packs", "sdtt-tiny")
	onCPU, err := unmask.Load(t.Context(), pack, unmask.Options{Device: "cpu"})
	require.NoError(t, err)
	onGPU, err := unmask.Load(t.Context(), pack, unmask.Options{Device: "cuda"})
	require.NoError(t, err)
	const steps, batches = 4, 2
	filtered := []string{"random", "moment", "maskgit", "hybrid(random,moment)"}
	cases := map[string]int{"hybrid(random,moment)": 1, "odds": 1, "hybrid(odds,u-moment)": 2}
	maps.Copy(cases, goldenCaches)
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		for _, topK := range []string{"", "50"} {
			if topK != "" && !slices.Contains(filtered, name) {
				continue
			}
			s, err := samplers.Parse(name)
			require.NoError(t, err)
			over := evenly(name, cases[name], steps)
			if topK != "" {
				over["top-k"] = topK
			}
			run := samples{N: 3, Batch: 2,
				Request: unmask.Request{Seed: 5, Length: 14, Overrides: over}}
			want, wantLogP := record(t, onCPU, run)
			if l != nil {
				l.Forget()
			}
			got, logP := record(t, onGPU, run)
			require.Equal(t, want, got, name)
			require.InDeltaSlice(t, wantLogP, logP, 1e-3, name)
			if l == nil {
				continue
			}
			chosen := batches * steps
			if s.Needs(1, steps) == (samplers.Need{}) {
				chosen-- // the first step's positions are chosen before a pass has said which device it is
			}
			if name == "vanilla" || topK != "" {
				chosen = 0
			}
			require.Equal(t, chosen, l.Calls("unmask_choose"), name)
			if chosen > 0 {
				require.GreaterOrEqual(t, l.Calls("cuGraphLaunch"), 2,
					"%s: passes from the second on that the GPU chooses after", name)
			}
		}
	}
}
