package chat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"unmask/param"
)

// commonRoles are the roles that messages have everywhere. A template may name more.
var commonRoles = []string{"system", "user", "assistant", "tool"}

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
		if err := t.checkMessage(m); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
	}
	return nil
}

// checkMessage returns an error for one such message.
func (t *Template) checkMessage(m map[string]json.RawMessage) error {
	var role string
	if err := json.Unmarshal(m["role"], &role); err != nil || !t.knowsRole(role) {
		return &param.Error{Name: "role", Found: shortJSON(m["role"]), Want: param.JoinOr(commonRoles)}
	}
	calls := shortJSON(m["tool_calls"])
	if role == "assistant" && calls != missing && calls != "null" && calls != "[]" {
		return nil
	}
	if content := shortJSON(m["content"]); content[0] != '"' && content[0] != '[' {
		return &param.Error{Name: "content", Found: content, Want: "a text"}
	}
	return nil
}

// knowsRole reports whether a role is a usual one, or one that the template compares with.
func (t *Template) knowsRole(role string) bool {
	return slices.Contains(commonRoles, role) || strings.Contains(t.source, "'"+role+"'") ||
		strings.Contains(t.source, `"`+role+`"`)
}

const missing = "missing"

// shortJSON returns a JSON value as errors show it.
func shortJSON(raw json.RawMessage) string {
	const limit = 80
	switch {
	case raw == nil:
		return missing
	case len(raw) > limit:
		return string(raw[:limit]) + "..."
	}
	return string(raw)
}
