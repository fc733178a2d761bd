package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/internal/imagenet"
	"unmask/model"
	"unmask/testkit/refusal"
)

func TestFindClass(t *testing.T) {
	names := imagenet.Names()
	for text, want := range map[string]int32{"207": 207, "golden retriever": 207,
		" Golden Retriever ": 207, "0": 0, "crane (bird)": 134} {
		got, err := model.FindClass(1000, names, text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"1000":             "class is 1000, want 0 to 999",
		"-1":               "class is -1, want 0 to 999",
		"golden retreiver": `class is "golden retreiver", want 0 to 999 or a name such as golden retriever`,
		"retriever": "flat-coated retriever, curly-coated retriever, golden retriever or " +
			"Labrador retriever",
		"crane": "crane (bird) or crane (machine)",
		"":      `class is "", want 0 to 999 or a name such as tench`,
	} {
		_, err := model.FindClass(1000, names, text)
		require.ErrorContains(t, err, want, text)
		require.NotContains(t, err.Error(), "\n")
	}
	_, err := model.FindClass(10, nil, "dog")
	refusal.Require(t, err, "class", `"dog"`)
}
