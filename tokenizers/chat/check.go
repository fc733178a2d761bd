package chat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"unmask/param"
)

// roles are the roles that messages have everywhere. A template may name more.
var roles = []string{"system", "user", "assistant", "tool"}

// CheckMessages returns an error for messages that many templates render without a word, though a
// part of the conversation is lost: there are none, one has no content, or one has a role that the
// template does not name. An assistant's message with tool_calls needs no content. Rendering
// reports what is no list of messages.
func (t *Template) CheckMessages(messages []byte) error {
	var list []map[string]json.RawMessage
	if json.Unmarshal(messages, &list) != nil {
		return nil
	}
	if len(list) == 0 {
		return fmt.Errorf("there are 0 messages, want at least 1")
	}
	for i, m := range list {
		if err := t.check(m); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	return nil
}

func (t *Template) check(m map[string]json.RawMessage) error {
	var role string
	if err := json.Unmarshal(m["role"], &role); err != nil || !t.knows(role) {
		return &param.Error{Name: "role", Found: shown(m["role"]), Want: param.JoinOr(roles)}
	}
	calls := shown(m["tool_calls"])
	if role == "assistant" && calls != missing && calls != "null" && calls != "[]" {
		return nil
	}
	if content := shown(m["content"]); content[0] != '"' && content[0] != '[' {
		return &param.Error{Name: "content", Found: content, Want: "a text"}
	}
	return nil
}

// knows reports whether a role is a usual one, or one that the template compares with.
func (t *Template) knows(role string) bool {
	return slices.Contains(roles, role) || strings.Contains(t.source, "'"+role+"'") ||
		strings.Contains(t.source, `"`+role+`"`)
}

const missing = "missing"

// shown returns a JSON value as errors show it.
func shown(raw json.RawMessage) string {
	const most = 80
	switch {
	case raw == nil:
		return missing
	case len(raw) > most:
		return string(raw[:most]) + "..."
	}
	return string(raw)
}
