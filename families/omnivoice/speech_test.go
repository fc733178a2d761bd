package omnivoice

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/backend"
	"unmask/backend/cpu"
	"unmask/generate"
	"unmask/guide"
	"unmask/model"
	"unmask/samplers"
	"unmask/testkit/parity"
	"unmask/testkit/refusal"
)

// state is what a case of the pack says.
type state struct {
	Text, Instruct, Language, Before string
	Reference, Voice                 bool
	Denoise                          *bool
	IDs                              []int32 `json:"ids"`
	Pieces                           []string
	Frames                           int
	Steps                            int     `json:"num_step"`
	Guidance                         float64 `json:"guidance_scale"`
	Shift                            float64 `json:"t_shift"`
	Penalty                          float64 `json:"layer_penalty_factor"`
	Counted                          bool    `json:"mask_in_softmax"`
}

type pack struct {
	*parity.Pack
	*Model
	Prompts              []state
	Runs                 map[string]state
	Plain, Design, Clone state
}

func openPack(t testing.TB, o model.Options) *pack {
	p := &pack{Pack: parity.Open(t, "omnivoice-tiny")}
	data, err := os.ReadFile(filepath.Join(p.Folder(), "cases.json"))
	require.NoError(t, err)
	notes := struct {
		Prompts *[]state
		Runs    *map[string]state
		Plain   *state `json:"plain_state"`
		Design  *state `json:"design_state"`
		Clone   *state `json:"clone_state"`
	}{&p.Prompts, &p.Runs, &p.Plain, &p.Design, &p.Clone}
	require.NoError(t, json.Unmarshal(data, &notes))
	if o.Backend == nil {
		o.Backend = cpu.New(cpu.Options{})
	}
	loaded, err := model.Load(p.Source, o)
	require.NoError(t, err)
	p.Model = loaded.Denoiser.(*Model)
	return p
}

// turned returns an array of the pack [books, frames], as positions are.
func (p *pack) turned(t testing.TB, name string) ([]int32, int) {
	x, shape := p.Ints(name)
	frames := shape[1]
	out := make([]int32, len(x))
	for i, v := range x {
		out[i%frames*shape[0]+i/frames] = v
	}
	return out, frames
}

// said returns what a state says.
func (p *pack) said(t testing.TB, s state) Utterance {
	said := Utterance{Text: s.Text, Language: s.Language, Design: s.Instruct}
	if s.Reference || s.Voice {
		codes, _ := p.turned(t, "clone_reference")
		said.Voice = &Voice{Codes: codes, Text: s.Before}
	}
	return said
}

func TestPrompts(t *testing.T) {
	p := openPack(t, model.Options{})
	for _, s := range p.Prompts {
		t.Run(s.Text, func(t *testing.T) {
			got, err := p.PromptTokens(p.said(t, s))
			require.NoError(t, err)
			switch {
			case s.Denoise != nil: // it is always there with a voice
				got = got[1:]
			case slices.Contains(s.Pieces, "<|text_start|><|denoise|> a <think><|text_end|>"):
				require.NotContains(t, got, p.controlIDs[denoise]) // it is text
				return
			}
			require.Equal(t, s.IDs, got)
		})
	}
}

// conditions are those of a state.
func (p *pack) condition(t testing.TB, s state) *model.Condition {
	c, err := p.Condition(p.said(t, s))
	require.NoError(t, err)
	return c
}

// logits returns those of positions as the pack has them: [books, frames, classes].
func logits(t testing.TB, m model.Marginals, base int32, books int, frames []int32,
	classes int) []float32 {
	var rows []int32
	for c := range int32(books) {
		for _, f := range frames {
			rows = append(rows, base+f*int32(books)+c)
		}
	}
	return parity.Logits(t, m, rows, classes)
}

func TestLogits(t *testing.T) {
	for _, d := range parity.Devices {
		t.Run(d.Name+"/"+d.Precision.String(), func(t *testing.T) {
			p := openPack(t, model.Options{Backend: d.New(t), Precision: d.Precision})
			tolerance := d.Tolerance
			if d.Precision == backend.F32 {
				tolerance = 1e-5
			}
			for name, s := range map[string]state{"plain": p.Plain, "design": p.Design, "clone": p.Clone} {
				compare(t, p, name, p.condition(t, s), tolerance)
			}
		})
	}
}

// compare compares full and partial passes of a state, with its condition and without.
func compare(t *testing.T, p *pack, name string, c *model.Condition, tolerance float64) {
	codes, frames := p.turned(t, name+"_codes")
	n, all, classes := len(codes), parity.Count(frames), p.codes+1
	b := &model.Batch{Size: 2, Length: n, Tokens: slices.Repeat(codes, 2),
		Conditions: []*model.Condition{c, c.Unconditional}, Cache: p.NewCache(3, n), Places: []int{2, 0}}
	m, err := p.Forward(t.Context(), b)
	require.NoError(t, err)
	cond, _ := p.Floats(name + "_logits_cond")
	uncond, _ := p.Floats(name + "_logits_uncond")
	parity.RequireClose(t, cond, logits(t, m, 0, p.codebooks, all, classes), tolerance)
	parity.RequireClose(t, uncond, logits(t, m, int32(n), p.codebooks, all, classes), tolerance)

	// statistics are in the order that they are asked for in
	rows := []int32{3, 0, 17, 9, 8, 1}
	stats := model.Stats{P1: make([]float64, len(rows)), Arg: make([]int32, len(rows))}
	require.NoError(t, m.Stats(rows, &stats))
	for i, r := range rows {
		one := model.Stats{P1: make([]float64, 1), Arg: make([]int32, 1)}
		require.NoError(t, m.Stats([]int32{r}, &one))
		require.Equal(t, one.P1[0], stats.P1[i])
		require.Equal(t, one.Arg[0], stats.Arg[i])
	}

	part, _ := p.Ints(name + "_partial_rows")
	after, _ := p.turned(t, name+"_partial_codes")
	b.Tokens = slices.Repeat(after, 2)
	var at []int32
	for i := range int32(2) {
		for _, f := range part {
			at = append(at, i*int32(n)+f*int32(p.codebooks))
		}
	}
	m, err = p.Refine(t.Context(), b, at)
	require.NoError(t, err)
	cond, _ = p.Floats(name + "_partial_logits_cond")
	uncond, _ = p.Floats(name + "_partial_logits_uncond")
	parity.RequireClose(t, cond, logits(t, m, 0, p.codebooks, part, classes), tolerance)
	parity.RequireClose(t, uncond, logits(t, m, int32(n), p.codebooks, part, classes), tolerance)
}

// The published rule's probabilities, tokens and scores at the pack's states.
func TestScores(t *testing.T) {
	p := openPack(t, model.Options{})
	for name, s := range map[string]state{"plain": p.Plain, "design": p.Design, "clone": p.Clone} {
		codes, frames := p.turned(t, name+"_codes")
		g := guide.New(p.Model, func(model.Progress) float64 { return 2 })
		m, err := g.Forward(t.Context(), &model.Batch{Size: 1, Length: len(codes), Tokens: codes,
			Conditions: []*model.Condition{p.condition(t, s)}})
		require.NoError(t, err)
		scores, _ := p.Floats(name + "_scores")
		tokens, _ := p.Ints(name + "_tokens")
		all := parity.Count(len(codes))
		stats := model.Stats{Arg: make([]int32, len(codes)), LogSum: make([]float64, len(codes))}
		require.NoError(t, m.Stats(all, &stats))
		var masked []int
		for at, code := range codes {
			if code == p.spec.Mask {
				masked = append(masked, at)
			}
			require.Equal(t, tokens[at%p.codebooks*frames+at/p.codebooks], stats.Arg[at])
		}
		ranked := func(at int) float32 { return scores[at%p.codebooks*frames+at/p.codebooks] }
		o, err := samplers.OmniVoice{Noise: 1e-6}.Choose(&samplers.View{Tokens: codes, Masked: masked,
			Mask: p.spec.Mask, Outcomes: p.codes, Shape: []int{frames, p.codebooks}, Quota: len(masked),
			LogSum: of(stats.LogSum, masked), Visit: func(at []int, visit func(int, []float32)) error {
				rows := make([]int32, len(at))
				for i := range at {
					rows[i] = int32(at[i])
				}
				return m.Visit(rows, visit)
			}})
		require.NoError(t, err)
		for i, at := range o.Positions[1:] {
			require.GreaterOrEqual(t, ranked(o.Positions[i])+1e-4, ranked(at))
		}
	}
}

func of(x []float64, at []int) (out []float64) {
	for _, i := range at {
		out = append(out, x[i])
	}
	return out
}

// Whole runs of the pack: the same codes, and the same number of them at each step.
func TestRuns(t *testing.T) {
	p := openPack(t, model.Options{})
	for name, s := range p.Runs {
		t.Run(name, func(t *testing.T) {
			want, frames := p.turned(t, "run_"+name+"_codes")
			counts, _ := p.Ints("run_" + name + "_counts")
			rule := samplers.OmniVoice{Noise: 1e-6, Penalty: max(s.Penalty, 1e-9)}
			if !s.Counted {
				rule.Mask = "left-out"
			}
			o := generate.Options{Request: generate.Request{Length: frames * p.codebooks,
				Condition: p.condition(t, s),
				Recipe: generate.Recipe{Sampler: rule, Schedule: samplers.ShiftedSchedule(s.Shift),
					Steps:    s.Steps,
					Guidance: generate.Guidance{Scale: s.Guidance}}}}
			var opened []int32
			var got []int32
			for step, err := range generate.Run(t.Context(), p.Model, o) {
				require.NoError(t, err)
				q := step.Sequences[0]
				opened = append(opened, int32(len(q.Opened)))
				got = append(got[:0], q.Tokens...)
			}
			require.Equal(t, want, got)
			require.Equal(t, counts[:len(opened)], opened) // steps that open nothing may follow
			for _, n := range counts[len(opened):] {
				require.Zero(t, n)
			}
		})
	}
}

func TestSchedules(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "packs", "speech-rules",
		"cases.json"))
	require.NoError(t, err)
	var r struct {
		Schedules []struct {
			Slots  int
			Steps  int     `json:"num_step"`
			Shift  float64 `json:"t_shift"`
			Counts []int
		}
	}
	require.NoError(t, json.Unmarshal(data, &r))
	for _, c := range r.Schedules {
		open := 0
		for i, n := range c.Counts {
			open += n
			require.Equal(t, open, samplers.OpenCount(samplers.ShiftedSchedule(c.Shift), float64(i+1),
				c.Steps, c.Slots),
				"step %d of %+v", i, c)
		}
	}
}

// Samplers of other models run, and partial caching by frames.
func TestOtherSamplers(t *testing.T) {
	p := openPack(t, model.Options{})
	for _, text := range []string{"moment(alpha=5)", "u-moment(alpha=5)+cache", "hybrid+cache",
		"halton+cache", "codebooks(u-moment(alpha=5))+cache", "codebooks(maskgit)", "omnivoice+cache",
		"semi-ar(confidence,block=16)", "omnivoice reuse=dkv", "klass", "eb"} {
		t.Run(text, func(t *testing.T) {
			recipe, err := generate.ParseRecipe(text + " guidance=2")
			require.NoError(t, err)
			if recipe.Steps == 0 {
				recipe.Steps = 6
			}
			if _, paced := samplers.As[samplers.SelfPaced](recipe.Sampler); paced {
				recipe.Steps = 0
			}
			var both []generate.Request
			for i, s := range []state{p.Plain, p.Clone} {
				both = append(both, generate.Request{Recipe: recipe, Length: 7 * p.codebooks, Index: uint32(i),
					Condition: p.condition(t, s)})
			}
			run := func(requests ...generate.Request) (last []int32) {
				o := generate.PoolOptions{Length: 7 * p.codebooks, Guided: true}
				for step, err := range generate.Each(t.Context(), p.Model, o, slices.Values(requests)) {
					require.NoError(t, err)
					for _, q := range step.Sequences {
						if q.Finished {
							require.NotContains(t, q.Tokens, p.spec.Mask)
						}
						if q.Index == 1 {
							last = slices.Clone(q.Tokens)
						}
					}
				}
				return last
			}
			require.Equal(t, run(both...), run(both[1]))
		})
	}
}

func TestBadLengths(t *testing.T) {
	p := openPack(t, model.Options{})
	_, err := p.Forward(t.Context(), &model.Batch{Size: 1, Length: 12, Tokens: make([]int32, 12),
		Conditions: []*model.Condition{p.condition(t, p.Plain)}})
	require.ErrorContains(t, err, "length of sequence 0 is 12, want a multiple of the 8 codebooks")
	_, err = p.Forward(t.Context(), &model.Batch{Size: 1, Length: 8, Tokens: make([]int32, 8),
		Conditions: []*model.Condition{{Prompt: &model.Prompt{Rows: 1, Width: 2,
			States: make([]float32, 2)}}}})
	require.ErrorContains(t, err, "the prompt of sequence 0 is 1 x 2")
}

func TestBadConfigs(t *testing.T) {
	parity.CheckRefused(t, parity.Open, "omnivoice-tiny",
		[3]string{`"audio_vocab_size": 65`, `"audio_vocab_size": 66`, "audio_vocab_size is 66, want 65"},
		[3]string{`"audio_mask_id": 64`, `"audio_mask_id": 3`, "audio_mask_id is not 64"},
		[3]string{`"num_audio_codebook": 8`, `"num_audio_codebook": 0`, "num_audio_codebook is 0"},
		[3]string{`"hidden_size": 48`, `"hidden_size": 32`, "hidden_size 32, want 48"},
		[3]string{`"rope_theta": 1000000`, `"rope_theta": -1`, "rope_theta is -1, want a finite number"},
		[3]string{`"num_hidden_layers": 3`, `"num_hidden_layers": 4`, `llm.layers.3.`})
}

func TestVoices(t *testing.T) {
	p := openPack(t, model.Options{})
	v, err := p.ReadVoice(filepath.Join(p.Folder(), "voice.pt"))
	require.NoError(t, err)
	codes, _ := p.turned(t, "clone_reference")
	require.Equal(t, &Voice{Codes: codes, Text: "Nice to meet you.", RMS: 0.04}, v)
	file := filepath.Join(t.TempDir(), "v.safetensors")
	require.NoError(t, p.WriteVoice(file, v))
	again, err := p.ReadVoice(file)
	require.NoError(t, err)
	require.Equal(t, v, again)

	v.Codes[3] = 64
	require.NoError(t, p.WriteVoice(file, v))
	_, err = p.ReadVoice(file)
	refusal.RequireText(t, err, "code is 64,")
	_, err = p.ReadVoice(filepath.Join(p.Folder(), "model.safetensors"))
	refusal.RequireText(t, err, `there is no tensor "codes"`)
	_, err = p.ReadVoice(filepath.Join(p.Folder(), "config.json"))
	require.Error(t, err)
	_, err = p.Prompt(Utterance{Text: "Hi", Voice: &Voice{Codes: []int32{1, 2}}})
	require.ErrorContains(t, err, "voice has 2 codes, want frames of 8")
}
