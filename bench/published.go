package bench

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"unmask/internal/atomicfile"
	"unmask/weights"
)

// published are models of published sizes with random weights, by name: config.json in parts, and
// tensors.
var published = map[string]func() ([]string, tensors){
	"lm12": func() ([]string, tensors) { return []string{lm12Config}, lm12Tensors() },
	"mage": func() ([]string, tensors) {
		return []string{vit20Config, vqganConfig}, append(vit20Tensors(), vqganTensors()...)
	},
}

// WritePublished writes a model's folder, config.json and model.safetensors in bfloat16: lm12 is
// SDTT's small student, mage is MAGE-B with its VQGAN. The weights are random, so it is only of use
// for measurements.
func WritePublished(dir, name string) error {
	of, ok := published[name]
	if !ok {
		return fmt.Errorf("model is %q, want %s", name,
			strings.Join(slices.Sorted(maps.Keys(published)), " or "))
	}
	parts, list := of()
	config := map[string]any{}
	for _, part := range parts {
		if err := json.Unmarshal([]byte(part), &config); err != nil {
			return err
		}
	}
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	if err := atomicfile.Put(filepath.Join(dir, "config.json"), text); err != nil {
		return err
	}
	return weights.WriteFile(filepath.Join(dir, "model.safetensors"), list, nil)
}
