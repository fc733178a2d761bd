package llama

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"gorgonia.org/tensor"

	"unmask/backend"
	"unmask/nn"
	"unmask/weights"
)

// Experts are the sizes of a mixture of experts, and its routing: how families differ is said by
// these values alone.
//
//	LLaDA2     sigmoids; chosen by score + bias in the best groups; scores made to sum to Scale
//	LLaDA-MoE  a softmax over all; not made to sum to 1; a bias, if any, stays in the weights
//	Qwen3-MoE  a softmax over all, made to sum to 1 where norm_topk_prob is true (SDAR, RND1)
type Experts struct {
	Count, PerToken   int
	Groups, TopGroups int // experts are chosen only in the best groups
	MLP               int // width inside an expert
	// number of experts that every row passes through, computed as one wide MLP
	Shared int
	Dense  []bool // [layers], which have a plain MLP

	Softmax       bool    // scores are a softmax of all logits, otherwise sigmoids of each
	Normalize     bool    // weights are divided by their sum
	Scale         float64 // factor on the weights
	Bias          string  // tensor of the bias, "" for none; it is added to scores for the choice
	BiasInWeights bool    // and stays in the weights
}

// readExperts reads the keys that all mixtures of experts have.
func (f *file) readExperts(c *Config, width string) *Experts {
	experts := "num_experts"
	if local := "num_local_experts"; f.Has(local) && !f.Has(experts) { // as transformers 5 writes it
		experts = local
	}
	e := &Experts{
		Count:    f.BoundedInt(experts, 0, 1, 1<<12),
		PerToken: f.BoundedInt("num_experts_per_tok", 0, 1, 1<<8),
		Groups:   1, TopGroups: 1, MLP: f.BoundedInt(width, 0, 1, maxSize), Scale: 1,
		Dense: make([]bool, c.Layers),
	}
	if f.Err == nil && e.PerToken > e.Count {
		f.Fail("num_experts_per_tok is %d, want 1 to %d, the number of experts", e.PerToken, e.Count)
	}
	c.MoE = e
	return e
}

// readQwenMoE reads the config.json of models made from Qwen3-MoE.
func (f *file) readQwenMoE(set *weights.Set) Config {
	if string(f.Keys["sliding_window"]) == "false" { // RND1's word for null
		delete(f.Keys, "sliding_window")
	}
	f.RequireValues(map[string]any{"is_causal": false})
	c := f.readQwen(set)
	e := f.readExperts(&c, "moe_intermediate_size")
	e.Softmax = true
	e.Normalize = f.Bool("norm_topk_prob", false)
	step := f.BoundedInt("decoder_sparse_step", 1, 1, maxLayers)
	var dense []int
	f.Read("mlp_only_layers", &dense, "a list of layers")
	for i := range e.Dense {
		e.Dense[i] = slices.Contains(dense, i) || (i+1)%step != 0
	}
	return c
}

// readLLaDAMoE reads the config.json of LLaDA-MoE (configuration_lladamoe.py). Its program never
// makes the weights of experts sum to 1, whatever norm_topk_prob says, and reads neither
// routed_scaling_factor nor the groups.
func (f *file) readLLaDAMoE(set *weights.Set) Config {
	f.RequireValues(map[string]any{"qk_layernorm": true, "attention_bias": false,
		"moe_router_score_function": "softmax", "clip_qkv": nil,
		"shared_expert_intermediate_size": nil, "rope_scaling": nil})
	f.Keys["intermediate_size"] = f.Keys["dense_intermediate_size"]
	var layers []int
	f.Read("moe_layer_freq", &layers, "a list of 0 and 1")
	if !slices.Contains(layers, 0) && !f.Has("dense_intermediate_size") {
		f.Keys["intermediate_size"] = f.Keys["expert_intermediate_size"] // no layer has it
	}
	c := f.readQwen(set)
	e := f.readExperts(&c, "expert_intermediate_size")
	e.Softmax = true
	e.BiasInWeights = true
	if f.Bool("moe_router_enable_expert_bias", false) {
		e.Bias = "expert_bias"
	}
	if f.Err == nil && len(layers) > 0 && len(layers) != c.Layers {
		f.Fail("moe_layer_freq has %d layers, want %d", len(layers), c.Layers)
	}
	for i := range min(len(layers), len(e.Dense)) {
		e.Dense[i] = layers[i] == 0
	}
	return c
}

// readLLaDA2 reads the config.json of inclusionAI/LLaDA2.0-mini, LLaDA2.1-mini and larger ones
// (modeling_llada2_moe.py).
func (f *file) readLLaDA2(set *weights.Set) Config {
	f.RequireValues(map[string]any{"hidden_act": "silu", "use_qk_norm": true, "use_bias": false,
		"use_qkv_bias": false, "norm_head": false, "norm_softmax": false, "norm_topk_prob": true,
		"score_function": "sigmoid", "moe_router_enable_expert_bias": true, "use_rmsnorm": true,
		"use_sliding_window": false, "using_split_qkv_in_self_attention": false,
		"rope_scaling": nil})
	c := f.readSizes(set, "model.word_embeddings.weight", 1e-6)
	c.QKNorm = true
	c.JoinedQKV = true
	c.Rotary = int(float64(c.HeadDim) * f.PositiveNumber("partial_rotary_factor", 1))
	e := f.readExperts(&c, "moe_intermediate_size")
	e.Groups = f.BoundedInt("n_group", 1, 1, 1<<12)
	e.TopGroups = f.BoundedInt("topk_group", 1, 1, 1<<12)
	e.Normalize = true
	e.Scale = f.PositiveNumber("routed_scaling_factor", 1)
	e.Bias = "gate.expert_bias"
	e.Shared = f.BoundedInt("num_shared_experts", 0, 0, 1<<8)
	for i := range f.BoundedInt("first_k_dense_replace", 0, 0, c.Layers) {
		e.Dense[i] = true
	}
	switch {
	case f.Err != nil:
	case e.Count%e.Groups != 0 || e.Count/e.Groups < 2:
		f.Fail("n_group is %d, want a divisor of %d experts that leaves two a group", e.Groups, e.Count)
	case e.TopGroups > e.Groups || e.PerToken > e.TopGroups*(e.Count/e.Groups):
		f.Fail("%d experts a token of %d of %d groups, want no more than these have", e.PerToken,
			e.TopGroups, e.Groups)
	}
	return c
}

// splitExperts returns the tensors with the experts of each block apart, as their authors publish
// them: transformers 5 may write all of a block as experts.gate_up_proj [experts, 2*width, hidden],
// an expert's gate first, and experts.down_proj [experts, hidden, width].
func splitExperts(set *weights.Set, c *Config) (*weights.Set, error) {
	if c.MoE == nil {
		return set, nil
	}
	return set.SplitTensors(func(name string, _ *weights.Tensor) (all []string) {
		block, both := strings.CutSuffix(name, ".experts.gate_up_proj")
		block, down := strings.CutSuffix(block, ".experts.down_proj")
		if !both && !down {
			return nil
		}
		for e := range c.MoE.Count {
			one := block + ".experts." + strconv.Itoa(e)
			if both {
				all = append(all, one+".gate_proj.weight", one+".up_proj.weight")
			} else {
				all = append(all, one+".down_proj.weight")
			}
		}
		return all
	})
}

// experts is one block's router and its experts.
type experts struct {
	Gate       weights.Param `weight:"gate.weight"`      // [experts, hidden]
	GateBias   weights.Param `weight:"gate.expert_bias"` // [experts], LLaDA2's
	ExpertBias weights.Param `weight:"expert_bias"`      // [experts], LLaDA-MoE's
	Experts    []nn.GatedMLP `weight:"experts"`
	Shared     nn.GatedMLP   `weight:"shared_experts"`

	cfg  *Experts
	gate backend.Matrix // float32 at any precision
	bias []float32
}

func newExperts(c Config) *experts {
	e := &experts{cfg: c.MoE, Experts: make([]nn.GatedMLP, c.MoE.Count)}
	e.Gate.Shape = []int{c.MoE.Count, c.Hidden}
	if bias := e.biasParam(); bias != nil {
		bias.Shape = []int{c.MoE.Count}
	}
	for i := range e.Experts {
		e.Experts[i] = nn.NewGatedMLP(c.Hidden, c.MoE.MLP)
	}
	if c.MoE.Shared > 0 {
		e.Shared = nn.NewGatedMLP(c.Hidden, c.MoE.Shared*c.MoE.MLP)
	}
	return e
}

// biasParam returns the parameter that has the bias, nil for none.
func (e *experts) biasParam() *weights.Param {
	return map[string]*weights.Param{"gate.expert_bias": &e.GateBias,
		"expert_bias": &e.ExpertBias}[e.cfg.Bias]
}

func (e *experts) packWeights(l *nn.Loader) {
	router := &nn.Loader{Backend: l.Backend, Precision: backend.F32}
	e.gate = router.Matrix(&e.Gate, e.cfg.Count)
	e.bias = make([]float32, e.cfg.Count)
	if bias := e.biasParam(); bias != nil {
		copy(e.bias, l.Floats(bias))
	}
	l.Check(router.Err())
	for i := range e.Experts {
		e.Experts[i].Load(l)
	}
	if e.cfg.Shared > 0 {
		e.Shared.Load(l)
	}
}

// expertWork is the memory of a block's experts.
type expertWork struct {
	scores  *tensor.Dense // [rows, experts]
	x, y    *tensor.Dense // [rows of an expert, hidden]: input and output
	inner   *tensor.Dense // [rows of an expert, mlp]
	shared  *tensor.Dense // [rows, shared*mlp]
	results *tensor.Dense // [rows*perToken, hidden], expert after expert
	host    []float32     // scores before their sigmoid
	// scores of one row, in float64 because float32 is coarse near 1
	rowScores              []float64
	choices                []choice // [rows*perToken]
	order                  []int32  // indexes of route, sorted by expert
	sourceRows, resultRows []int32
	weights                []float32
	keys, groups           []scoredIndex
}

// choice is one of a row's experts.
type choice struct {
	expert    int32
	weight    float32
	resultRow int32 // row of results
}

// scoredIndex is an expert or a group with its score.
type scoredIndex struct {
	score float64
	index int32
}

// rowSize returns the number of floats in expertWork for each row.
func (e *Experts) rowSize(hidden int) int {
	return e.Count + (2+e.PerToken)*hidden + (1+e.Shared)*e.MLP
}

// addOutputs computes x[:rows] += the experts' outputs for h[:rows]. It reads only the experts that
// a row uses. A row's result does not depend on the other rows.
func (e *experts) addOutputs(b backend.Backend, w *expertWork, x, h *tensor.Dense, rows int) {
	c := e.cfg
	hidden := backend.Width(h)
	w.resize(b, c, hidden, rows)
	b.Linear(w.scores, h, rows, e.gate, backend.Epilogue{})
	b.Read(w.host[:rows*c.Count], w.scores, 0)
	for i := range rows {
		e.chooseExperts(w, w.host[i*c.Count:][:c.Count], w.choices[i*c.PerToken:][:c.PerToken])
	}
	w.sortByExpert(rows * c.PerToken)
	for done := 0; done < len(w.order); {
		first := done
		expert := w.choices[w.order[first]].expert
		w.sourceRows = w.sourceRows[:0]
		w.resultRows = w.resultRows[:0]
		for ; done < len(w.order) && w.choices[w.order[done]].expert == expert; done++ {
			w.sourceRows = append(w.sourceRows, w.order[done]/int32(c.PerToken))
			w.resultRows = append(w.resultRows, int32(done))
			w.choices[w.order[done]].resultRow = int32(done)
		}
		n := done - first
		mlp := &e.Experts[expert]
		b.Gather(w.x, h, w.sourceRows)
		mlp.Inner(b, w.inner, w.x, n, backend.SiLU)
		mlp.Down.Apply(b, w.y, w.inner, n, backend.Identity)
		b.Scatter(w.results, w.y, w.resultRows)
	}
	for slot := range c.PerToken {
		w.resultRows = w.resultRows[:0]
		w.weights = w.weights[:0]
		for i := range rows {
			r := &w.choices[i*c.PerToken+slot]
			w.resultRows = append(w.resultRows, r.resultRow)
			w.weights = append(w.weights, r.weight)
		}
		b.AddScaled(x, w.results, w.resultRows, w.weights)
	}
	if c.Shared > 0 {
		e.Shared.Inner(b, w.shared, h, rows, backend.SiLU)
		e.Shared.Down.AddTo(b, x, w.shared, rows)
	}
}

// chooseExperts routes one row by its logits [experts]: the best groups, by the sum of their two
// best scores, and in these the best experts, both with the bias.
func (e *experts) chooseExperts(w *expertWork, logits []float32, to []choice) {
	c := e.cfg
	e.scoreExperts(w, logits)
	size := c.Count / c.Groups
	w.keys = w.keys[:0]
	for _, g := range e.bestGroups(w) {
		for i := int(g.index) * size; i < (int(g.index)+1)*size; i++ {
			w.keys = append(w.keys, scoredIndex{w.rowScores[i] + float64(e.bias[i]), int32(i)})
		}
	}
	slices.SortFunc(w.keys, compareScores)
	weight := func(k scoredIndex) float64 {
		if c.BiasInWeights {
			return k.score
		}
		return w.rowScores[k.index]
	}
	scale := c.Scale
	if c.Normalize {
		sum := 1e-20
		for _, k := range w.keys[:len(to)] {
			sum += weight(k)
		}
		scale /= sum
	}
	for i := range to {
		to[i] = choice{expert: w.keys[i].index, weight: float32(weight(w.keys[i]) * scale)}
	}
}

// scoreExperts computes w.scored of a row.
func (e *experts) scoreExperts(w *expertWork, logits []float32) {
	w.rowScores = w.rowScores[:0]
	if !e.cfg.Softmax {
		for _, l := range logits {
			w.rowScores = append(w.rowScores, 1/(1+math.Exp(-float64(l))))
		}
		return
	}
	top := float64(slices.Max(logits))
	sum := 0.0
	for _, l := range logits {
		w.rowScores = append(w.rowScores, math.Exp(float64(l)-top))
		sum += w.rowScores[len(w.rowScores)-1]
	}
	for i := range w.rowScores {
		w.rowScores[i] /= sum
	}
}

// bestGroups returns the groups in which experts are chosen.
func (e *experts) bestGroups(w *expertWork) []scoredIndex {
	w.groups = w.groups[:0]
	size := e.cfg.Count / e.cfg.Groups
	for g := range e.cfg.Groups {
		first := math.Inf(-1)
		second := math.Inf(-1)
		for i := g * size; i < (g+1)*size; i++ {
			s := w.rowScores[i] + float64(e.bias[i])
			if s > first {
				first, second = s, first
			} else if s > second {
				second = s
			}
		}
		w.groups = append(w.groups, scoredIndex{first + second, int32(g)})
	}
	slices.SortFunc(w.groups, compareScores)
	return w.groups[:e.cfg.TopGroups]
}

// compareScores sorts the highest score first, and the lowest index among equals.
func compareScores(a, b scoredIndex) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.index, b.index))
}

// sortByExpert orders the first n choices by expert.
func (w *expertWork) sortByExpert(n int) {
	w.order = w.order[:0]
	for i := range n {
		w.order = append(w.order, int32(i))
	}
	slices.SortFunc(w.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(w.choices[a].expert, w.choices[b].expert), cmp.Compare(a, b))
	})
}

func (w *expertWork) resize(b backend.Backend, c *Experts, hidden, rows int) {
	if w.scores != nil && w.scores.Shape()[0] >= rows {
		return
	}
	w.scores = b.New(rows, c.Count)
	w.x = b.New(rows, hidden)
	w.y = b.New(rows, hidden)
	w.inner = b.New(rows, c.MLP)
	w.results = b.New(rows*c.PerToken, hidden)
	if c.Shared > 0 {
		w.shared = b.New(rows, c.Shared*c.MLP)
	}
	w.host = make([]float32, rows*c.Count)
	w.choices = make([]choice, rows*c.PerToken)
}
