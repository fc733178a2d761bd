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

// Experts are the sizes of a mixture of experts, and its routing. Families differ in these values
// alone:
//
//	LLaDA2     sigmoids; chosen by score + bias in the best groups; scores made to sum to Scale
//	LLaDA-MoE  a softmax over all; not made to sum to 1; a bias, if any, stays in the weights
//	Qwen3-MoE  a softmax over all, made to sum to 1 where norm_topk_prob is true (SDAR, RND1)
type Experts struct {
	Count    int // experts of a block
	PerToken int // experts that a row passes through, beside the shared ones
	MLP      int // width inside an expert

	// Groups are equal parts of the experts. A row's experts are chosen in its TopGroups best groups.
	Groups, TopGroups int

	// Shared is the number of experts that every row passes through, computed as one wide MLP.
	Shared int

	// Dense says which layers have a plain MLP instead of experts [layers].
	Dense []bool

	// Softmax makes scores a softmax of all logits. Otherwise each score is a sigmoid.
	Softmax bool

	// Normalize divides a row's weights by their sum.
	Normalize bool

	// Scale is a factor on the weights.
	Scale float64

	// Bias is the name of the tensor that is added to scores when experts are chosen, "" for none.
	Bias string

	// BiasInWeights says that the bias stays in the chosen experts' weights. Otherwise it only steers
	// the choice.
	BiasInWeights bool
}

// readExperts reads the keys that all mixtures of experts have. widthKey is the key of an expert's
// width.
func (f *file) readExperts(c *Config, widthKey string) *Experts {
	countKey := "num_experts"
	if local := "num_local_experts"; f.Has(local) && !f.Has(countKey) { // as transformers 5 writes it
		countKey = local
	}
	e := &Experts{
		Count:     f.BoundedInt(countKey, 0, 1, 1<<12),
		PerToken:  f.BoundedInt("num_experts_per_tok", 0, 1, 1<<8),
		Groups:    1,
		TopGroups: 1,
		MLP:       f.BoundedInt(widthKey, 0, 1, maxSize),
		Scale:     1,
		Dense:     make([]bool, c.Layers),
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
	f.RequireValues(map[string]any{
		"qk_layernorm":                    true,
		"attention_bias":                  false,
		"moe_router_score_function":       "softmax",
		"clip_qkv":                        nil,
		"shared_expert_intermediate_size": nil,
		"rope_scaling":                    nil,
	})
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
	f.RequireValues(map[string]any{
		"hidden_act":                        "silu",
		"use_qk_norm":                       true,
		"use_bias":                          false,
		"use_qkv_bias":                      false,
		"norm_head":                         false,
		"norm_softmax":                      false,
		"norm_topk_prob":                    true,
		"score_function":                    "sigmoid",
		"moe_router_enable_expert_bias":     true,
		"use_rmsnorm":                       true,
		"use_sliding_window":                false,
		"using_split_qkv_in_self_attention": false,
		"rope_scaling":                      nil,
	})
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

	// A group's score is the sum of those of its two best experts (bestGroups), so it has two.
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

// splitExperts returns the tensors with the experts of each block as tensors of their own, as their
// authors publish them. transformers 5 may write all of a block as experts.gate_up_proj [experts,
// 2*width, hidden], an expert's gate first, and experts.down_proj [experts, hidden, width].
func splitExperts(set *weights.Set, c *Config) (*weights.Set, error) {
	if c.MoE == nil {
		return set, nil
	}
	return set.SplitTensors(func(name string, _ *weights.Tensor) (parts []string) {
		block, isGateUp := strings.CutSuffix(name, ".experts.gate_up_proj")
		block, isDown := strings.CutSuffix(block, ".experts.down_proj")
		if !isGateUp && !isDown {
			return nil
		}
		for e := range c.MoE.Count {
			expert := block + ".experts." + strconv.Itoa(e)
			if isGateUp {
				parts = append(parts, expert+".gate_proj.weight", expert+".up_proj.weight")
			} else {
				parts = append(parts, expert+".down_proj.weight")
			}
		}
		return parts
	})
}

// experts is one block's router and its experts.
type experts struct {
	Gate       weights.Param `weight:"gate.weight"`      // [experts, hidden]
	GateBias   weights.Param `weight:"gate.expert_bias"` // [experts], LLaDA2's
	ExpertBias weights.Param `weight:"expert_bias"`      // [experts], LLaDA-MoE's
	Experts    []nn.GatedMLP `weight:"experts"`
	Shared     nn.GatedMLP   `weight:"shared_experts"`

	cfg *Experts

	// gate is the router. It stays float32 at any precision, because a small error in a logit can
	// choose another expert.
	gate backend.Matrix

	// bias is added to scores [experts]; zeros if there is none.
	bias []float32
}

// newExperts returns a block's experts without weights.
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
	switch e.cfg.Bias {
	case "gate.expert_bias":
		return &e.GateBias
	case "expert_bias":
		return &e.ExpertBias
	}
	return nil
}

// packWeights packs the router and the experts. The router stays in float32 whatever the loader's
// precision: a rounded score would send a token to another expert.
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
	scores  *tensor.Dense // [rows, experts]: the router's logits
	x, y    *tensor.Dense // [rows of an expert, hidden]: input and output
	inner   *tensor.Dense // [rows of an expert, mlp]
	shared  *tensor.Dense // [rows, shared*mlp]
	results *tensor.Dense // [rows*perToken, hidden], expert after expert

	// host has the router's logits on the host [rows, experts].
	host []float32

	// rowScores are the scores of one row [experts], in float64, because float32 is coarse near 1 and
	// sigmoids of good experts lie there.
	rowScores []float64

	// choices are the experts of all rows [rows*perToken].
	choices []choice

	// order has the indexes of choices, sorted by expert.
	order []int32

	// sourceRows and resultRows are rows of h and of results, for one call of a kernel.
	sourceRows, resultRows []int32

	// weights are the factors of resultRows.
	weights []float32

	// candidates and groups are the experts and the groups of one row, with their scores.
	candidates, groups []scoredIndex
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

// addOutputs computes x[:rows] += the experts' outputs for h[:rows], both [rows, hidden].
//
// It reads only the experts that a row uses, and each of them once: rows are sorted by expert and
// gathered. A row's sum goes over its own experts in the order of their scores, so its result does
// not depend on the other rows.
func (e *experts) addOutputs(b backend.Backend, w *expertWork, x, h *tensor.Dense, rows int) {
	c := e.cfg
	w.resize(b, c, backend.Width(h), rows)

	b.Linear(w.scores, h, rows, e.gate, backend.Epilogue{}) // [rows, experts]
	b.Read(w.host[:rows*c.Count], w.scores, 0)
	for i := range rows {
		e.chooseExperts(w, w.host[i*c.Count:][:c.Count], w.choices[i*c.PerToken:][:c.PerToken])
	}
	w.sortByExpert(rows * c.PerToken)

	for end := 0; end < len(w.order); {
		start := end
		expert := w.choices[w.order[start]].expert
		w.sourceRows = w.sourceRows[:0]
		w.resultRows = w.resultRows[:0]
		for ; end < len(w.order) && w.choices[w.order[end]].expert == expert; end++ {
			w.sourceRows = append(w.sourceRows, w.order[end]/int32(c.PerToken))
			w.resultRows = append(w.resultRows, int32(end))
			w.choices[w.order[end]].resultRow = int32(end)
		}
		n := end - start
		mlp := &e.Experts[expert]
		b.Gather(w.x, h, w.sourceRows)                       // [n, hidden]
		mlp.Inner(b, w.inner, w.x, n, backend.SiLU)          // [n, mlp]
		mlp.Down.Apply(b, w.y, w.inner, n, backend.Identity) // [n, hidden]
		b.Scatter(w.results, w.y, w.resultRows)
	}

	for slot := range c.PerToken {
		w.resultRows = w.resultRows[:0]
		w.weights = w.weights[:0]
		for i := range rows {
			chosen := &w.choices[i*c.PerToken+slot]
			w.resultRows = append(w.resultRows, chosen.resultRow)
			w.weights = append(w.weights, chosen.weight)
		}
		b.AddScaled(x, w.results, w.resultRows, w.weights) // [rows, hidden]
	}
	if c.Shared > 0 {
		e.Shared.Inner(b, w.shared, h, rows, backend.SiLU) // [rows, shared*mlp]
		e.Shared.Down.AddTo(b, x, w.shared, rows)          // [rows, hidden]
	}
}

// chooseExperts routes one row by its logits [experts] and writes its choices [perToken], the best
// first: the best groups, by the sum of their two best scores, and in these the best experts, both
// with the bias.
func (e *experts) chooseExperts(w *expertWork, logits []float32, choices []choice) {
	c := e.cfg
	e.scoreExperts(w, logits)

	groupSize := c.Count / c.Groups
	w.candidates = w.candidates[:0]
	for _, g := range e.bestGroups(w) {
		for i := int(g.index) * groupSize; i < (int(g.index)+1)*groupSize; i++ {
			score := w.rowScores[i] + float64(e.bias[i])
			w.candidates = append(w.candidates, scoredIndex{score, int32(i)})
		}
	}
	slices.SortFunc(w.candidates, compareScores)

	weight := func(candidate scoredIndex) float64 {
		if c.BiasInWeights {
			return candidate.score
		}
		return w.rowScores[candidate.index]
	}
	scale := c.Scale
	if c.Normalize {
		sum := 1e-20 // as the published programs have it, against a division by 0
		for _, candidate := range w.candidates[:len(choices)] {
			sum += weight(candidate)
		}
		scale /= sum
	}
	for i := range choices {
		candidate := w.candidates[i]
		choices[i] = choice{expert: candidate.index, weight: float32(weight(candidate) * scale)}
	}
}

// scoreExperts sets w.rowScores to the scores of a row's logits [experts].
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
		score := math.Exp(float64(l) - top)
		w.rowScores = append(w.rowScores, score)
		sum += score
	}
	for i := range w.rowScores {
		w.rowScores[i] /= sum
	}
}

// bestGroups returns the groups in which a row's experts are chosen.
func (e *experts) bestGroups(w *expertWork) []scoredIndex {
	w.groups = w.groups[:0]
	size := e.cfg.Count / e.cfg.Groups
	for g := range e.cfg.Groups {
		first := math.Inf(-1)
		second := math.Inf(-1)
		for i := g * size; i < (g+1)*size; i++ {
			score := w.rowScores[i] + float64(e.bias[i])
			if score > first {
				second = first
				first = score
			} else if score > second {
				second = score
			}
		}
		w.groups = append(w.groups, scoredIndex{first + second, int32(g)})
	}
	slices.SortFunc(w.groups, compareScores)
	return w.groups[:e.cfg.TopGroups]
}

// compareScores sorts the highest score first, and the lowest index among equals, so that the
// choice does not depend on the sort.
func compareScores(a, b scoredIndex) int {
	return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.index, b.index))
}

// sortByExpert sorts the first n choices by expert.
func (w *expertWork) sortByExpert(n int) {
	w.order = w.order[:0]
	for i := range n {
		w.order = append(w.order, int32(i))
	}
	slices.SortFunc(w.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(w.choices[a].expert, w.choices[b].expert), cmp.Compare(a, b))
	})
}

// resize makes room for the experts of a pass of `rows` rows.
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
