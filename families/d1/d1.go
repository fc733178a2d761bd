// Package d1 is the text part of d1-omni (LiquidAI, d1-omni-600M): an LFM2.5 encoder with Laya's
// head for typed questions. Each option of a question has a mask before it, and the state of that
// position is its score. Its parts for pictures and sound are not read.
package d1

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"unmask/backend"
	"unmask/families/encoders"
	_ "unmask/families/llama" // the trunk's format
	"unmask/model"
	"unmask/nn"
	"unmask/param"
	"unmask/tokenizers"
	"unmask/weights"
)

// modelType is that of config.json.
const modelType = "d1_omni"

// trunkPrefix begins the names of the encoder's tensors.
const trunkPrefix = "encoder."

// unused are the tensors of the parts for pictures and sound, and those that the trunk has read.
var unused = []string{"vision.*", "audio.*", trunkPrefix + "*"}

func init() {
	model.Register(model.Format{
		Name:  "d1",
		Kinds: []string{modelType},
		Match: func(src *model.Source) bool { return src.HasTensor("head.type_emb.weight") },
		Load:  loadModel,
	})
}

// Model answers typed questions. It has no marginals.
type Model struct {
	Head *encoders.QuestionHead `weight:"head"`

	b         backend.Backend
	trunk     model.Denoiser
	spec      model.Spec
	tokenizer tokenizers.Tokenizer
	marks     marks
	cfg       config
}

// config is config.json.
type config struct {
	Layers  int             `json:"head_layers"`
	Longest int             `json:"max_length"`
	Trunk   json.RawMessage `json:"text_config"`

	// Temperatures are by type and number of options, such as choice:3-5, or by type alone.
	Temperatures map[string]float64 `json:"temperatures"`
}

// Bounds of config.json.
const (
	maxLayers  = 64
	minLongest = 128 // tokens: the least share of a question and of its options are 96 in all
	maxLongest = 1 << 17
)

// readConfig reads config.json.
func readConfig(src *model.Source) (c config, err error) {
	if err := model.DecodeConfig(src, &c); err != nil {
		return c, err
	}
	err = src.CheckKeys(model.Settings{KnownKeys: "head_layers max_length text_config temperatures " +
		"audio_config vision_config"})
	switch {
	case err != nil:
		return c, err
	case c.Layers < 0 || c.Layers > maxLayers:
		return c, fmt.Errorf("config.json: head_layers is %d, want 0 to %d", c.Layers, maxLayers)
	case c.Longest < minLongest || c.Longest > maxLongest:
		return c, fmt.Errorf("config.json: max_length is %d, want %d to %d", c.Longest, minLongest,
			maxLongest)
	case len(c.Trunk) == 0:
		return c, fmt.Errorf("config.json: text_config is missing, want that of an LFM2.5 encoder")
	}
	for kind, t := range c.Temperatures {
		if !(t > 0) {
			return c, fmt.Errorf("config.json: the temperature of %.40q is %v, want more than 0", kind, t)
		}
	}
	return c, nil
}

// loadModel loads the trunk, as the model that it is, and the head.
func loadModel(src *model.Source, o model.Options) (*model.Loaded, error) {
	c, err := readConfig(src)
	if err != nil {
		return nil, err
	}
	trunk, err := loadTrunk(src, c, o)
	if err != nil {
		return nil, fmt.Errorf("text_config: %w", err)
	}
	types, err := model.TensorShape(src.Set, "head.type_emb.weight", 2)
	if err != nil {
		return nil, err
	}
	inner, err := model.TensorShape(src.Set, "head.scorer.1.weight", 2)
	if err != nil {
		return nil, err
	}
	if types[1]%max(1, types[1]/64) != 0 {
		return nil, fmt.Errorf("head.type_emb.weight is %d wide, want whole heads of about 64", types[1])
	}
	m := &Model{
		Head:      encoders.NewQuestionHead(types[1], c.Layers, inner[0]),
		b:         o.Backend,
		trunk:     trunk.Denoiser,
		spec:      trunk.Spec(),
		tokenizer: trunk.Tokenizer,
		cfg:       c,
	}
	if m.cfg.Longest > m.spec.Length() {
		m.cfg.Longest = m.spec.Length()
	}
	if m.marks, err = findMarks(trunk.Tokenizer); err != nil {
		return nil, err
	}
	_, err = o.Bind(m, src.Set, weights.BindOptions{Ignore: unused}, func(o model.Options) error {
		l := &nn.Loader{Backend: o.Backend, Precision: o.Precision}
		m.Head.Load(l)
		return l.Err()
	})
	if err != nil {
		return nil, err
	}
	isText := func(name string) bool {
		return strings.HasPrefix(name, trunkPrefix) || strings.HasPrefix(name, "head.")
	}
	names := slices.DeleteFunc(src.Set.Names(), func(name string) bool { return !isText(name) })
	info := trunk.Info
	info.Architecture = "d1"
	info.Parameters = model.Parameters(names, src.Set)
	info.Notes = append(info.Notes, "text alone is read: the parts for pictures and sound are not")
	return &model.Loaded{
		Denoiser:  m,
		Kind:      model.KindVectors,
		Tokenizer: trunk.Tokenizer,
		Info:      info,
	}, nil
}

// loadTrunk loads the encoder from its part of config.json and its tensors.
func loadTrunk(src *model.Source, c config, o model.Options) (*model.Loaded, error) {
	var list []*weights.Tensor
	for _, name := range src.Set.Names() {
		if inner, ok := strings.CutPrefix(name, trunkPrefix); ok {
			t, _ := src.Set.Get(name)
			named := *t
			named.Name = "lfm2." + inner
			list = append(list, &named)
		}
	}
	set, err := weights.NewSet(list, nil)
	if err != nil {
		return nil, err
	}
	trunk := *src
	trunk.Set = set
	trunk.Config = c.Trunk
	trunk.KindOverride = "lfm2-encoder"
	trunk.Notes = nil
	loaded, err := model.Load(&trunk, o)
	if err != nil {
		return nil, err
	}
	loaded.Info.Notes = nil
	return loaded, nil
}

// Spec implements model.Denoiser.
func (m *Model) Spec() model.Spec { return m.spec }

// Locker implements model.Locker.
func (m *Model) Locker() sync.Locker { return model.LockOf(m.trunk) }

// Forward implements model.Denoiser. It returns an error: the network has no marginals.
func (m *Model) Forward(context.Context, *model.Batch) (model.Marginals, error) {
	return nil, errors.New("d1 answers typed questions alone")
}

// Question is a question in the words that the network was trained on.
type Question struct {
	Kind         string // choice, score or noul
	Instructions string
	State        string
	Options      []string // such as "label: description"
}

// Prompt is a question as tokens.
type Prompt struct {
	Tokens []int32

	// MaskPositions are the positions of the options' masks.
	MaskPositions []int32

	// Notes say what was cut off.
	Notes []string

	kind string
}

// marks are the tokens around the parts of a question.
type marks struct {
	begin, mask, state, question, option, optionEnd, decide int32
}

// findMarks finds the marks, which have names in the tokenizer.
func findMarks(t tokenizers.Tokenizer) (k marks, err error) {
	for _, mark := range []struct {
		name string
		id   *int32
	}{
		{"<|startoftext|>", &k.begin},
		{"<|mask|>", &k.mask},
		{"<|reserved_7|>", &k.state},
		{"<|reserved_8|>", &k.question},
		{"<|reserved_9|>", &k.option},
		{"<|reserved_10|>", &k.optionEnd},
		{"<|reserved_11|>", &k.decide},
	} {
		id, ok := t.Special(mark.name)
		if !ok {
			return k, fmt.Errorf("the tokenizer has no %s, want that of LFM2.5's", mark.name)
		}
		*mark.id = id
	}
	return k, nil
}

// specialText is a text that spells a special token, in any text of a question.
var specialText = regexp.MustCompile(`<\|([A-Za-z0-9_]+)\|>`)

// EncodeQuestion returns the tokens of a question:
//
//	BEGIN 17 STATE 18 INSTRUCTIONS {19 MASK " "OPTION 20} 21
//
// What is too long is cut off as in the published program, with a note: instructions and options
// have bounds of their own, and the state has what is left and loses its end.
func (m *Model) EncodeQuestion(q Question) (p Prompt, err error) {
	p.kind = q.Kind
	encode := func(text string, most int, what string) []int32 {
		ids, encodeErr := m.tokenizer.Encode(specialText.ReplaceAllString(text, "<\u00a6$1\u00a6>"))
		if err == nil {
			err = encodeErr
		}
		if len(ids) > most {
			p.Notes = append(p.Notes, fmt.Sprintf("%s was cut to %d tokens", what, most))
			ids = ids[:most]
		}
		return ids
	}
	longest := m.cfg.Longest
	k := len(q.Options)
	room := max(96, min(24*k+32, longest/2))
	each := max(2, (room-3*k)/k)

	tail := append([]int32{m.marks.question},
		encode(q.Instructions, max(16, room)-1, "the text of instructions")...)
	for i, option := range q.Options {
		p.MaskPositions = append(p.MaskPositions, int32(len(tail)+1))
		tail = append(tail, m.marks.option, m.marks.mask)
		tail = append(tail, encode(" "+option, each, fmt.Sprintf("option %d", i+1))...)
		tail = append(tail, m.marks.optionEnd)
	}
	tail = append(tail, m.marks.decide)

	p.Tokens = []int32{m.marks.begin, m.marks.state}
	p.Tokens = append(p.Tokens, encode(q.State, max(0, longest-len(tail)-2), "the state")...)
	for i := range p.MaskPositions {
		p.MaskPositions[i] += int32(len(p.Tokens))
	}
	p.Tokens = append(p.Tokens, tail...)
	if err != nil {
		return p, err
	}
	if int(p.MaskPositions[k-1]) >= longest {
		return p, &param.Error{
			Name:   "options",
			Found:  fmt.Sprint(k),
			Want:   fmt.Sprintf("as many as fit into %d tokens", longest),
			Reason: param.TooLong,
		}
	}
	p.Tokens = p.Tokens[:min(len(p.Tokens), longest)]
	return p, nil
}

// Answer returns the probabilities of a question's options. The caller holds the lock
// (model.LockOf).
func (m *Model) Answer(ctx context.Context, q Prompt) (p []float64, err error) {
	defer backend.Recover(&err)
	n := len(q.Tokens)
	marginals, err := m.trunk.Forward(ctx, &model.Batch{Size: 1, Length: n, Tokens: q.Tokens})
	if err != nil {
		return nil, err
	}
	states, _, err := marginals.(model.HiddenStates).Hidden(nn.RowRange(0, n))
	if err != nil {
		return nil, err
	}
	scores := m.Head.Score(m.b, states, q.kind, q.MaskPositions)
	return nn.Probabilities(scores, m.cfg.temperatureOf(q.kind, len(scores))), nil
}

// temperatureOf returns the temperature of a kind of questions with n options.
func (c *config) temperatureOf(kind string, n int) float64 {
	size := "11+"
	switch {
	case n <= 2:
		size = "2"
	case n <= 5:
		size = "3-5"
	case n <= 10:
		size = "6-10"
	}
	for _, key := range []string{kind + ":" + size, kind} {
		if t, ok := c.Temperatures[key]; ok {
			return t
		}
	}
	return 1
}
