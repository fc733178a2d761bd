package llama

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/model"
	"unmask/nn"
	"unmask/weights"
)

// draftFolder has Nemotron-Labs-Diffusion's low-rank adapter for drafts, in the form of the library
// peft (Hu et al. 2021, "LoRA: low-rank adaptation of large language models").
const draftFolder = "linear_spec_lora"

// maxAdapter is the largest file of an adapter, in bytes.
const maxAdapter = 1 << 32

// adapter adds factor * B(A x) to the output of a linear layer.
type adapter struct {
	A nn.Linear `weight:"self_attn.o_proj.lora_A"` // [rank, heads*headDim]
	B nn.Linear `weight:"self_attn.o_proj.lora_B"` // [hidden, rank]

	factor float32 // alpha/rank
}

// packWeights packs both matrices, with the factor folded into the second.
func (a *adapter) packWeights(l *nn.Loader) {
	a.A.Load(l)
	a.B.LoadGated(l, slices.Repeat([]float32{a.factor}, a.B.Weight.Shape[0]))
}

// addOutput computes dst[:rows] += factor * B(A x[:rows]), dst [rows, hidden] and x [rows,
// heads*headDim]. low is scratch memory, which grows to [rows, rank].
func (a *adapter) addOutput(b backend.Backend, dst *tensor.Dense, low **tensor.Dense,
	x *tensor.Dense, rows int) {
	*low = backend.Grow(b, *low, rows, a.A.Weight.Shape[0])
	a.A.Apply(b, *low, x, rows, backend.Identity)
	a.B.AddTo(b, dst, *low, rows)
}

// bindDraft reads the adapter beside the weights, if there is one.
func (m *Model) bindDraft(src *model.Source) error {
	if m.cfg.Causal != model.NextToken || src.Files == nil { // only these write drafts
		return nil
	}
	files, err := fs.Sub(src.Files, draftFolder)
	if err != nil {
		return err
	}
	rank, factor, err := readAdapterConfig(files)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	const file = "adapter_model.safetensors"
	data, err := model.ReadFile(files, file, maxAdapter)
	if err != nil {
		return fmt.Errorf("%s/%s: %w", draftFolder, file, err)
	}
	set, err := weights.Parse(data, draftFolder+"/"+file)
	if err != nil {
		return err
	}
	var adapters struct {
		Blocks []*adapter `weight:"base_model.model.encoder.layers"`
	}
	for i := range m.Blocks {
		a := &adapter{
			A:      nn.NewLinearNoBias(m.cfg.Heads*m.cfg.HeadDim, rank),
			B:      nn.NewLinearNoBias(rank, m.cfg.Hidden),
			factor: factor,
		}
		m.Blocks[i].Draft = a
		adapters.Blocks = append(adapters.Blocks, a)
	}
	if err := weights.Bind(&adapters, set, weights.BindOptions{}); err != nil {
		return fmt.Errorf("%s: %w", draftFolder, err)
	}
	return nil
}

// readAdapterConfig reads the rank of an adapter and its factor. The error of a missing file wraps
// fs.ErrNotExist.
func readAdapterConfig(files fs.FS) (rank int, factor float32, err error) {
	data, err := model.ReadFile(files, "adapter_config.json", 1<<20)
	if err != nil {
		return 0, 0, err
	}
	f := &model.Values{Path: draftFolder + "/adapter_config.json"}
	if err := json.Unmarshal(data, &f.Keys); err != nil {
		return 0, 0, fmt.Errorf("%s: %w", f.Path, err)
	}
	f.RequireValues(map[string]any{
		"use_rslora":     false,
		"use_dora":       false,
		"bias":           "none",
		"fan_in_fan_out": false,
		"peft_type":      "LORA",
	})
	var targets []string
	f.Read("target_modules", &targets, "a list")
	if f.Err == nil && (len(targets) != 1 || targets[0] != "o_proj") {
		f.Fail("target_modules is %s, want [\"o_proj\"]", f.Excerpt("target_modules"))
	}

	// The product of the two matrices counts alpha/r times (Hu et al. 2021, "LoRA", section 4.1).
	rank = f.BoundedInt("r", 0, 1, maxSize)
	factor = float32(f.PositiveNumber("lora_alpha", 0) / float64(max(rank, 1)))
	return rank, factor, f.Err
}
