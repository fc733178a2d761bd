package encoders

import (
	"slices"
	"strings"

	"unmask/nn"
	"unmask/weights"
)

// The tensors' names in published checkpoints. Fields point to the parameters of a Model. Blocks
// have the same fields in all families but ModernBERT, and so have heads: these structs differ in
// names alone, so that Go converts one to another.

type blockNames interface {
	bertBlock | esmBlock | fairseqBlock | albertBlock
}

// blocks returns the names of each block's parameters.
func blocks[B blockNames](m *Model) (names []B) {
	for i := range m.Blocks {
		b := &m.Blocks[i]
		names = append(names, B(bertBlock{&b.Q, &b.K, &b.V, &b.Out, &b.Norm1, &b.Up, &b.Down, &b.Norm2}))
	}
	return names
}

// bertNames are those of transformers' BERT, and of RoBERTa and ESM-2 with other blocks and heads.
type bertNames[B blockNames] struct {
	Words    *weights.Param `weight:"embeddings.word_embeddings.weight"`
	Position *weights.Param `weight:"embeddings.position_embeddings.weight"`
	Types    *weights.Param `weight:"embeddings.token_type_embeddings.weight"`
	Norm     *nn.LayerNorm  `weight:"embeddings.LayerNorm"`
	Blocks   []B            `weight:"encoder.layer"`
	Final    *nn.LayerNorm  `weight:"encoder.emb_layer_norm_after"`
}

func body[B blockNames](m *Model) bertNames[B] {
	return bertNames[B]{&m.Words, &m.Positions, &m.Types, &m.EmbedNorm, blocks[B](m), &m.Final}
}

type bertBlock struct {
	Q     *nn.Linear    `weight:"attention.self.query"`
	K     *nn.Linear    `weight:"attention.self.key"`
	V     *nn.Linear    `weight:"attention.self.value"`
	Out   *nn.Linear    `weight:"attention.output.dense"`
	Norm1 *nn.LayerNorm `weight:"attention.output.LayerNorm"`
	Up    *nn.Linear    `weight:"intermediate.dense"`
	Down  *nn.Linear    `weight:"output.dense"`
	Norm2 *nn.LayerNorm `weight:"output.LayerNorm"`
}

type esmBlock struct {
	Q     *nn.Linear    `weight:"attention.self.query"`
	K     *nn.Linear    `weight:"attention.self.key"`
	V     *nn.Linear    `weight:"attention.self.value"`
	Out   *nn.Linear    `weight:"attention.output.dense"`
	Norm1 *nn.LayerNorm `weight:"attention.LayerNorm"`
	Up    *nn.Linear    `weight:"intermediate.dense"`
	Down  *nn.Linear    `weight:"output.dense"`
	Norm2 *nn.LayerNorm `weight:"LayerNorm"`
}

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

// bertHead is the head of BERT; albertHead, lmHead and fairseqHead have the same fields.
type bertHead struct {
	Dense   *nn.Linear     `weight:"transform.dense"`
	Norm    *nn.LayerNorm  `weight:"transform.LayerNorm"`
	Decoder *weights.Param `weight:"decoder.weight"`
	Bias    *weights.Param `weight:"bias"`
}

type albertHead struct {
	Dense   *nn.Linear     `weight:"dense"`
	Norm    *nn.LayerNorm  `weight:"LayerNorm"`
	Decoder *weights.Param `weight:"decoder.weight"`
	Bias    *weights.Param `weight:"bias"`
}

// lmHead is that of RoBERTa and ESM-2 in transformers.
type lmHead struct {
	Dense   *nn.Linear     `weight:"dense"`
	Norm    *nn.LayerNorm  `weight:"layer_norm"`
	Decoder *weights.Param `weight:"decoder.weight"`
	Bias    *weights.Param `weight:"bias"`
}

type fairseqHead struct {
	Dense   *nn.Linear     `weight:"dense"`
	Norm    *nn.LayerNorm  `weight:"layer_norm"`
	Decoder *weights.Param `weight:"weight"`
	Bias    *weights.Param `weight:"bias"`
}

func (m *Model) headNames() bertHead {
	return bertHead{&m.Dense, &m.HeadNorm, &m.Decoder, &m.Bias}
}

func bert(m *Model) any {
	return &struct {
		Body bertNames[bertBlock] `weight:"bert"`
		Head bertHead             `weight:"cls.predictions"`
	}{body[bertBlock](m), m.headNames()}
}

func roberta(m *Model) any {
	return &struct {
		Body bertNames[bertBlock] `weight:"roberta"`
		Head lmHead               `weight:"lm_head"`
	}{body[bertBlock](m), lmHead(m.headNames())}
}

func esm(m *Model) any {
	return &struct {
		Body bertNames[esmBlock] `weight:"esm"`
		Head lmHead              `weight:"lm_head"`
	}{body[esmBlock](m), lmHead(m.headNames())}
}

func fairseq(m *Model) any {
	type names struct {
		Words    *weights.Param `weight:"embed_tokens.weight"`
		Position *weights.Param `weight:"embed_positions.weight"`
		Norm     *nn.LayerNorm  `weight:"emb_layer_norm"`
		Blocks   []fairseqBlock `weight:"layers"`
	}
	return &struct {
		Body names       `weight:"sentence_encoder"`
		Head fairseqHead `weight:"lm_head"`
	}{names{&m.Words, &m.Positions, &m.EmbedNorm, blocks[fairseqBlock](m)},
		fairseqHead(m.headNames())}
}

func albert(m *Model) any {
	type group struct {
		Blocks []albertBlock `weight:"albert_layers"`
	}
	embeddings := body[albertBlock](m)
	var groups []group
	for inner := range slices.Chunk(embeddings.Blocks, m.cfg.Inner) {
		groups = append(groups, group{inner})
	}
	embeddings.Blocks = nil
	return &struct {
		Body   bertNames[albertBlock] `weight:"albert"`
		Widen  *nn.Linear             `weight:"albert.encoder.embedding_hidden_mapping_in"`
		Groups []group                `weight:"albert.encoder.albert_layer_groups"`
		Head   albertHead             `weight:"predictions"`
	}{embeddings, &m.Widen, groups, albertHead(m.headNames())}
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

// plainNames returns the set with the names of norms as later checkpoints have them: the first ones
// of BERT call a norm's weight gamma and its bias beta. Where the network was saved without its
// head, names get the part that such files leave out, which `words` begins with.
func plainNames(set *weights.Set, words string) (*weights.Set, error) {
	trunk, anchor, _ := strings.Cut(words, ".")
	prefix, bare := "", !slices.ContainsFunc(set.Names(), func(name string) bool {
		return name == words || strings.HasSuffix(name, "."+words)
	})
	for _, name := range set.Names() {
		if before, ok := strings.CutSuffix(name, anchor); ok && (before == "" || before == "encoder.") {
			prefix = before
		}
	}
	return set.View(func(name string, t *weights.Tensor) (string, *weights.Tensor, error) {
		if rest, ok := strings.CutPrefix(name, prefix); ok && bare {
			name = trunk + "." + rest
		}
		for from, to := range map[string]string{".gamma": ".weight", ".beta": ".bias"} {
			if short, ok := strings.CutSuffix(name, from); ok {
				return short + to, t, nil
			}
		}
		return name, t, nil
	})
}
