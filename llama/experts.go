package llama

import (
	"cmp"
	"math"
	"slices"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/nn"
	"unmask/weights"
)

// Experts are the sizes of LLaDA2's routed MLPs (inclusionAI/LLaDA2.0-mini and later,
// modeling_llada2_moe.py).
type Experts struct {
	Count, PerToken   int
	Groups, TopGroups int // experts are chosen only in the best groups
	MLP               int // width inside an expert
	// number of experts that every row passes through, computed as one wide MLP
	Shared int
	Dense  int     // number of first blocks, which have a plain MLP
	Scale  float64 // sum of a row's expert weights
}

// llada2 reads the config.json of inclusionAI/LLaDA2.0-mini, LLaDA2.1-mini and larger ones.
func (f *file) llada2(set *weights.Set) Config {
	f.only(map[string]any{"hidden_act": "silu", "use_qk_norm": true, "use_bias": false,
		"use_qkv_bias":      false,
		"attention_dropout": 0.0, "norm_head": false, "norm_topk_prob": true, "score_function": "sigmoid",
		"moe_router_enable_expert_bias": true})
	c := Config{
		Hidden: f.whole("hidden_size", 0, maxSize), Layers: f.whole("num_hidden_layers", 0, maxLayers),
		Heads: f.whole("num_attention_heads", 0, maxSize), MLP: f.whole("intermediate_size", 0, maxSize),
		Length: f.whole("max_position_embeddings", 4096, maxLength), Theta: f.number("rope_theta", 10000),
		Eps: float32(f.number("rms_norm_eps", 1e-6)), Tied: f.flag("tie_word_embeddings"), Normed: true,
		Block: f.whole("block_size", llada2BlockSize, maxLength),
	}
	c.Rows = rows(set, "model.word_embeddings.weight", f.whole("vocab_size", 0, 1<<24))
	c.Vocab = f.whole("vocab_size", c.Rows, c.Rows)
	f.heads(&c, "num_key_value_heads")
	c.Rotary = int(float64(c.HeadDim) * f.number("partial_rotary_factor", 1))
	e := &Experts{
		Count: f.whole("num_experts", 0, 1<<12), PerToken: f.whole("num_experts_per_tok", 0, 1<<8),
		Groups: f.whole("n_group", 1, 1<<12), TopGroups: f.whole("topk_group", 1, 1<<12),
		MLP: f.whole("moe_intermediate_size", 0, maxSize), Scale: f.number("routed_scaling_factor", 1),
	}
	f.read("num_shared_experts", &e.Shared, "a whole number")
	f.read("first_k_dense_replace", &e.Dense, "a whole number")
	switch {
	case f.err != nil:
	case e.Shared < 0 || e.Shared > 1<<8:
		f.fail("num_shared_experts is %d, want 0 to %d", e.Shared, 1<<8)
	case e.Dense < 0 || e.Dense > c.Layers:
		f.fail("first_k_dense_replace is %d, want 0 to %d", e.Dense, c.Layers)
	case e.Count%e.Groups != 0 || e.Count/e.Groups < 2:
		f.fail("n_group is %d, want a divisor of %d experts that leaves two a group", e.Groups, e.Count)
	case e.TopGroups > e.Groups || e.PerToken > e.TopGroups*(e.Count/e.Groups):
		f.fail("%d experts a token of %d of %d groups, want no more than these have", e.PerToken,
			e.TopGroups, e.Groups)
	}
	c.MoE = e
	return c
}

// llada2BlockSize is the block size of the published models, which is not in config.json.
const llada2BlockSize = 32

// experts is one block's router and its experts.
type experts struct {
	Gate    weights.Param `weight:"gate.weight"`      // [experts, hidden]
	Bias    weights.Param `weight:"gate.expert_bias"` // [experts], used for the choice only
	Experts []nn.GatedMLP `weight:"experts"`
	Shared  nn.GatedMLP   `weight:"shared_experts"`

	cfg  *Experts
	gate backend.Matrix // float32 at any precision
	bias []float32
}

func newExperts(c Config) *experts {
	e := &experts{cfg: c.MoE, Experts: make([]nn.GatedMLP, c.MoE.Count)}
	e.Gate.Shape, e.Bias.Shape = []int{c.MoE.Count, c.Hidden}, []int{c.MoE.Count}
	for i := range e.Experts {
		e.Experts[i] = nn.NewGatedMLP(c.Hidden, c.MoE.MLP)
	}
	if c.MoE.Shared > 0 {
		e.Shared = nn.NewGatedMLP(c.Hidden, c.MoE.Shared*c.MoE.MLP)
	}
	return e
}

func (e *experts) load(l *nn.Loader) {
	router := &nn.Loader{Backend: l.Backend, Precision: backend.F32}
	e.gate = router.Matrix(&e.Gate, e.cfg.Count)
	e.bias = l.Floats(&e.Bias)
	l.Note(router.Err())
	for i := range e.Experts {
		e.Experts[i].Load(l)
	}
	if e.cfg.Shared > 0 {
		e.Shared.Load(l)
	}
}

// expertWork is the memory of a block's experts.
type expertWork struct {
	scores       *tensor.Dense // [rows, experts]
	x, y         *tensor.Dense // [rows of an expert, hidden]: input and output
	inner        *tensor.Dense // [rows of an expert, mlp]
	shared       *tensor.Dense // [rows, shared*mlp]
	results      *tensor.Dense // [rows*perToken, hidden], expert after expert
	host         []float32     // scores before their sigmoid
	scored       []float64     // scores of one row, in float64 because float32 is coarse near 1
	route        []choice      // [rows*perToken]
	order        []int32       // indexes of route, sorted by expert
	rows, at     []int32
	scale        []float32
	keys, groups []scored
}

// choice is one of a row's experts.
type choice struct {
	expert int32
	weight float32
	at     int32 // row of results
}

// scored is an expert or a group with its score.
type scored struct {
	score float64
	index int32
}

// rowSize returns the number of floats in expertWork for each row.
func (e *Experts) rowSize(hidden int) int {
	return e.Count + (2+e.PerToken)*hidden + (1+e.Shared)*e.MLP
}

// add computes x[:rows] += the experts' outputs for h[:rows]. It reads only the experts that a row
// uses. A row's result does not depend on the other rows.
func (e *experts) add(b backend.Backend, w *expertWork, x, h *tensor.Dense, rows int) {
	c := e.cfg
	hidden := backend.Width(h)
	w.prepare(b, c, hidden, rows)
	b.Linear(w.scores, h, rows, e.gate, backend.Epilogue{})
	b.Read(w.host[:rows*c.Count], w.scores, 0)
	for i := range rows {
		e.choose(w, w.host[i*c.Count:][:c.Count], w.route[i*c.PerToken:][:c.PerToken])
	}
	w.sort(rows * c.PerToken)
	for done := 0; done < len(w.order); {
		first := done
		expert := w.route[w.order[first]].expert
		w.rows, w.at = w.rows[:0], w.at[:0]
		for ; done < len(w.order) && w.route[w.order[done]].expert == expert; done++ {
			w.rows = append(w.rows, w.order[done]/int32(c.PerToken))
			w.at = append(w.at, int32(done))
			w.route[w.order[done]].at = int32(done)
		}
		n, mlp := done-first, &e.Experts[expert]
		b.Gather(w.x, h, w.rows)
		mlp.Inner(b, w.inner, w.x, n, backend.SiLU)
		mlp.Down.Apply(b, w.y, w.inner, n, backend.Identity)
		b.Scatter(w.results, w.y, w.at)
	}
	for slot := range c.PerToken {
		w.at, w.scale = w.at[:0], w.scale[:0]
		for i := range rows {
			r := &w.route[i*c.PerToken+slot]
			w.at, w.scale = append(w.at, r.at), append(w.scale, r.weight)
		}
		b.AddScaled(x, w.results, w.at, w.scale)
	}
	if c.Shared > 0 {
		e.Shared.Inner(b, w.shared, h, rows, backend.SiLU)
		e.Shared.Down.Add(b, x, w.shared, rows)
	}
}

// choose routes one row. Scores are sigmoids of its logits [experts]. Experts are chosen by score
// plus bias: first the best groups, by the sum of their two best, then the best experts within
// these. Their weights are the scores without the bias, scaled to sum to Scale.
func (e *experts) choose(w *expertWork, logits []float32, to []choice) {
	c := e.cfg
	size := c.Count / c.Groups
	w.scored = w.scored[:0]
	for _, l := range logits {
		w.scored = append(w.scored, 1/(1+math.Exp(-float64(l))))
	}
	score := w.scored
	w.groups = w.groups[:0]
	for g := range c.Groups {
		first, second := math.Inf(-1), math.Inf(-1)
		for i := g * size; i < (g+1)*size; i++ {
			s := score[i] + float64(e.bias[i])
			if s > first {
				first, second = s, first
			} else if s > second {
				second = s
			}
		}
		w.groups = append(w.groups, scored{first + second, int32(g)})
	}
	slices.SortFunc(w.groups, better)
	w.keys = w.keys[:0]
	for _, g := range w.groups[:c.TopGroups] {
		for i := int(g.index) * size; i < (int(g.index)+1)*size; i++ {
			w.keys = append(w.keys, scored{score[i] + float64(e.bias[i]), int32(i)})
		}
	}
	slices.SortFunc(w.keys, better)
	sum := 1e-20
	for i := range to {
		sum += score[w.keys[i].index]
	}
	for i := range to {
		expert := w.keys[i].index
		to[i] = choice{expert: expert, weight: float32(score[expert] / sum * c.Scale)}
	}
}

// better sorts the highest score first, and the lowest index among equals.
func better(a, b scored) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.index, b.index))
}

// sort orders the first n choices by expert.
func (w *expertWork) sort(n int) {
	w.order = w.order[:0]
	for i := range n {
		w.order = append(w.order, int32(i))
	}
	slices.SortFunc(w.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(w.route[a].expert, w.route[b].expert), cmp.Compare(a, b))
	})
}

func (w *expertWork) prepare(b backend.Backend, c *Experts, hidden, rows int) {
	if w.scores != nil && w.scores.Shape()[0] >= rows {
		return
	}
	w.scores, w.x, w.y = b.New(rows, c.Count), b.New(rows, hidden), b.New(rows, hidden)
	w.inner, w.results = b.New(rows, c.MLP), b.New(rows*c.PerToken, hidden)
	if c.Shared > 0 {
		w.shared = b.New(rows, c.Shared*c.MLP)
	}
	w.host, w.route = make([]float32, rows*c.Count), make([]choice, rows*c.PerToken)
}
