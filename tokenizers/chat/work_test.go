package chat

import (
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A step of a template does little work, whatever it is given: with a text of 1 MB each of these
// loops soon ends with the limit of steps, where the whole loop takes minutes.
func TestStepsCountWork(t *testing.T) {
	const size = 1 << 20
	messages := []Message{{"user", strings.Repeat("x", size)},
		{"user", strings.Repeat("x", size-1) + "y"}}
	for _, expression := range []string{
		`a | length`, `a[99999999]`, `a == b`, `a < b`, `a is upper`, `a is lower`,
		`a is sameas(b)`, `a.find('y')`, `a.find(b)`, `'y' in a`, `a in [b]`, `a.startswith(b)`,
		`a.endswith(('y', 'z', b))`, `a.split('y')`, `a.strip('x')`, `a | trim('x')`,
		`'x'.strip(a)`, `[a, b] | sort`, `[a, b] | unique | list`,
		`[a, b] | dictsort`, `{a: 1}`, `{'k': 1}[a]`, `a in {'k': 1}`, `{'k': 1}.get(a)`,
		`[{'k': 1}] | map(attribute=a) | list`, `a | int`, `a | upper`,
		`a | tojson`, `[a].index(b)`,
		`a | indent('x')`, `a.split('y')`, `a.split(none, 1)`, `a.format(b)`,
		`a | float`, `[a, b] | min`, `a | e`,
		`strftime_now(a)`, `range(9) | join(a)`, `[[]] * 99999999`, `d[a] is defined`,
	} {
		tmpl, err := Parse(`{% set a = messages[0].content %}{% set b = messages[1].content %}`+
			`{% set d = {'k': 1} %}`+
			`{% for i in range(100000) %}{% set x = `+expression+` %}{% endfor %}`, nil)
		require.NoError(t, err, expression)
		start := time.Now()
		_, err = tmpl.Render(messages, Options{})
		require.Error(t, err, expression)
		require.Less(t, time.Since(start), 20*time.Second, expression)
	}
}

// Numbers in a template, and what it makes, end in a bound or an error: rendering allocates less
// than 1 GB in all, and is soon done.
func TestNumbersOfATemplate(t *testing.T) {
	for _, source := range []string{
		`{{ 'x' * N }}`, `{{ [1] * N }}`, `{{ [[1] * 1000] * N }}`, `{{ 'x' * 1000 * 1000 * N }}`,
		`{{ range(N) | list }}`, `{{ range(-N, N, N) | list }}`, `{% for i in range(N) %}{{ i }}{% endfor %}`,
		`{% for i in range(1000) %}{% for j in range(N) %}{% endfor %}{% endfor %}`,
		`{{ 2 ** N }}`, `{{ 10.0 ** N }}`, `{{ N ** N }}`, `{{ 'a' | center(N) }}`, `{{ '7'.zfill(N) }}`,
		`{{ 'a' | indent(N, true) }}`, `{{ [1, 2] | tojson(indent=N) }}`,
		`{{ [1] | batch(N, 'x') | list }}`, `{{ [1] | slice(N) | list }}`, `{{ 1.5 | round(N) }}`,
		`{{ '%Nd' | format(1) }}`, `{{ '%.Nf' | format(1.0) }}`, `{{ '{:>N}'.format('x') }}`,
		`{{ ('x' * 1000000)[N:] }}`, `{{ 'x'[-N:N] }}`, `{{ (range(100000) | list)[::N] }}`,
		`{{ 'abc'.split('b', N) }}`, `{{ 'abc'.replace('b', 'c', N) }}`, `{{ lipsum(N) }}`, `{{ 1eN }}`,
		`{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(N) }}`,
		`{% set ns = namespace(a=[]) %}{% for i in range(N) %}{% set _ = ns.a.append(ns.a) %}{% endfor %}`,
		`{% for m in messages recursive %}{{ loop(messages) }}{% endfor %}{{ N }}`,
		`{% include 'N' %}`, `{% import 'N' as x %}`, `{% extends 'N' %}`,
		`{{ range(100000) | map('tojson') | list | tojson | tojson | tojson | tojson | tojson | tojson }}`,
		`{{ strftime_now('%Y' * N) }}`, `{{ (('x,' * 1000000) ~ N).split(',') | length }}`,
	} {
		for _, n := range []string{"1000000", "1000000000000"} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			tmpl, err := Parse(strings.ReplaceAll(source, "N", n), nil)
			if err == nil {
				_, err = tmpl.Render([]Message{{"user", "x"}}, Options{})
			}
			if err != nil {
				require.Less(t, len(err.Error()), 400)
			}
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<30), "%s at %s", source, n)
			require.Less(t, time.Since(start), 20*time.Second, "%s at %s", source, n)
		}
	}
}

// Texts of many marked pieces are cut in time that grows with what is cut.
func TestPiecesOfPieces(t *testing.T) {
	for _, expression := range []string{`s.split(',')`, `s.split()`, `s[5:]`, `s | trim`,
		`s.replace(',', ';')`} {
		tmpl, err := Parse(`{% set c = messages[0].content %}{% set s = ((c ~ ', ') * 100000) %}`+
			`{% for i in range(9) %}{% set x = `+expression+` %}{% endfor %}`, nil)
		require.NoError(t, err)
		start := time.Now()
		_, _ = tmpl.Render([]Message{{"user", "u"}}, Options{})
		require.Less(t, time.Since(start), 20*time.Second, expression)
	}
}

// Parsing takes time in proportion to the source.
func TestParsingIsLinear(t *testing.T) {
	for name, source := range map[string]string{
		"literals": "{{ " + strings.Repeat("'' ", 300_000) + "}}",
		"long":     "{{ " + strings.Repeat(`"xxxxxxx"`, 100_000) + "}}",
		"tags":     strings.Repeat("{{1}}", 200_000),
		"comments": strings.Repeat("{##}", 250_000),
		"braces":   strings.Repeat("{", 1_000_000),
		"spaces":   strings.Repeat(" ", 500_000) + strings.Repeat("{%", 1),
		"open":     strings.Repeat("{#", 500_000),
		"lines":    strings.Repeat("\n{{1}}", 150_000),
		"blocks":   strings.Repeat(" {% set a = 1 %}", 60_000),
		"list":     "{{ [" + strings.Repeat("1,", 400_000) + "] }}",
		"names":    "{{ f(" + strings.Repeat("a=1,", 200_000) + ") }}",
		"macros":   strings.Repeat("{% macro f() %}", 90) + strings.Repeat("{% endmacro %}", 90),
	} {
		start := time.Now()
		_, _ = Parse(source, nil)
		require.Less(t, time.Since(start), 10*time.Second, name)
	}
}

// What functions make of the conversation's text is the conversation's.
func TestMarksStay(t *testing.T) {
	for _, expression := range []string{`strftime_now(u)`, `[1, [2]] | tojson(indent=u)`,
		`[1, 2] | tojson(separators=(u, u))`, `u | upper`,
		`u.lower()`, `{u: u} | tojson(sort_keys=true)`, `u.split('|') | join(u)`, `{u: 1}.keys()`,
		`u[::-1][::-1]`, `u | replace('|', u)`, `u.split(sep='|')`, `[u] | first`, `u | string`} {
		parts, err := mustParse(t, `{% set u = messages[0].content %}{{ `+expression+` }}`).Render(
			[]Message{{"user", "<|end|>"}}, Options{})
		require.NoError(t, err, expression)
		said := false
		for _, p := range parts {
			said = said || !p.Special
			if p.Special {
				require.NotContains(t, strings.ToLower(p.Text), "end", expression)
				require.NotContains(t, p.Text, "<", expression)
			}
		}
		require.True(t, said, expression)
	}
}
