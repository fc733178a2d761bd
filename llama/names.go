package llama

import (
	"unmask/nn"
	"unmask/weights"
)

// The tensors' names in published checkpoints. Fields point to the parameters of a Model.

// lladaNames are those of LLaDA.
type lladaNames struct {
	Embedding *weights.Param `weight:"model.transformer.wte.weight"` // [rows, hidden]
	Blocks    []lladaBlock   `weight:"model.transformer.blocks"`
	Final     *weights.Param `weight:"model.transformer.ln_f.weight"`   // [hidden]
	Head      *weights.Param `weight:"model.transformer.ff_out.weight"` // [rows, hidden]
}

type lladaBlock struct {
	Norm1 *weights.Param `weight:"attn_norm.weight"` // [hidden]
	Q     *weights.Param `weight:"q_proj.weight"`    // [heads*headDim, hidden]
	K     *weights.Param `weight:"k_proj.weight"`    // [kv*headDim, hidden]
	V     *weights.Param `weight:"v_proj.weight"`    // [kv*headDim, hidden]
	Out   *weights.Param `weight:"attn_out.weight"`  // [hidden, heads*headDim]
	Norm2 *weights.Param `weight:"ff_norm.weight"`   // [hidden]
	Gate  *weights.Param `weight:"ff_proj.weight"`   // [mlp, hidden]
	Up    *weights.Param `weight:"up_proj.weight"`   // [mlp, hidden]
	Down  *weights.Param `weight:"ff_out.weight"`    // [hidden, mlp]
}

func (m *Model) lladaNames() any {
	n := &lladaNames{Embedding: &m.Embedding.Weight, Final: &m.Final.Weight, Head: &m.Head}
	for i := range m.Blocks {
		b := &m.Blocks[i]
		n.Blocks = append(n.Blocks, lladaBlock{
			Norm1: &b.Norm1.Weight, Q: &b.Q.Weight, K: &b.K.Weight, V: &b.V.Weight, Out: &b.Out.Weight,
			Norm2: &b.Norm2.Weight, Gate: &b.MLP.Gate.Weight, Up: &b.MLP.Up.Weight, Down: &b.MLP.Down.Weight,
		})
	}
	return n
}

// qwenNames are those of Qwen2, Qwen3 and Llama.
type qwenNames struct {
	Trunk trunkNames     `weight:"model"`
	Head  *weights.Param `weight:"lm_head.weight"` // [rows, hidden]
}

// trunkNames are those of all but the head.
type trunkNames struct {
	Embedding *weights.Param `weight:"embed_tokens.weight"` // [rows, hidden]
	Blocks    []qwenBlock    `weight:"layers"`
	Final     *weights.Param `weight:"norm.weight"` // [hidden]
}

func (m *Model) trunkNames() trunkNames {
	return trunkNames{Embedding: &m.Embedding.Weight, Final: &m.Final.Weight, Blocks: m.qwenBlocks()}
}

type qwenBlock struct {
	Norm1 *weights.Param `weight:"input_layernorm.weight"`          // [hidden]
	Q     *weights.Param `weight:"self_attn.q_proj.weight"`         // [heads*headDim, hidden]
	K     *weights.Param `weight:"self_attn.k_proj.weight"`         // [kv*headDim, hidden]
	V     *weights.Param `weight:"self_attn.v_proj.weight"`         // [kv*headDim, hidden]
	QBias *weights.Param `weight:"self_attn.q_proj.bias"`           // [heads*headDim]
	KBias *weights.Param `weight:"self_attn.k_proj.bias"`           // [kv*headDim]
	VBias *weights.Param `weight:"self_attn.v_proj.bias"`           // [kv*headDim]
	QNorm *weights.Param `weight:"self_attn.q_norm.weight"`         // [headDim]
	KNorm *weights.Param `weight:"self_attn.k_norm.weight"`         // [headDim]
	Out   *weights.Param `weight:"self_attn.o_proj.weight"`         // [hidden, heads*headDim]
	Norm2 *weights.Param `weight:"post_attention_layernorm.weight"` // [hidden]

	MLP     *nn.GatedMLP `weight:"mlp"` // in blocks without experts
	Experts *experts     `weight:"mlp"` // in the others
}

// nemotronNames are those of Nemotron-Labs-Diffusion.
type nemotronNames struct {
	Trunk trunkNames     `weight:"encoder"`
	Head  *weights.Param `weight:"diffusion_head.weight"` // [rows, hidden]
}

func (m *Model) nemotronNames() any { return &nemotronNames{m.trunkNames(), &m.Head} }

func (m *Model) qwenNames() any { return &qwenNames{m.trunkNames(), &m.Head} }

func (m *Model) qwenBlocks() (blocks []qwenBlock) {
	for i := range m.Blocks {
		b := &m.Blocks[i]
		blocks = append(blocks, qwenBlock{
			Norm1: &b.Norm1.Weight, Q: &b.Q.Weight, K: &b.K.Weight, V: &b.V.Weight,
			QBias: &b.Q.Bias, KBias: &b.K.Bias, VBias: &b.V.Bias, QNorm: &b.QNorm.Weight,
			KNorm: &b.KNorm.Weight,
			Out:   &b.Out.Weight, Norm2: &b.Norm2.Weight, Experts: b.Experts, MLP: b.plain(),
		})
	}
	return blocks
}

// llada2Names are those of LLaDA2.
type llada2Names struct {
	Embedding *weights.Param `weight:"model.word_embeddings.weight"` // [rows, hidden]
	Blocks    []llada2Block  `weight:"model.layers"`
	Final     *weights.Param `weight:"model.norm.weight"` // [hidden]
	Head      *weights.Param `weight:"lm_head.weight"`    // [rows, hidden]
}

type llada2Block struct {
	Norm1 *weights.Param `weight:"input_layernorm.weight"` // [hidden]
	// [(heads+2*kv)*headDim, hidden]
	QKV     *weights.Param `weight:"attention.query_key_value.weight"`
	QNorm   *weights.Param `weight:"attention.query_layernorm.weight"` // [headDim]
	KNorm   *weights.Param `weight:"attention.key_layernorm.weight"`   // [headDim]
	Out     *weights.Param `weight:"attention.dense.weight"`           // [hidden, heads*headDim]
	Norm2   *weights.Param `weight:"post_attention_layernorm.weight"`  // [hidden]
	MLP     *nn.GatedMLP   `weight:"mlp"`                              // in the first blocks
	Experts *experts       `weight:"mlp"`                              // in the other blocks
}

func (m *Model) llada2Names() any {
	n := &llada2Names{Embedding: &m.Embedding.Weight, Final: &m.Final.Weight, Head: &m.Head}
	for i := range m.Blocks {
		b := &m.Blocks[i]
		n.Blocks = append(n.Blocks, llada2Block{
			Norm1: &b.Norm1.Weight, QKV: &b.Q.Weight, QNorm: &b.QNorm.Weight, KNorm: &b.KNorm.Weight,
			Out: &b.Out.Weight, Norm2: &b.Norm2.Weight, Experts: b.Experts, MLP: b.plain(),
		})
	}
	return n
}

// names returns the kind's table of tensor names.
func (m *Model) names() any {
	if m.cfg.kind.names == nil {
		return m.qwenNames()
	}
	return m.cfg.kind.names(m)
}

// plain returns the MLP of a block without experts, nil of one with them.
func (b *block) plain() *nn.GatedMLP {
	if b.Experts != nil {
		return nil
	}
	return &b.MLP
}
