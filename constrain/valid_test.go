package constrain_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/constrain"
	"unmask/generate"
	"unmask/grammar"
	"unmask/grammar/schema"
	"unmask/kvcache"
	"unmask/model"
)

// uniform is a network that knows nothing: the hardest one for a language. Its vocabulary is bytes,
// some pieces of JSON, the end and the mask.
type uniform struct {
	model.Shared
	length, block int
	dense         model.Dense
}

var pieces = []string{`{"`, `": `, `", "`, `"}`, `": "`, `, "`, `true`, `1`, `12`, `}}`, `"]`, `é`}

const bytesEnd, uniformMask = 256 + 12, 256 + 13

func (u *uniform) Spec() model.Spec {
	return model.Spec{Shape: []int{u.length}, Outcomes: uniformMask + 1, Mask: uniformMask,
		Block: u.block, Ragged: true}
}

func (u *uniform) Forward(_ context.Context, b *model.Batch) (model.Marginals, error) {
	if err := b.Check(u.Spec()); err != nil {
		return nil, err
	}
	n := b.Size * b.Length * (uniformMask + 1)
	u.dense = model.Dense{Logits: make([]float32, n), Columns: uniformMask + 1}
	return &u.dense, nil
}

func (u *uniform) NewCache(batch, length int) *kvcache.Cache {
	return &kvcache.Cache{Batch: batch, Length: length}
}

func (u *uniform) Refine(ctx context.Context, b *model.Batch, _ []int32) (model.Marginals, error) {
	return u.Forward(ctx, b)
}

func spell(id int32) (string, bool) {
	switch {
	case id < 256:
		return string([]byte{byte(id)}), true
	case id < bytesEnd:
		return pieces[id-256], true
	}
	return "", false
}

var bytesVocabulary = grammar.NewVocabulary(uniformMask+1, spell)

func textOf(tokens []int32) string {
	text := ""
	for _, id := range tokens {
		if id == bytesEnd {
			break
		}
		piece, _ := spell(id)
		text += piece
	}
	return text
}

var recipes = []string{
	"random", "maskgit", "moment", "hybrid", "hybrid cache=1", "halton cache=2", "temp", "vanilla",
	"confidence", "margin", "entropy", "eb", "klass", "p2", "remdm", "remdm(strategy=conf)",
	"info-gain",
	"low-confidence", "low-confidence(temperature=1)", "semi-ar(random)",
	"semi-ar(low-confidence) reuse=dual",
	"semi-ar(confidence) reuse=prefix", "random reuse=dkv", "theta-trapezoidal", "maskgit-redraw",
	"u-moment",
	"threshold", "first-hitting", "confidence reuse=blocks", "threshold reuse=blocks",
	"edit(theta=0.5) reuse=blocks", "random temperature=0", "random temperature=2",
	"moment top-k=3", "hybrid top-p=0.5", "amused", "titok", "halton-maskgit", "greedy", "factor",
	"dynamic reuse=blocks", "fast-dllm-v2 reuse=blocks",
}

var someSchemas = []string{
	`{"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer",
		"minimum": 0, "maximum": 120}}, "required": ["name", "age"], "additionalProperties": false}`,
	`{"type": "array", "items": {"enum": ["a", "bc", true]}, "minItems": 2}`,
	`{"type": "object", "properties": {"kind": {"const": "x"}}, "required": ["kind"]}`,
	`{"type": ["number", "null"]}`,
	`{"type": "object"}`,
	`{"type": "string", "pattern": "^[a-f]+-[0-9]{2}$"}`,
}

func TestAlwaysValid(t *testing.T) {
	var languages []*constrain.Language
	for _, text := range someSchemas {
		s, err := schema.Compile([]byte(text), schema.Options{})
		require.NoError(t, err)
		a, err := s.Tokens(bytesVocabulary, grammar.TokenOptions{Ends: []int32{bytesEnd},
			Fill: []int32{bytesEnd}})
		require.NoError(t, err)
		languages = append(languages, &constrain.Language{Tokens: a})
	}
	compiled := make([]*schema.Schema, len(someSchemas))
	for i, text := range someSchemas {
		compiled[i], _ = schema.Compile([]byte(text), schema.Options{})
	}
	rapid.Check(t, func(t *rapid.T) {
		which := rapid.IntRange(0, len(someSchemas)-1).Draw(t, "schema")
		l := *languages[which]
		shortest := int(l.Shortest[l.Start])
		room := shortest + rapid.IntRange(0, 20).Draw(t, "room")
		l.From = rapid.IntRange(0, 3).Draw(t, "before")
		l.To = l.From + room
		length := l.To + rapid.IntRange(0, 2).Draw(t, "after")
		text := rapid.SampledFrom(recipes).Draw(t, "recipe")
		r, err := generate.ParseRecipe(text)
		require.NoError(t, err, text)
		r.Steps = rapid.IntRange(1, 12).Draw(t, "steps")
		d := &uniform{length: length, block: rapid.SampledFrom([]int{4, 8}).Draw(t, "block")}
		if r.Reuse != generate.Blocks {
			d.block = 0
		}
		o := generate.Options{Length: length, Seed: rapid.Uint64().Draw(t, "seed"), N: 2,
			Language: &l, Ends: []int32{bytesEnd}}.With(r)
		if _, err := o.Check(d); err != nil {
			o.Steps = length
		}
		for step, err := range generate.Run(context.Background(), d, o) {
			require.NoError(t, err, text)
			if !step.Done {
				continue
			}
			for _, q := range step.Sequences {
				out := textOf(q.Tokens[l.From:l.To])
				require.False(t, slices.Contains(q.Tokens[l.From:l.To], uniformMask), text)
				require.True(t, compiled[which].Match(out), "%s: %q of %s", text, out, someSchemas[which])
			}
		}
	})
}
