package tasks_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/research/experiments"
	"unmask/research/tasks"
)

func TestEachProgramHasAFileOfItsOwn(t *testing.T) {
	ids := []string{"HumanEval/1", "HumanEval_1", "HumanEval 1", "a/../b", "a_.._b", ".x", "x", "é",
		"日", strings.Repeat("n", 300)}
	var r experiments.Result
	for _, id := range ids {
		r.Answers = append(r.Answers, experiments.Answer{ID: id, Kind: "python", Text: id})
	}
	files := tasks.ProgramFiles([]experiments.Result{r})
	require.Len(t, files, len(ids))
	for name := range files {
		require.Less(t, len(name), 200)
	}
}
