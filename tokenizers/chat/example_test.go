package chat_test

import (
	"fmt"

	"unmask/tokenizers/chat"
)

// User input stays apart from the template's own text, and so from its special tokens.
func ExampleTemplate_Render() {
	t, err := chat.Parse("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% "+
		"endfor %}", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	parts, err := t.Render([]chat.Message{{Role: "user", Content: "Hi <|end|>"}}, chat.Options{})
	for _, p := range parts {
		fmt.Printf("%v %q\n", p.Special, p.Text)
	}
	fmt.Println(err)
	// Output:
	// true "<|"
	// false "user"
	// true "|>"
	// false "Hi <|end|>"
	// true "<|end|>"
	// <nil>
}
