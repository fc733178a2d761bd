package constrain_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/constrain"
	"unmask/generate"
	"unmask/grammar"
	"unmask/grammar/schema"
	"unmask/kvcache"
	"unmask/model"
	"unmask/samplers"
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
	const columns = uniformMask + 1
	logits := make([]float32, b.Size*b.Length*columns)
	for i := uniformMask; i < len(logits); i += columns {
		logits[i] = float32(math.Inf(-1)) // nowhere is the mask a token
	}
	u.dense = model.Dense{Logits: logits, Columns: columns}
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
	"remdm(strategy=psi,kappa=0.5)", "gibbs(k=2)", "dilated", "spaced(eb(budget=4))",
	"info-gain",
	"low-confidence", "low-confidence(temperature=1)", "semi-ar(random)",
	"semi-ar(low-confidence) reuse=dual",
	"semi-ar(confidence) reuse=prefix", "random reuse=dkv", "theta-trapezoidal", "maskgit-redraw",
	"u-moment",
	"threshold", "first-hitting", "confidence reuse=blocks", "threshold reuse=blocks",
	"edit(theta=0.5) reuse=blocks", "random temperature=0", "random temperature=2",
	"moment top-k=3", "hybrid top-p=0.5", "amused", "titok", "halton-maskgit", "greedy", "factor",
	"dynamic reuse=blocks", "fast-dllm-v2 reuse=blocks", "dplm", "dplm(resample=0.01)",
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
	var validators []*jsonschema.Schema
	for _, text := range someSchemas {
		languages = append(languages, compiled(t, text))
		validators = append(validators, validator(t, text))
	}
	rapid.Check(t, func(t *rapid.T) {
		which := rapid.IntRange(0, len(someSchemas)-1).Draw(t, "schema")
		requireValid(t, *languages[which], validators[which], someSchemas[which])
	})
}

// Schemas that nobody wrote, under everything that a run may be.
func TestAlwaysValidForRandomSchemas(t *testing.T) {
	tried, made := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		data, err := json.Marshal(randomSchema(t, 3))
		require.NoError(t, err)
		text := string(data)
		tried++
		if l := compiled(t, text); l != nil {
			made++
			requireValid(t, *l, validator(t, text), text)
		}
	})
	require.Greater(t, 2*made, tried, "schemas that were not refused")
}

// compiled returns the language of a schema, nil for one that is refused.
func compiled(t require.TestingT, text string) *constrain.Language {
	s, err := schema.Compile([]byte(text), schema.Options{MaxStates: 3000})
	if err != nil {
		return nil
	}
	a, err := s.Tokens(bytesVocabulary, grammar.TokenOptions{EndTokens: []int32{bytesEnd},
		FillTokens: []int32{bytesEnd}})
	require.NoError(t, err, text)
	return &constrain.Language{Tokens: a}
}

// validator returns an independent validator of a schema.
func validator(t require.TestingT, text string) *jsonschema.Schema {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	require.NoError(t, c.AddResource("schema.json", doc))
	s, err := c.Compile("schema.json")
	require.NoError(t, err, text)
	return s
}

// requireValid runs a random recipe, and checks that all texts are JSON that a schema allows.
func requireValid(t *rapid.T, l constrain.Language, valid *jsonschema.Schema, schema string) {
	shortest := int(l.MinTokens[l.Start])
	room := shortest + rapid.IntRange(0, 20).Draw(t, "room")
	l.FirstPosition = rapid.IntRange(0, 3).Draw(t, "before")
	l.EndPosition = l.FirstPosition + room
	length := l.EndPosition + rapid.IntRange(0, 2).Draw(t, "after")
	text := rapid.SampledFrom(recipes).Draw(t, "recipe")
	steps := rapid.IntRange(1, 12).Draw(t, "steps")
	block := rapid.SampledFrom([]int{4, 8}).Draw(t, "block")
	o := generate.Options{Request: generate.Request{Length: length, Seed: rapid.Uint64().Draw(t,
		"seed"), Language: &l, EndTokens: []int32{bytesEnd}}, N: rapid.IntRange(1, 3).Draw(t, "texts"),
		Batch: rapid.IntRange(1, 2).Draw(t, "batch")}
	d := &uniform{length: length}
	schedule := rapid.SampledFrom(samplers.Schedules()).Draw(t, "schedule")
	temperature := rapid.SampledFrom([]string{"0", "0.5", "3"}).Draw(t, "temperature")
	for i, setting := range []string{"", fmt.Sprint(" schedule=", schedule),
		" temperature=" + temperature} {
		r, err := generate.ParseRecipe(text + setting)
		if i > 0 && (err != nil || rapid.Bool().Draw(t, "plain")) {
			continue // it has a schedule or a temperature of its own
		}
		require.NoError(t, err, text)
		changed, network := o, &uniform{length: length}
		if r.Steps = steps; r.Reuse == generate.Blocks {
			network.block = block
		}
		changed.Recipe = r
		if _, err := changed.Check(network); err != nil {
			changed.Steps = length
			if _, err := changed.Check(network); i > 0 && err != nil {
				continue // the setting has no effect with this recipe
			}
		}
		text, o, d = text+setting, changed, network
	}
	done := 0
	for step, err := range generate.Run(context.Background(), d, o) {
		require.NoError(t, err, text)
		if !step.Done {
			continue
		}
		for _, q := range step.Sequences {
			made := q.Tokens[l.FirstPosition:l.EndPosition]
			require.False(t, slices.Contains(made, uniformMask), text)
			out := textOf(made)
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(out))
			require.NoError(t, err, "%s: %q of %s", text, out, schema)
			require.NoError(t, valid.Validate(v), "%s: %q of %s", text, out, schema)
			done++
		}
	}
	require.Equal(t, o.N, done)
}

// randomSchema returns a schema that is nested to a depth.
func randomSchema(t *rapid.T, depth int) any {
	kinds := []string{"string", "integer", "number", "boolean", "null", "enum", "any"}
	if depth > 0 {
		kinds = append(kinds, "array", "object", "object", "anyOf", "oneOf", "allOf", "not")
	}
	count := func(most int, name string) int { return rapid.IntRange(0, most).Draw(t, name) }
	one := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
	maybe := func(name string) bool { return rapid.Bool().Draw(t, name) }
	sub := func() any { return randomSchema(t, depth-1) }
	kind := one("kind", kinds...)
	s := map[string]any{"type": kind}
	switch kind {
	case "any":
		return map[string]any{}
	case "enum":
		values := []any{"a", "\"é", 1, 2.5, nil, true, []any{1, "x"}}
		return map[string]any{"enum": values[:1+count(len(values)-1, "values")]}
	case "string":
		switch count(3, "text") {
		case 0:
			s["pattern"] = one("pattern", "^[a-c]+$", "x", `^\d{2,4}(-[A-Z])?$`, "é|b$")
		case 1:
			s["format"] = one("format", "date", "ipv4", "email", "uuid")
		case 2:
			s["minLength"], s["maxLength"] = count(4, "least"), 4+count(60, "most")
		}
	case "integer", "number":
		if maybe("minimum") {
			s["minimum"] = count(200, "minimum") - 100
		}
		if maybe("maximum") {
			s["exclusiveMaximum"] = 120 + count(1000, "maximum")
		}
		if maybe("multiples") {
			s["multipleOf"] = 1 + count(6, "multiple")
		}
	case "array":
		s["items"], s["minItems"] = sub(), count(2, "least")
		if maybe("bounded") {
			s["maxItems"] = 2 + count(3, "most")
		}
		if maybe("prefix") {
			s["prefixItems"] = []any{sub(), sub()}
		}
	case "object":
		properties, required := map[string]any{}, []any{}
		for i := range count(3, "keys") {
			name := string(rune('a' + i))
			properties[name] = sub()
			if maybe("required") {
				required = append(required, name)
			}
		}
		s["properties"], s["required"] = properties, required
		switch count(2, "others") {
		case 0:
			s["additionalProperties"] = false
		case 1:
			s["additionalProperties"] = sub()
		}
	case "anyOf", "oneOf", "allOf":
		return map[string]any{kind: []any{sub(), sub()}}
	case "not":
		return map[string]any{"not": sub(), "type": []any{"integer", "string", "null"}}
	}
	return s
}
