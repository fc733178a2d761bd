package chat

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// family is one file of cases: a template, and what Jinja 3.1.6 renders for conversations.
type family struct {
	Template string
	BOS      string `json:"bos_token"`
	EOS      string `json:"eos_token"`
	Now      string
	Cases    []struct {
		Name, Expected string
		Error          string
		Messages       json.RawMessage
		Tools          json.RawMessage
		Prompt         bool  `json:"add_generation_prompt"`
		Thinking       *bool `json:"enable_thinking"`
	}
}

// check renders every case; any error counts as one.
func (f *family) check(t *testing.T,
	render func(*Template, []byte, Options) (text, error)) (rendered, failed int) {
	tmpl, err := Parse(f.Template, map[string]string{"bos_token": f.BOS, "eos_token": f.EOS})
	require.NoError(t, err)
	now, err := time.Parse("2006-01-02", f.Now[:min(10, len(f.Now))])
	require.NoError(t, err)
	wrong := 0
	for _, c := range f.Cases {
		o := Options{Complete: !c.Prompt, Now: now}
		if string(c.Tools) != "null" {
			o.Tools = c.Tools
		}
		if c.Thinking != nil {
			o.Variables = map[string]any{"enable_thinking": *c.Thinking}
		}
		out, err := render(tmpl, c.Messages, o)
		switch {
		case c.Error != "" && err != nil:
			require.NotContains(t, err.Error(), "\n")
			failed++
		case c.Error == "" && err == nil && out.s == c.Expected:
			rendered++
		default:
			if wrong++; wrong < 3 {
				t.Errorf("%s:\nwant %q %s\ngot  %q %v", c.Name, c.Expected, c.Error, out.s, err)
			}
		}
	}
	return rendered, failed
}

// The published templates are rendered if they are beside the repository, where they are not
// included because they belong to their authors: by Jinja alone or, where UNMASK_CHAT_PACKS names
// packs of research/originals/templates.py, by transformers.
func TestPublished(t *testing.T) {
	packs := os.Getenv("UNMASK_CHAT_PACKS")
	files, err := filepath.Glob(cmp.Or(packs, "../../../shared/parity/packs/chat-templates") + "/*.json")
	require.NoError(t, err)
	if len(files) == 0 {
		t.Skip("no packs beside the repository")
	}
	render := asIs
	if packs != "" {
		render = (*Template).render
	}
	rendered, failed := 0, 0
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			var f family
			require.NoError(t, json.Unmarshal(data, &f))
			r, e := f.check(t, render)
			rendered, failed = rendered+r, failed+e
		})
	}
	t.Logf("%d rendered, %d errors", rendered, failed)
	if packs == "" {
		require.Equal(t, 1436, rendered)
		require.Equal(t, 332, failed)
	}
}
