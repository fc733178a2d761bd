package tokenizers

import (
	"strings"
	"testing"
)

// BenchmarkEncode measures prose, and one word that merges over many levels.
func BenchmarkEncode(b *testing.B) {
	prose := strings.Repeat("The model's masks weren't filled: it'll take 12 steps, or 3456, as "+
		"Qwen2-style "+
		"splits have it.\n\tif (x == y) { return naïve(café); }\n", 2000)
	for _, c := range []struct{ name, text string }{{"prose", prose},
		{"word", strings.Repeat("internationalisation", 5000)}} {
		b.Run(c.name, func(b *testing.B) {
			t := GPT2()
			b.SetBytes(int64(len(c.text)))
			for b.Loop() {
				if _, err := t.Encode(c.text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
