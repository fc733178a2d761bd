package tasks

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/research/experiments"
)

func item(t *testing.T, line string) Item {
	items, err := ReadItems(strings.NewReader(line))
	require.NoError(t, err)
	return items[0]
}

// Each kind accepts what is right, in any usual form, and nothing else.
func TestRight(t *testing.T) {
	for _, c := range []struct {
		line         string
		right, wrong []string
	}{
		{`{"kind": "number", "prompt": "p", "answer": "2 + 1,198 #### 1,200"}`,
			[]string{"1200", "so it is 1,200.", "1 #### 1200.0 apples", "#### 3 #### 1200"},
			[]string{"", "none", "1200 or 12", "#### 12 1200", "-1200"}},
		{`{"kind": "number", "prompt": "p", "answer": -0.5}`, []string{"-.5", "it is -0.50"},
			[]string{"0.5", "-5"}},
		// JSON's numbers have exponents (RFC 8259, section 6)
		{`{"kind": "number", "prompt": "p", "answer": 1e+20}`,
			[]string{"100000000000000000000", "it is 1E20", "#### 10.0e19 m"}, []string{"20", "1", "2e20"}},
		{`{"kind": "number", "prompt": "p", "answer": 1e3}`, []string{"1000", "1,000", "1e3"},
			[]string{"3", "1", "1e1000000000"}},
		{`{"kind": "number", "prompt": "p", "answer": 1e-07}`, []string{"0.0000001", ".1e-6"},
			[]string{"7", "-7", "1e7"}},
		{`{"kind": "exact", "prompt": "p", "answer": ["Paris", "paris "]}`, []string{" Paris\n", "paris"},
			[]string{"PARIS", "Paris is", ""}},
		{`{"kind": "json", "prompt": "p", "answer": {"a": [1, 2.50], "b": null}}`,
			[]string{` {"b":null,"a":[1.0,25e-1]} `},
			[]string{`{"a": [2.5, 1], "b": null}`, `{"a": [1, 2.5]}`, `{"a":[1,2.5],"b":null} x`, `{`}},
		{`{"kind": "json", "prompt": "p", "schema": {"type": "integer", "minimum": 3}}`,
			[]string{"3", "12"}, []string{"2", `"3"`, "3.5"}},
		{`{"kind": "waiting-line", "prompt": "p", "answer": ["Ada", "Ben"]}`,
			[]string{"Ada, Ben", "Ada,Ben.", " Ada\nBen\n"}, []string{"Ben, Ada", "Ada", "Ada Ben"}},
		{`{"kind": "waiting-line", "prompt": "p", "answer": ["Ada", "Ben"], "line": ["Ada", "Ben"]}`,
			[]string{"Ben, Ada"}, []string{"Ada, Ben", "Ben", "Ben, Ben"}},
		{`{"kind": "sudoku", "prompt": "p", "puzzle": "12.. 3412 ..43 4321"}`,
			[]string{"1234\n3412\n2143\n4321", "1 2 3 4, 3412 2143 4321"},
			[]string{"1243\n3412\n2143\n4321", "1234\n3412\n2143", "1234 3412 2143 43215"}},
		{`{"kind": "latin-square", "prompt": "p", "puzzle": "1.. 23. ..."}`, []string{"123 231 312"},
			[]string{"123 213 312", "132 213 321", "124 231 312"}},
	} {
		it := item(t, c.line)
		for want, list := range map[bool][]string{true: c.right, false: c.wrong} {
			for _, text := range list {
				got, err := it.IsRight(text)
				require.NoError(t, err, c.line)
				require.Equal(t, want, got, "%s: %q", c.line, text)
			}
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for line, want := range map[string]string{
		``:                                  "there are 0 lines, want at least 1",
		`[]`:                                "line 1: no JSON object, want one",
		`{"kind": "riddle", "prompt": "p"}`: `line 1: kind is "riddle", want number, `,
		`{"kind": "exact", "answer": "a"}`:  "line 1: prompt is missing, want ",
		`{"kind": "number", "prompt": "p", "answer": "x"}`:       `line 1: answer is "x", want a number`,
		`{"kind": "exact", "prompt": "p", "answer": []}`:         "line 1: answer is [], want a text or a",
		`{"kind": "choice", "prompt": "p", "choices": ["a"]}`:    "line 1: choices is missing, want two or",
		`{"kind": "json", "prompt": "p"}`:                        "line 1: answer is missing, want a value",
		`{"kind": "sudoku", "prompt": "p", "puzzle": "12 21"}`:   `line 1: puzzle is "12 21", want 4 or 9`,
		`{"kind": "python", "prompt": "p", "speed": 3}`:          `speed`,
		`{"kind": "python", "prompt": "p", "lines": ["a", "b"]}`: `lines`,
		`{"kind": "choice", "prompt": "p", "choices": ["a", "b"], "answer": 2}`: "line 1: answer is 2, want 0 " +
			"to 1, or the text of a choice",
		"{\"id\": \"a\", \"kind\": \"python\", \"prompt\": \"p\"}\n" +
			"{\"id\": \"a\", \"kind\": \"python\", \"prompt\": \"q\"}": `line 2: id is "a", want one that no other`,
	} {
		_, err := ReadItems(strings.NewReader(line))
		require.ErrorContains(t, err, want, line)
	}
}

// The tasks of examples are written as they were read, and a waiting line's right answer is right.
func TestExamples(t *testing.T) {
	for name, n := range map[string]int{"waiting-line": 60, "squares": 40} {
		file, err := os.Open("../../examples/" + name + ".jsonl")
		require.NoError(t, err)
		defer file.Close()
		items, err := ReadItems(file)
		require.NoError(t, err)
		require.Len(t, items, n)
		for _, it := range items {
			line, err := json.Marshal(it)
			require.NoError(t, err)
			require.Equal(t, it, item(t, string(line)))
			if it.Answer == nil {
				continue
			}
			right, err := answerTexts(it.Answer)
			require.NoError(t, err)
			if it.Line != nil { // any order but this one
				right[0], right[1] = right[1], right[0]
			}
			ok, err := it.IsRight(strings.Join(right, ", "))
			require.NoError(t, err)
			require.True(t, ok, it.ID)
		}
	}
}

// A choice is the likelier text, whatever the sampler; other answers are those of the sampler, in
// any parts and batches.
func TestRun(t *testing.T) {
	m, err := unmask.Load(t.Context(), "oracle:letters:length=24", unmask.Options{})
	require.NoError(t, err)
	lines := []string{
		`{"kind": "choice", "prompt": "and ", "choices": ["zqx", "the", "xj"], "answer": "the"}`,
		`{"kind": "choice", "prompt": "and ", "choices": ["tha", "qqq"], "answer": 1}`}
	for i := range 5 {
		lines = append(lines, fmt.Sprintf(`{"kind": "exact", "prompt": "the %c", "answer": "x"}`, 'a'+i))
	}
	items, err := ReadItems(strings.NewReader(strings.Join(lines, "\n")))
	require.NoError(t, err)
	answers := func(chunk, batch int) (list []experiments.Answer, results []experiments.Result) {
		task, err := New(m, items, unmask.Request{})
		require.NoError(t, err)
		methods := []experiments.Point{{Sampler: "random"}, {Sampler: "first-hitting"},
			{Sampler: "u-moment", Cache: 1}}
		for _, p := range PlanPoints(methods, []int{4, 100}, len(items), chunk, batch, 3) {
			r, err := experiments.MeasurePoint(t.Context(), task, p, nil)
			require.NoError(t, err)
			list, results = append(list, r.Answers...), append(results, r)
		}
		return list, results
	}
	whole, results := answers(7, 7)
	parts, partial := answers(2, 1)
	require.Equal(t, whole, parts)
	require.Len(t, whole, 5*7)
	require.True(t, *whole[0].Right)
	require.False(t, *whole[1].Right)
	require.Equal(t, "tha", whole[1].Text)
	require.Equal(t, 4, whole[2].Passes)
	require.Equal(t, 19, whole[9].Passes) // at most a step for each masked position
	require.Equal(t, 19, whole[2].Tokens)

	all := experiments.Accuracies(results)
	require.Len(t, all, 5)
	require.Equal(t, 1, all[0].Right)
	require.Equal(t, 7, all[0].Checked)
	require.InDelta(t, 19.0/4, all[0].PerPass, 1e-12)
	require.Equal(t, map[string]float64{"choice": 0.5, "exact": 0}, all[0].Kinds)
	again := experiments.Accuracies(partial)
	for i := range all {
		all[i].PerSecond, again[i].PerSecond = 0, 0
	}
	require.Equal(t, all, again)
	low, high := experiments.Wilson(1, 7) // statsmodels, proportion_confint(1, 7, method="wilson")
	require.InDelta(t, 0.0257, low, 2e-4)
	require.InDelta(t, 0.5131, high, 2e-4)
}
