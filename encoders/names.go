package encoders

import (
	"unmask/nn"
	"unmask/weights"
)

// The tensors' names in published checkpoints. Fields point to the parameters of a Model.

// bertNames are those of transformers' BERT, and of RoBERTa and ESM-2 with other heads.
type bertNames struct {
	Words    *weights.Param `weight:"embeddings.word_embeddings.weight"`
	Position *weights.Param `weight:"embeddings.position_embeddings.weight"`
	Types    *weights.Param `weight:"embeddings.token_type_embeddings.weight"`
	Norm     *nn.LayerNorm  `weight:"embeddings.LayerNorm"`
	Blocks   []bertBlock    `weight:"encoder.layer"`
	Final    *nn.LayerNorm  `weight:"encoder.emb_layer_norm_after"`
}

type bertBlock struct {
	Q     *nn.Linear    `weight:"attention.self.query"`
	K     *nn.Linear    `weight:"attention.self.key"`
	V     *nn.Linear    `weight:"attention.self.value"`
	Out   *nn.Linear    `weight:"attention.output.dense"`
	Up    *nn.Linear    `weight:"intermediate.dense"`
	Down  *nn.Linear    `weight:"output.dense"`
	Norm1 *nn.LayerNorm `weight:"attention.output.LayerNorm"`
	Norm2 *nn.LayerNorm `weight:"output.LayerNorm"`
	Pre1  *nn.LayerNorm `weight:"attention.LayerNorm"` // ESM-2
	Pre2  *nn.LayerNorm `weight:"LayerNorm"`           // ESM-2
}

func (m *Model) bertNames() *bertNames {
	n := &bertNames{Words: &m.Words, Position: &m.Positions, Types: &m.Types, Norm: &m.EmbedNorm,
		Final: &m.Final}
	for i := range m.Blocks {
		b := &m.Blocks[i]
		k := bertBlock{Q: &b.Q, K: &b.K, V: &b.V, Out: &b.Out, Up: &b.Up, Down: &b.Down}
		if m.cfg.Pre {
			k.Pre1, k.Pre2 = &b.Norm1, &b.Norm2
		} else {
			k.Norm1, k.Norm2 = &b.Norm1, &b.Norm2
		}
		n.Blocks = append(n.Blocks, k)
	}
	return n
}

func bert(m *Model) any {
	type transform struct {
		Dense *nn.Linear    `weight:"dense"`
		Norm  *nn.LayerNorm `weight:"LayerNorm"`
	}
	return &struct {
		Body    *bertNames     `weight:"bert"`
		Head    transform      `weight:"cls.predictions.transform"`
		Decoder *weights.Param `weight:"cls.predictions.decoder.weight"`
		Bias    *weights.Param `weight:"cls.predictions.bias"`
	}{m.bertNames(), transform{&m.Dense, &m.HeadNorm}, &m.Decoder, &m.Bias}
}

// lmHead is the head of RoBERTa and ESM-2 in transformers.
type lmHead struct {
	Dense   *nn.Linear     `weight:"dense"`
	Norm    *nn.LayerNorm  `weight:"layer_norm"`
	Decoder *weights.Param `weight:"decoder.weight"`
	Bias    *weights.Param `weight:"bias"`
}

func (m *Model) lmHead() lmHead { return lmHead{&m.Dense, &m.HeadNorm, &m.Decoder, &m.Bias} }

func roberta(m *Model) any {
	return &struct {
		Body *bertNames `weight:"roberta"`
		Head lmHead     `weight:"lm_head"`
	}{m.bertNames(), m.lmHead()}
}

func esm(m *Model) any {
	return &struct {
		Body *bertNames `weight:"esm"`
		Head lmHead     `weight:"lm_head"`
	}{m.bertNames(), m.lmHead()}
}

// fairseqBlock has the names of fairseq's RoBERTa.
type fairseqBlock struct {
	Q     *nn.Linear    `weight:"self_attn.q_proj"`
	K     *nn.Linear    `weight:"self_attn.k_proj"`
	V     *nn.Linear    `weight:"self_attn.v_proj"`
	Out   *nn.Linear    `weight:"self_attn.out_proj"`
	Norm1 *nn.LayerNorm `weight:"self_attn_layer_norm"`
	Up    *nn.Linear    `weight:"fc1"`
	Down  *nn.Linear    `weight:"fc2"`
	Norm2 *nn.LayerNorm `weight:"final_layer_norm"`
}

func fairseq(m *Model) any {
	type body struct {
		Words    *weights.Param `weight:"embed_tokens.weight"`
		Position *weights.Param `weight:"embed_positions.weight"`
		Norm     *nn.LayerNorm  `weight:"emb_layer_norm"`
		Blocks   []fairseqBlock `weight:"layers"`
	}
	type head struct {
		Dense   *nn.Linear     `weight:"dense"`
		Norm    *nn.LayerNorm  `weight:"layer_norm"`
		Decoder *weights.Param `weight:"weight"`
		Bias    *weights.Param `weight:"bias"`
	}
	n := &struct {
		Body body `weight:"sentence_encoder"`
		Head head `weight:"lm_head"`
	}{body{&m.Words, &m.Positions, &m.EmbedNorm, nil},
		head{&m.Dense, &m.HeadNorm, &m.Decoder, &m.Bias}}
	for i := range m.Blocks {
		b := &m.Blocks[i]
		n.Body.Blocks = append(n.Body.Blocks, fairseqBlock{&b.Q, &b.K, &b.V, &b.Out, &b.Norm1, &b.Up,
			&b.Down, &b.Norm2})
	}
	return n
}

// albertBlock has the names of transformers' ALBERT.
type albertBlock struct {
	Q     *nn.Linear    `weight:"attention.query"`
	K     *nn.Linear    `weight:"attention.key"`
	V     *nn.Linear    `weight:"attention.value"`
	Out   *nn.Linear    `weight:"attention.dense"`
	Norm1 *nn.LayerNorm `weight:"attention.LayerNorm"`
	Up    *nn.Linear    `weight:"ffn"`
	Down  *nn.Linear    `weight:"ffn_output"`
	Norm2 *nn.LayerNorm `weight:"full_layer_layer_norm"`
}

func albert(m *Model) any {
	type group struct {
		Blocks []albertBlock `weight:"albert_layers"`
	}
	type head struct {
		Dense   *nn.Linear     `weight:"dense"`
		Norm    *nn.LayerNorm  `weight:"LayerNorm"`
		Decoder *weights.Param `weight:"decoder.weight"`
		Bias    *weights.Param `weight:"bias"`
	}
	n := &struct {
		Body   *bertNames `weight:"albert"` // its embeddings
		Widen  *nn.Linear `weight:"albert.encoder.embedding_hidden_mapping_in"`
		Groups []group    `weight:"albert.encoder.albert_layer_groups"`
		Head   head       `weight:"predictions"`
	}{m.bertNames(), &m.Widen, make([]group, m.cfg.Groups),
		head{&m.Dense, &m.HeadNorm, &m.Decoder, &m.Bias}}
	n.Body.Blocks = nil
	for i := range m.Blocks {
		b, g := &m.Blocks[i], &n.Groups[i/m.cfg.Inner]
		g.Blocks = append(g.Blocks, albertBlock{&b.Q, &b.K, &b.V, &b.Out, &b.Norm1, &b.Up, &b.Down,
			&b.Norm2})
	}
	return n
}

// modernBlock has the names of transformers' ModernBERT.
type modernBlock struct {
	Norm1 *nn.LayerNorm  `weight:"attn_norm"`
	QKV   *nn.Linear     `weight:"attn.Wqkv"`
	Out   *nn.Linear     `weight:"attn.Wo"`
	Norm2 *nn.LayerNorm  `weight:"mlp_norm"`
	Gated *weights.Param `weight:"mlp.Wi.weight"`
	Down  *nn.Linear     `weight:"mlp.Wo"`
}

func modernbert(m *Model) any {
	n := &struct {
		Words    *weights.Param `weight:"model.embeddings.tok_embeddings.weight"`
		Norm     *nn.LayerNorm  `weight:"model.embeddings.norm"`
		Blocks   []modernBlock  `weight:"model.layers"`
		Final    *nn.LayerNorm  `weight:"model.final_norm"`
		Dense    *nn.Linear     `weight:"head.dense"`
		HeadNorm *nn.LayerNorm  `weight:"head.norm"`
		Decoder  *weights.Param `weight:"decoder.weight"`
		Bias     *weights.Param `weight:"decoder.bias"`
	}{&m.Words, &m.EmbedNorm, nil, &m.Final, &m.Dense, &m.HeadNorm, &m.Decoder, &m.Bias}
	for i := range m.Blocks {
		b := &m.Blocks[i]
		n.Blocks = append(n.Blocks, modernBlock{&b.Norm1, &b.Q, &b.Out, &b.Norm2, &b.Gated, &b.mlp.Down})
	}
	return n
}
