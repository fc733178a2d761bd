package schema_test

import (
	"errors"
	"fmt"

	"unmask/grammar/schema"
)

// A schema becomes an automaton of the texts that a model may write. What no automaton can say is
// refused by name.
func ExampleCompile() {
	s, err := schema.Compile([]byte(`{"type": "object", "properties": {"n": {"enum": [1, 2]}},
		"required": ["n"], "additionalProperties": false}`), schema.Options{})
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Match(`{"n": 2}`), s.Match(`{"n": 3}`))
	_, err = schema.Compile([]byte(`{"type": "text"}`), schema.Options{})
	var refused *schema.UnsupportedError
	fmt.Println(errors.As(err, &refused), err)
	// Output:
	// true false
	// true schema is type "text" at #, want what docs/structured.md lists
}
