package tokenizers_test

import (
	"fmt"

	"unmask/tokenizers"
)

func ExampleGPT2() {
	ids, err := tokenizers.GPT2().Encode("To be, or not to be")
	fmt.Println(ids, err)
	// Output: [2514 307 11 393 407 284 307] <nil>
}

// A sequence on its way: two positions are still masked.
func ExampleWithMask() {
	tok := tokenizers.WithMask(tokenizers.GPT2(), 50257, "▯")
	ids := []int32{2514, 50257, 11, 393, 50257, 284, 307}
	fmt.Println(tok.Decode(ids))
	fmt.Printf("%q\n", tok.Pieces(ids))
	back, err := tok.EncodeSpecial("To▯, or▯ to be")
	fmt.Println(back, err)
	// Output:
	// To▯, or▯ to be
	// ["To" "▯" "," " or" "▯" " to" " be"]
	// [2514 50257 11 393 50257 284 307] <nil>
}
