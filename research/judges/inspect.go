package judges

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"unmask"
	"unmask/backend"
	"unmask/backend/plain"
	"unmask/catalog"
	"unmask/exact"
	"unmask/generate/footprint"
	"unmask/internal/atomicfile"
	"unmask/internal/quant"
	"unmask/media/codecs/clip"
	"unmask/model"
	"unmask/prompt"
	"unmask/research/metrics/inception"
	"unmask/weights"
	"unmask/weights/gguf"
	"unmask/weights/hub"
)

// Report describes a model or a judge.
type Report struct {
	Model string `json:"model"`
	model.Info
	DTypes map[string]int `json:"dtypes"` // number of tensors of each type
	Bytes  int            `json:"bytes"`

	// Memory is how many bytes the weights take, by precision.
	Memory map[string]int64 `json:"memory,omitempty"`

	// Multiplications is about how many a pass of a model of text over Positions positions is.
	Multiplications int64 `json:"multiplications,omitempty"`
	Positions       int   `json:"positions,omitempty"`

	// Recipe is the run of a model that generates where nothing else is asked for, and Presets are
	// others by name.
	Recipe  string            `json:"recipe,omitempty"`
	Presets map[string]string `json:"presets,omitempty"`

	// Entropy is that of a sequence of an exact model, with its standard error, in nats.
	Entropy      *float64 `json:"entropy,omitempty"`
	EntropyError float64  `json:"entropy_error,omitempty"`

	text *prompt.Text // nil if the model is not one of text
}

// Inspect describes what is at name: a model, a judge of text or of pictures, a codec of pictures
// or a text encoder. It reads headers and small tensors, not the values of large matrices, so it
// takes a second whatever the model's size. kind is the kind to read it as, see unmask.Options.
func Inspect(ctx context.Context, name, kind string,
	progress func(hub.Progress)) (*Report, error) {
	if catalog.IsExact(name) {
		return inspectExact(ctx, name)
	}
	device := inspectDevice{plain.New().(*plain.Device), new(atomic.Int64)}
	device.budget.Store(maxKept)
	o := unmask.Options{Backend: device, Progress: progress, As: kind}
	r := &Report{Model: name, DTypes: map[string]int{}}
	set, err := r.inspectFiles(ctx, name, o)
	if err != nil {
		return nil, err
	}
	defer set.Close()

	for _, name := range set.Names() {
		t, _ := set.Get(name)
		if t.Name != name { // another name of a tensor
			continue
		}
		r.DTypes[string(t.DType)]++
		r.Bytes += len(t.Data)
		if len(t.Shape) > 1 {
			r.Multiplications += int64(t.Numel()) * int64(r.Positions)
		}
	}
	if r.Sizes["experts"] > 0 { // a position uses a few of them
		r.Multiplications = 0
	}
	r.Memory = map[string]int64{}
	for _, p := range []backend.Precision{backend.F32, backend.BF16, backend.Int8} {
		r.Memory[p.String()] = footprint.WeightBytes(set)(p)
	}
	for _, dtype := range slices.Sorted(maps.Keys(r.DTypes)) {
		q, ok := quant.Parse(dtype)
		if !ok || q == q.ProductType() {
			continue
		}
		difference := "the same values"
		if q.LosesPrecision() {
			difference = "rounded to a 127th of the largest of 32 values"
		}
		r.Notes = append(r.Notes, fmt.Sprintf("%v is held in memory as %v: %s", q, q.ProductType(),
			difference))
	}
	return r, nil
}

// ConvertToGGUF is gguf.Convert, but refuses a folder that the loader refuses, and one whose model
// or tokenizer would be another in the file.
func ConvertToGGUF(ctx context.Context, dir, file, mixture string) error {
	if err := atomicfile.CheckPlace(file); err != nil {
		return err
	}

	// Checked under another name first, which ends in .gguf because Inspect goes by that.
	hidden := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".tmp.gguf")
	if err := gguf.Convert(ctx, dir, hidden, mixture); err != nil {
		return err
	}
	defer os.Remove(hidden)
	original, err := Inspect(ctx, dir, "", nil)
	if err != nil {
		return err
	}
	converted, err := Inspect(ctx, hidden, "", nil)
	if err == nil {
		err = original.checkConverted(converted)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	if err := os.Rename(hidden, file); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(file))
}

// probes are texts that tokenizers divide or change in different ways.
var probes = []string{"Hello HELLO world", "e\u0301 \u212b \ufb01", "  two blanks", "don't DON'T",
	"1234567 x\u00b2", "a,b (c)!? x_y", "line\r\n\n  next\u2028\u00a0", "\u65e5\u672c\u8a9e",
	"\U0001f469\u200d\U0001f467"}

// checkConverted returns an error unless the GGUF file made from a model is of the same one. Its
// vocabulary has the rows of padding too.
func (r *Report) checkConverted(file *Report) error {
	for _, name := range slices.Sorted(maps.Keys(r.Sizes)) {
		want := r.Sizes[name]
		if got := file.Sizes[name]; got != want && name != "vocabulary" {
			return fmt.Errorf("%s is %d in a GGUF file, want %d", name, got, want)
		}
	}
	want := fmt.Sprint(r.Recipe, r.Presets)
	if got := fmt.Sprint(file.Recipe, file.Presets); got != want {
		return fmt.Errorf("recipe is %s in a GGUF file, want %s", got, want)
	}
	if file.Tokenizer == "" && r.Tokenizer != "tokenizer.json" { // no other is taken
		return nil
	}

	texts := probes
	for id := range r.text.VocabSize() {
		token, _ := r.text.Token(int32(id))
		texts = append(texts, "a"+token+"b "+token+" c") // an added token may need or take blanks
	}
	for _, text := range texts {
		// A text that a tokenizer refuses has no ids.
		want, _ := r.text.EncodeSpecial(text)
		got, _ := file.text.EncodeSpecial(text)
		if !slices.Equal(got, want) {
			return fmt.Errorf("tokenizer.json: %.40q has other tokens in a GGUF file, want a tokenizer that "+
				"it can hold", text)
		}
	}
	return nil
}

// inspectFiles loads what is at name as whatever it may be: a model first, then a judge of text, a
// judge of pictures, a codec and a text encoder. If it is none of them, the error is that of a
// model, which is what most users meant.
func (r *Report) inspectFiles(ctx context.Context, name string, o unmask.Options) (*weights.Set,
	error) {
	m, modelErr := unmask.Load(ctx, name, o)
	if modelErr == nil {
		recipe, err := m.Defaults()
		if err != nil {
			m.Source.Set.Close()
			return nil, err
		}
		r.Info = m.Info
		r.Presets = m.Presets
		r.Recipe = recipe.String()
		r.text = m.Text
		if m.Text != nil {
			r.Positions = m.Spec().DefaultLength()
		}
		return m.Source.Set, nil
	}
	if judge, err := LoadTextJudge(ctx, name, Options{Backend: o.Backend}); err == nil {
		r.Info = judge.Info()
		return judge.Source().Set, nil
	}
	if x, set, err := openInception(name, Options{Backend: o.Backend}); err == nil {
		r.Info = model.Info{
			Architecture: "inception-v3, a judge of pictures",
			Parameters:   model.Parameters(set.Names(), set),
			Sizes:        map[string]int{"features": x.Width(), "classes": inception.Classes},
		}
		return set, nil
	}
	src, err := catalog.Open(ctx, name, o.Progress)
	if err != nil {
		return nil, modelErr
	}
	if info, err := model.InspectCodec(src, model.Options{Backend: o.Backend}); err == nil {
		r.Info = info
		return src.Set, nil
	}
	text, tokenizer, err := clip.Open(src, model.Options{Backend: o.Backend})
	if err != nil {
		src.Set.Close()
		return nil, modelErr
	}
	r.Info = encoderInfo(src, text, tokenizer)
	return src.Set, nil
}

// encoderInfo describes a text encoder.
func encoderInfo(src *model.Source, text *clip.TextEncoder,
	tokenizer func() (*clip.Tokenizer, error)) model.Info {
	c := text.Config()
	info := model.Info{
		Architecture: "clip, a text encoder",
		Parameters:   model.Parameters(src.Set.Names(), src.Set),
		Sizes: map[string]int{
			"hidden":     c.Hidden,
			"depth":      c.Depth,
			"heads":      c.Heads,
			"length":     c.Rows,
			"vocabulary": c.IDs,
			"pooled":     c.Pooled,
		},
	}
	if t, err := tokenizer(); err != nil {
		info.Notes = append(info.Notes, err.Error())
	} else {
		info.Tokenizer = fmt.Sprintf("CLIP's, %d ids", t.VocabSize())
	}
	return info
}

// inspectExact describes an exact model.
func inspectExact(ctx context.Context, name string) (*Report, error) {
	m, err := unmask.Load(ctx, name, unmask.Options{})
	if err != nil {
		return nil, err
	}
	nats, deviation := m.Denoiser.(*exact.Denoiser).Model.Entropy()
	return &Report{
		Model:        name,
		Info:         m.Info,
		DTypes:       map[string]int{},
		Entropy:      &nats,
		EntropyError: deviation,
	}, nil
}

// String returns a line for each field.
func (r *Report) String() string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-13s "+format+"\n", append([]any{name}, args...)...)
	}
	line("model", "%s", r.Model)
	line("architecture", "%s", r.Architecture)
	switch {
	case r.Entropy != nil && r.EntropyError > 0:
		line("entropy", "%.4g ± %.2g nats a sequence", *r.Entropy, r.EntropyError)
	case r.Entropy != nil:
		line("entropy", "%.6g nats a sequence", *r.Entropy)
	default:
		line("parameters", "%d", r.Parameters)
		line("bytes", "%d", r.Bytes)
	}
	if r.Memory != nil {
		gb := func(precision string) float64 { return float64(r.Memory[precision]) / 1e9 }
		line("memory", "%.3g GB in f32, %.3g GB in bf16, %.3g GB in int8", gb("f32"), gb("bf16"),
			gb("int8"))
	}
	if r.Multiplications > 0 {
		line("a pass", "%.3g G multiplications for %d positions; unmask bench says how many a second",
			float64(r.Multiplications)/1e9, r.Positions)
	}
	for _, size := range slices.Sorted(maps.Keys(r.Sizes)) {
		line(size, "%d", r.Sizes[size])
	}
	for _, dtype := range slices.Sorted(maps.Keys(r.DTypes)) {
		line(dtype, "%d tensors", r.DTypes[dtype])
	}
	if r.Tokenizer != "" {
		line("tokenizer", "%s", r.Tokenizer)
	}
	if r.Recipe != "" {
		line("recipe", "%s", r.Recipe)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Presets)) {
		line("preset "+name, "%s", r.Presets[name])
	}
	if r.Entropy == nil {
		line("unused", "%s", cmp.Or(strings.Join(r.Unused, " "), "none"))
	}
	for _, note := range r.Notes {
		line("note", "%s", note)
	}
	return b.String()
}
