package bench

import (
	"fmt"

	"unmask/backend"
	"unmask/families/llama"
	"unmask/model"
)

// The sizes of Qwen3-0.6B (dllm-hub/Qwen3-0.6B-diffusion-*), with a quarter of its blocks and of
// its vocabulary, so that a pass and its head keep their shares.
const (
	qwenHidden = 1024
	qwenMLP    = 3072
	qwenHeads  = 16
	qwenKV     = 8
	qwenHead   = 128
	qwenBlocks = 28 / 4
	qwenVocab  = 151936 / 4
	qwenRows   = 64
)

// qwenWeights is the number of weights in the products of a block.
const qwenWeights = 2*qwenHidden*qwenHead*(qwenHeads+qwenKV) + 3*qwenHidden*qwenMLP

// qwenMeasurements returns a step of a small chat model in each precision, which shows the ratio of
// their speeds on this processor.
func qwenMeasurements() []Measurement {
	var out []Measurement
	for _, p := range precisions {
		out = append(out, Measurement{"step64/qwen3-0.6b/" + p.String(),
			func(s *Suite) (work, error) { return s.measureStep(p) }})
	}
	return out
}

// measureStep measures a full pass over 64 masked positions and the head's two most probable tokens
// at each.
func (s *Suite) measureStep(p backend.Precision) (work, error) {
	m, err := s.loadNetwork("qwen3-0.6b", p)
	if err != nil {
		return work{}, err
	}
	stats := model.Stats{
		P1:  make([]float64, qwenRows),
		P2:  make([]float64, qwenRows),
		Arg: make([]int32, qwenRows),
	}

	// Each weight is a multiplication and an addition, and so is each number of a key and of a value
	// that a row's heads see.
	ops := float64(qwenRows) * (qwenBlocks*(2*qwenWeights+4*qwenRows*qwenHeads*qwenHead) +
		2*qwenHidden*qwenVocab)
	return work{run: fullPass(m, 1, stats), cost: cost{ops: ops, precision: p}}, nil
}

// newQwen returns the model without weights.
func newQwen() any {
	return &struct {
		Model *llama.Model `weight:"model"`
	}{llama.New(llama.Config{
		Layers:        qwenBlocks,
		Hidden:        qwenHidden,
		MLP:           qwenMLP,
		Heads:         qwenHeads,
		KVHeads:       qwenKV,
		HeadDim:       qwenHead,
		EmbeddingRows: qwenVocab,
		QKNorm:        true,
		Tied:          true,
	})}
}

var qwenConfig = fmt.Sprintf(`{"model_type":"a2d-qwen3","hidden_size":%d,
	"num_hidden_layers":%d,"num_attention_heads":%d,"num_key_value_heads":%d,"head_dim":%d,
	"intermediate_size":%d,"vocab_size":%d,"max_position_embeddings":%d,"rms_norm_eps":1e-6,
	"rope_theta":1e6,"tie_word_embeddings":true,"mask_token_id":%d,"eos_token_id":%d}`, qwenHidden,
	qwenBlocks, qwenHeads, qwenKV, qwenHead, qwenMLP, qwenVocab, qwenRows, qwenVocab-1, qwenVocab-2)
