package encoders

import (
	"strings"

	"unmask/model"
)

// isChat reports whether a ModernBERT is one that answers: by its kind, by its repository's name or
// by the marks that its chat template has. config.json does not tell.
func (c *Config) isChat(src *model.Source) bool {
	if c.family.name != "modernbert" || src.KindOverride != "" {
		return src.KindOverride == bertChat
	}
	repo := strings.ToLower(src.Repo)
	if strings.Contains(repo, "modernbert") && strings.Contains(repo, "-chat") {
		src.KindOverride = bertChat
		return true
	}
	if src.Files == nil {
		return false
	}
	for _, name := range []string{"chat_template.jinja", "tokenizer_config.json"} {
		data, err := model.ReadFile(src.Files, name, 1<<24)
		if err == nil && strings.Contains(string(data), "[/Answer]") {
			return true
		}
	}
	return false
}

// chatTemplate is that of dLLM's program for BERT-Chat, which uses it in place of the file's. Its
// marks are ordinary text (dLLM, examples/bert).
const chatTemplate = `{%- for m in messages -%}
{%- set text = m['content'] | trim -%}
{%- if m['role'] == 'system' -%}{{- '[SYS]\n' + text + '\n[/SYS]\n\n' -}}
{%- elif m['role'] == 'user' -%}{{- '[Question]\n' + text + '\n[/Question]\n\n' -}}
{%- elif m['role'] == 'assistant' -%}{{- '[Answer]\n' + text + '\n[/Answer]\n\n' -}}
{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '[Answer]\n' -}}{%- endif -%}`
