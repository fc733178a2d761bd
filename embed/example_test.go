package embed_test

import (
	"context"
	"fmt"
	"log"

	"unmask"
	"unmask/embed"
)

// Vectors of texts by a folder that sentence-transformers saved, whose tokenizer takes capitals as
// small letters.
func Example() {
	ctx := context.Background()
	m, err := unmask.Load(ctx, "../testdata/packs/embed-bert-tiny", unmask.Options{Device: "cpu"})
	if err != nil {
		log.Fatal(err)
	}
	embedder, err := embed.New(m)
	if err != nil {
		log.Fatal(err)
	}

	options := embed.Options{Normalize: true}
	var texts []*embed.Text
	for _, text := range []string{"A fox in the snow.", "A FOX in the snow."} {
		read, err := embedder.Tokenize(ctx, text, options)
		if err != nil {
			log.Fatal(err)
		}
		texts = append(texts, read)
	}
	vectors, err := embedder.Embed(ctx, texts, options)
	if err != nil {
		log.Fatal(err)
	}
	similarity := 0.0
	for i := range vectors[0] {
		similarity += float64(vectors[0][i]) * float64(vectors[1][i])
	}
	fmt.Printf("%d numbers, cosine %.2f\n", len(vectors[0]), similarity)
	// Output:
	// 6 numbers, cosine 1.00
}
