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

	// Bytes of memory that the weights take, by precision; and of a model of text, about how many
	// multiplications a pass over Positions positions is.
	Memory          map[string]int64 `json:"memory,omitempty"`
	Multiplications int64            `json:"multiplications,omitempty"`
	Positions       int              `json:"positions,omitempty"`

	// Of a model that generates, the run where nothing else is asked for, and others by name.
	Recipe  string            `json:"recipe,omitempty"`
	Presets map[string]string `json:"presets,omitempty"`

	// Of an exact model, the entropy of a sequence and its standard error, nats.
	Entropy      *float64 `json:"entropy,omitempty"`
	EntropyError float64  `json:"entropy_error,omitempty"`

	text *prompt.Text // nil if the model is not one of text
}

// Inspect describes what is at name: a model, a judge of text or of pictures, a codec of pictures
// or a text encoder. It reads headers and small tensors, not the values of large matrices.
// As is the kind to read them as, see unmask.Options.
func Inspect(ctx context.Context, name, as string, progress func(hub.Progress)) (*Report, error) {
	if catalog.IsExact(name) {
		return inspectExact(ctx, name)
	}
	device := reading{plain.New().(*plain.Device), new(atomic.Int64)}
	device.left.Store(mostSmall)
	o := unmask.Options{Backend: device, Progress: progress, As: as}
	r := &Report{Model: name, DTypes: map[string]int{}}
	set, err := r.inspectFiles(ctx, name, o)
	if err != nil {
		return nil, err
	}
	defer set.Close()
	for _, n := range set.Names() {
		t, _ := set.Get(n)
		if t.Name != n { // another name of a tensor
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
	for _, d := range slices.Sorted(maps.Keys(r.DTypes)) {
		if q, ok := quant.Parse(d); ok && q != q.ProductType() {
			how := "the same values"
			if q.LosesPrecision() {
				how = "rounded to a 127th of the largest of 32 values"
			}
			r.Notes = append(r.Notes, fmt.Sprintf("%v is held in memory as %v: %s", q, q.ProductType(), how))
		}
	}
	return r, nil
}

// ConvertToGGUF is gguf.Convert, but refuses a folder that the loader refuses, and one whose model
// or tokenizer would be another in the file.
func ConvertToGGUF(ctx context.Context, dir, file, recipe string) error {
	if err := atomicfile.CheckPlace(file); err != nil {
		return err
	}
	hidden := filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".tmp.gguf")
	if err := gguf.Convert(ctx, dir, hidden, recipe); err != nil {
		return err
	}
	defer os.Remove(hidden)
	want, err := Inspect(ctx, dir, "", nil)
	if err != nil {
		return err
	}
	got, err := Inspect(ctx, hidden, "", nil)
	if err == nil {
		err = want.sameIn(got)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return cmp.Or(os.Rename(hidden, file), atomicfile.SyncDir(filepath.Dir(file)))
}

// probes are texts that tokenizers divide or change in different ways.
var probes = []string{"Hello HELLO world", "e\u0301 \u212b \ufb01", "  two blanks", "don't DON'T",
	"1234567 x\u00b2", "a,b (c)!? x_y", "line\r\n\n  next\u2028\u00a0", "\u65e5\u672c\u8a9e",
	"\U0001f469\u200d\U0001f467"}

// sameIn returns an error unless the GGUF file made from a model is of the same one. Its vocabulary
// has the rows of padding too.
func (r *Report) sameIn(file *Report) error {
	for _, name := range slices.Sorted(maps.Keys(r.Sizes)) {
		was, is := r.Sizes[name], file.Sizes[name]
		if is != was && name != "vocabulary" {
			return fmt.Errorf("%s is %d in a GGUF file, want %d", name, is, was)
		}
	}
	if was, is := fmt.Sprint(r.Recipe, r.Presets), fmt.Sprint(file.Recipe, file.Presets); is != was {
		return fmt.Errorf("recipe is %s in a GGUF file, want %s", is, was)
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
		was, _ := r.text.EncodeSpecial(text)
		if is, _ := file.text.EncodeSpecial(text); !slices.Equal(is, was) { // errors have no ids
			return fmt.Errorf("tokenizer.json: %.40q has other tokens in a GGUF file, want a tokenizer that "+
				"it can hold", text)
		}
	}
	return nil
}

// inspectFiles loads what is at name as whatever it may be. The error is that of a model.
func (r *Report) inspectFiles(ctx context.Context, name string, o unmask.Options) (*weights.Set,
	error) {
	m, err := unmask.Load(ctx, name, o)
	if err == nil {
		r.Info, r.Presets = m.Info, m.Presets
		recipe, err := m.Defaults()
		if err != nil {
			m.Source.Set.Close()
			return nil, err
		}
		r.Recipe, r.text = recipe.String(), m.Text
		if m.Text != nil {
			r.Positions = m.Spec().DefaultLength()
		}
		return m.Source.Set, nil
	}
	judge, none := LoadTextJudge(ctx, name, Options{Backend: o.Backend})
	if none == nil {
		r.Info = judge.Info()
		return judge.Source().Set, nil
	}
	if x, set, none := openInception(name, Options{Backend: o.Backend}); none == nil {
		r.Info = model.Info{Architecture: "inception-v3, a judge of pictures",
			Parameters: model.Parameters(set.Names(), set),
			Sizes:      map[string]int{"features": x.Width(), "classes": inception.Classes}}
		return set, nil
	}
	src, none := catalog.Open(ctx, name, o.Progress)
	if none != nil {
		return nil, err
	}
	if r.Info, none = model.InspectCodec(src, model.Options{Backend: o.Backend}); none == nil {
		return src.Set, nil
	}
	if text, tokenizer, none := clip.Open(src, model.Options{Backend: o.Backend}); none == nil {
		r.Info = encoderInfo(src, text, tokenizer)
		return src.Set, nil
	}
	src.Set.Close()
	return nil, err
}

// encoderInfo describes a text encoder.
func encoderInfo(src *model.Source, text *clip.TextEncoder,
	tokenizer func() (*clip.Tokenizer, error)) model.Info {
	c := text.Config()
	info := model.Info{Architecture: "clip, a text encoder",
		Parameters: model.Parameters(src.Set.Names(), src.Set),
		Sizes: map[string]int{"hidden": c.Hidden, "depth": c.Depth, "heads": c.Heads, "length": c.Rows,
			"vocabulary": c.IDs, "pooled": c.Pooled}}
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
	r := &Report{Model: name, Info: m.Info, DTypes: map[string]int{}}
	nats, deviation := m.Denoiser.(*exact.Denoiser).Model.Entropy()
	r.Entropy, r.EntropyError = &nats, deviation
	return r, nil
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
