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

// models are those that WritePublished writes, each of networks of published sizes.
var models = map[string][]string{"lm12": {"lm12"}, "mage": {"vit20", "vqgan"}}

// WritePublished writes a model's folder, config.json and model.safetensors in bfloat16: lm12 is
// SDTT's small student, mage is MAGE-B with its VQGAN. The weights are random, so it is only of use
// for measurements.
func WritePublished(dir, name string) error {
	parts, ok := models[name]
	if !ok {
		return fmt.Errorf("model is %q, want %s", name,
			strings.Join(slices.Sorted(maps.Keys(models)), " or "))
	}
	config, list := map[string]any{}, tensors{}
	for _, part := range parts {
		of := published[part]
		if err := json.Unmarshal([]byte(of.config), &config); err != nil {
			return err
		}
		list = append(list, tensorsOf(of.network())...)
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
