package chat

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"unmask/tokenizers"
)

// Whole numbers of more than 64 bits, such as the bounds of a function's argument, are written as
// they are.
func TestLongWholeNumbers(t *testing.T) {
	tmpl, err := Parse(`{{ messages[0].n }} {{ messages | tojson }}`, nil)
	require.NoError(t, err)
	out, err := tmpl.render([]byte(`[{"n": 18446744073709551615}]`), Options{})
	require.NoError(t, err)
	require.Equal(t, `18446744073709551615 [{"n": 18446744073709551615}]`, out.s)
}

// Templates of ours (testdata/make.py) give the text of Jinja 3.1.6, or an error if it gives one.
func TestJinja(t *testing.T) {
	data, err := os.ReadFile("testdata/cases.json")
	require.NoError(t, err)
	var all struct {
		Messages json.RawMessage
		Cases    []struct{ Template, Expected, Error string }
	}
	require.NoError(t, json.Unmarshal(data, &all))
	require.Greater(t, len(all.Cases), 70)
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for _, c := range all.Cases {
		var out text
		tmpl, err := Parse(c.Template, map[string]string{"bos_token": "<s>", "eos_token": "</s>"})
		if err == nil {
			out, err = asIs(tmpl, all.Messages, Options{Now: now})
		}
		if c.Error != "" {
			assert.Error(t, err, "%s: want %s, got %q", c.Template, c.Error, out.s)
			if err == nil {
				continue
			}
			require.NotContains(t, err.Error(), "\n")
			require.Less(t, len(err.Error()), 400)
			continue
		}
		if !assert.NoError(t, err, c.Template) {
			continue
		}
		assert.Equal(t, c.Expected, out.s, c.Template)
	}
}

// asIs renders messages as they are, as Jinja does.
func asIs(tmpl *Template, messages []byte, o Options) (text, error) {
	conversation, err := parseJSON(messages)
	if err != nil {
		return text{}, err
	}
	return tmpl.renderJinja(conversation.(*list), o)
}

// A template gets messages as transformers 5.24 gives them to it (apply_chat_template): without
// null, and with the reasoning under two names.
func TestMessagesOfTransformers(t *testing.T) {
	tmpl := mustParse(t, `{% for m in messages %}{{ m | tojson }}{{ m.content }}{{ m.content is defined }}`+
		`{% endfor %}`)
	for message, want := range map[string]string{
		`{"role": "assistant", "content": null, "tool_calls": [{"id": null}], "name": null}`: `{"role": "assistant", "tool_calls": [{"id": null}]}False`,
		`{"role": "assistant", "reasoning": "T", "content": "a"}`: `{"thinking": "T", "role": "assistant", ` +
			`"reasoning": "T", "content": "a", "reasoning_content": "T"}aTrue`,
		`{"content": "a", "reasoning_content": "T", "role": "assistant"}`: `{"thinking": "T", ` +
			`"content": "a", "reasoning_content": "T", "role": "assistant"}aTrue`,
		`{"reasoning": "U", "reasoning_content": null, "thinking": "T", "content": "a"}`: `{"thinking": "T", ` +
			`"reasoning": "U", "content": "a", "reasoning_content": "T"}aTrue`,
		`{"reasoning_content": "", "thinking": "T", "reasoning": "U", "content": "a"}`: `{"thinking": "T", ` +
			`"reasoning_content": "", "reasoning": "U", "content": "a"}aTrue`,
		`{"reasoning": null, "content": "a"}`: `{"content": "a"}aTrue`,
	} {
		parts, err := tmpl.RenderJSON([]byte("["+message+"]"), Options{})
		require.NoError(t, err)
		var out strings.Builder
		for _, p := range parts {
			out.WriteString(p.Text)
		}
		require.Equal(t, want, out.String())
	}
}

// What a generation block sets stays in it, and no jump leaves it: in Jinja it is a call block (the
// texts and errors are those of transformers 5.24).
func TestGeneration(t *testing.T) {
	for source, want := range map[string]string{
		`{% set a = 1 %}{% generation %}{% set a = 2 %}{{ a }}{% endgeneration %}{{ a }}`:              "21",
		`{% for i in [1, 2] %}{% generation %}{{ loop.index }}{{ i }}{% endgeneration %}{% endfor %}`:  "1122",
		`{% generation %}{% macro f() %}x{% endmacro %}{{ f() }}{% endgeneration %}{{ f is defined }}`: "xFalse",
	} {
		out, err := mustParse(t, source).render([]byte("[]"), Options{})
		require.NoError(t, err)
		require.Equal(t, want, out.s)
	}
	for _, block := range []string{`{% generation %}{% break %}{% endgeneration %}`,
		`{% call f() %}{% continue %}{% endcall %}`} {
		_, err := Parse(`{% for i in [1] %}`+block+`{% endfor %}`, nil)
		require.ErrorContains(t, err, "is outside a loop")
	}
	_, err := mustParse(t, `{% macro f() %}{% endmacro %}{{ f.name }}`).render([]byte("[]"), Options{})
	require.EqualError(t, err, "method name of function is not supported")
}

// A text that is not UTF-8, which JSON cannot say, is refused.
func TestTextsAreUTF8(t *testing.T) {
	_, err := QuestionJSON("", "a\xffb")
	require.EqualError(t, err, "message 0: byte 1 is 0xff, want UTF-8")
	_, err = QuestionJSON("\xff", "b")
	require.EqualError(t, err, "message 0: byte 0 is 0xff, want UTF-8")
	_, err = mustParse(t, `{{ messages }}`).Render([]Message{{"user", "a"}, {"u\xff", "b"}}, Options{})
	require.EqualError(t, err, "message 1: byte 1 is 0xff, want UTF-8")
}

// Templates that would run, nest or grow without end give a one-line error.
func TestLimits(t *testing.T) {
	for name, source := range map[string]string{
		"endless": `{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% ` +
			`endfor %}`,
		"squares": strings.Repeat(`{% for a in range(9999) %}`, 40) + "x" +
			strings.Repeat(`{% endfor %}`, 40),
		"doubling": `{% set ns = namespace(s='x') %}{% for a in range(99) %}{% set ns.s = ns.s ` +
			`+ ns.s %}{% endfor %}`,
		"unwritten": `{% set ns = namespace(s='x') %}{% for a in range(99) %}{% set ns.s = ns.s ` +
			`~ ns.s %}{% endfor %}`,
		"lists": `{% set ns = namespace(s=[1]) %}{% for a in range(99) %}{% set ns.s = ns.s ` +
			`+ ns.s %}{% endfor %}`,
		"times":  `{{ 'x' * 1000000000000 }}`,
		"list":   `{{ [1] * 400000000 }}`,
		"power":  `{{ 10 ** 1000000 }}`,
		"range":  `{{ range(1000000000) }}`,
		"macro":  `{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}`,
		"macros": `{% macro f(n) %}{{ f(n) }}{{ f(n) }}{% endmacro %}{{ f(1) }}`,
		"itself": `{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}`,
		"equal": `{% set ns = namespace(x=[1]) %}{% for i in range(7000) %}{% set ns.x = ` +
			`[ns.x] %}{% endfor %}{{ ns.x == [ns.x] }}{{ ns.x }}`,
		"replace": `{% set ns = namespace(s='xx') %}{% for a in range(9) %}{% set ns.s = ns.s ` +
			`| replace('', ns.s) %}{% endfor %}`,
		"join":     `{{ range(100000) | join('y' * 100000) }}`,
		"indent":   `{{ range(100000) | list | tojson(indent='x' * 100000) }}`,
		"brackets": "{{ " + strings.Repeat("[", 300000),
		"parens":   "{{ " + strings.Repeat("(", 300000) + "1",
		"nots":     "{{ " + strings.Repeat("not ", 200000) + "1 }}",
		"minus":    "{{ " + strings.Repeat("-", 300000) + "1 }}",
		"tildes":   "{{ 'a'" + strings.Repeat(" ~ 'a'", 100000) + " }}",
		"pluses":   "{{ 1" + strings.Repeat("+1", 300000) + " }}",
		"calls":    "{{ x" + strings.Repeat("()", 300000) + " }}",
		"ifs":      strings.Repeat("{% if true %}", 70000),
		"elses":    "{{ 1" + strings.Repeat(" if 0 else 1", 80000) + " }}",
		"filters":  "{{ 1" + strings.Repeat("|trim", 150000) + " }}",
		"long":     strings.Repeat("x", MaxSource+1),
	} {
		tmpl, err := Parse(source, nil)
		if err == nil {
			_, err = tmpl.Render([]Message{{"user", "x"}}, Options{})
		}
		require.Error(t, err, name)
		require.NotContains(t, err.Error(), "\n", name)
		require.Less(t, len(err.Error()), 200, name)
	}
	_, err := Parse(strings.Repeat("x", MaxSource), nil)
	require.NoError(t, err)
	_, err = mustParse(t, `{{ messages }}`).RenderJSON([]byte(strings.Repeat("[", 200000)),
		Options{})
	require.ErrorContains(t, err, "messages: byte 102: nested deeper than 100")
	for _, bad := range []string{"", "{", "7", `{"role":"user"}`, `[]]`, "\xff", "[\"\xff\"]",
		`[{"role":"user","content":"\ud83d"}]`} {
		_, err = mustParse(t, "x").RenderJSON([]byte(bad), Options{})
		require.ErrorContains(t, err, "messages: ")
	}
}

func mustParse(t require.TestingT, source string) *Template {
	tmpl, err := Parse(source, map[string]string{"bos_token": "<s>"})
	require.NoError(t, err)
	return tmpl
}

// Everything from the conversation, and nothing else, is in parts that are not Special, whatever a
// template does with it.
func TestUserTextStaysText(t *testing.T) {
	var templates []*Template
	for _, source := range []string{
		`{% for m in messages %}<|{{ m.role }}|>{{ m.content | trim }}<|end|>{% endfor %}`,
		`{{ messages | tojson }}{{ messages }}{{ messages | map(attribute='content') | ` +
			`join('<|end|>') }}`,
		`{% for m in messages %}{{ bos_token + m.content * 2 ~ '<|x|>' }}{{ m.content[::-1] ` +
			`}}{{ m.content[1:-1] }}{% endfor %}`,
		`{{ messages[0].content | replace('a', '<|a|>') }}{{ '<|b|>' | replace('b', ` +
			`messages[0].content) }}{{ messages[0].content.split() }}`,
		`{% for m in messages %}{% for c in m.content %}{{ c }}<|{{ loop.index }}|>{% endfor ` +
			`%}{{ m.content | upper }}{% endfor %}`,
		`{% macro f(x) %}<|{{ x }}|>{% endmacro %}{{ f(messages[0].content) | trim('<') }}{{ ` +
			`messages[0].content | list | sort | join }}`,
		`{% set ns = namespace(s='') %}{% for m in messages %}{% set ns.s = ns.s + m.content ` +
			`%}{% endfor %}{{ ns.s.strip() | tojson(indent=2) }}`,
		`{{ '<|{}|>{0!r}'.replace('{0!r}', '') .format(messages[0].content) }}{{ messages[1].content | ` +
			`indent('<|i|>', true) }}`,
		`{% macro f() %}<|{{ caller() }}|>{% endmacro %}{% call f() %}{{ messages[0].content | e }}` +
			`{% endcall %}{% filter replace('<', messages[1].content) %}<{{ messages[0].content }}` +
			`{% endfilter %}{{ messages[0].content | safe + '<' }}` +
			`{{ messages | max(attribute='content') }}` +
			`{{ ('<' ~ messages[0].content).split('<', 1) | join('<|x|>') }}`,
	} {
		templates = append(templates, mustParse(t, source))
	}
	rapid.Check(t, func(t *rapid.T) {
		// Private-use runes stand for user input; templates do not have them.
		content := rapid.StringOf(rapid.SampledFrom([]rune("\ue000\ue001\ue002")))
		messages := []Message{{"\ue003", content.Draw(t, "first")},
			{"\ue003", content.Draw(t, "second")}}
		tmpl := templates[rapid.IntRange(0, len(templates)-1).Draw(t, "template")]
		parts, err := tmpl.Render(messages, Options{})
		require.NoError(t, err)
		for _, p := range parts {
			require.False(t, p.Special && strings.ContainsAny(p.Text, "\ue000\ue001\ue002\ue003"),
				"%q", p.Text)
			require.False(t, !p.Special && strings.Contains(p.Text, "<"), "%q", p.Text)
		}
	})
}

func FuzzRender(f *testing.F) {
	data, err := os.ReadFile("testdata/cases.json")
	require.NoError(f, err)
	var all struct{ Cases []struct{ Template string } }
	require.NoError(f, json.Unmarshal(data, &all))
	for _, c := range all.Cases {
		f.Add(c.Template, `[{"role":"user","content":"x"}]`)
	}
	f.Fuzz(func(t *testing.T, source, messages string) {
		tmpl, err := Parse(source, nil)
		var parts []tokenizers.Part
		if err == nil {
			parts, err = tmpl.RenderJSON([]byte(messages), Options{})
		}
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			require.Empty(t, parts)
		}
	})
}
