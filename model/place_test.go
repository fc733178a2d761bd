package model_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/model"
)

// A config.json that is not JSON, such as one with Python's NaN, is refused with the line and the
// key that are wrong.
func TestConfigErrorsNameTheirPlace(t *testing.T) {
	for _, word := range []string{"NaN", "Infinity", "-Infinity", "True", "None", "'a'"} {
		for line := range 5 {
			lines := []string{"{"}
			for i := range 5 {
				value := "1"
				if i == line {
					value = fmt.Sprintf(`{"list": [2, %s]}`, word)
				}
				lines = append(lines, fmt.Sprintf(`  "key%d": %s,`, i, value))
			}
			lines = append(lines, `  "last": 0`, "}")
			src := &model.Source{Config: []byte(strings.Join(lines, "\n"))}
			var keys map[string]any
			err := model.DecodeConfig(src, &keys)
			require.ErrorContains(t, err, fmt.Sprintf("config.json: line %d, key%d.list[1]: ", line+2,
				line))
		}
	}
	err := model.DecodeConfig(&model.Source{Config: []byte("[")}, &map[string]any{})
	require.ErrorContains(t, err, "config.json: line 1")
}
