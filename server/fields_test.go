package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/server"
)

// Clients have defaults that no model here has room for; their meaning is "as much as there is".
func TestMoreTokensThanThereIsRoomFor(t *testing.T) {
	_, h := serving(t, server.Options{})
	want := ask(t, h.URL+"/v1/completions", `{"prompt":"Lily had","seed":1,"steps":2}`)
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		for _, most := range []string{"255", "256", "1000000"} {
			a := ask(t, h.URL+"/v1/completions",
				`{"prompt":"Lily had","seed":1,"steps":2,"`+name+`":`+most+`}`)
			require.Equal(t, want.Choices[0].Text, a.Choices[0].Text)
			require.Equal(t, "length", a.Choices[0].Finish)
		}
	}
	a := ask(t, h.URL+"/v1/completions", `{"prompt":"Lily had","seed":1,"max_completion_tokens":7,
		"logit_bias":{"550":-100}}`) // no pads, which do not count
	require.Equal(t, 7, a.Usage.Completion)
}

// Usage counts the tokens that are shown, and not those behind a stop. The model has no pads, which
// count but are not shown.
func TestUsageCountsWhatIsShown(t *testing.T) {
	s, h := serving(t, server.Options{})
	chat, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Add(server.Model{Name: "demo-chat", Model: chat}))
	body := `{"model":"demo-chat","prompt":"Lily had","seed":1,"max_tokens":40,"steps":8`
	whole := ask(t, h.URL+"/v1/completions", body+`}`)
	require.Equal(t, 40, whole.Usage.Completion)
	stop, _ := json.Marshal(whole.Choices[0].Text[20:24])
	cut := ask(t, h.URL+"/v1/completions", body+`,"stop":`+string(stop)+`}`)
	pieces, err := chat.Text.Encode(cut.Choices[0].Text)
	require.NoError(t, err)
	require.InDelta(t, len(pieces), cut.Usage.Completion, 2) // a stop may begin within a token
	echoed := ask(t, h.URL+"/v1/completions", body+`,"echo":true}`)
	require.Equal(t, 40, echoed.Usage.Completion)

	// neither the first token of every text nor those that fill a story up
	stories, err := unmask.LoadFS(demo.Text(), "stories", unmask.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Add(server.Model{Name: "stories", Model: stories}))
	story := ask(t, h.URL+"/v1/completions", `{"model":"stories","prompt":"Lily had","seed":1,"steps":24}`)
	pieces, err = stories.Text.Encode("Lily had" + story.Choices[0].Text)
	require.NoError(t, err)
	require.Less(t, len(pieces), 200)
	require.Equal(t, len(pieces), story.Usage.Prompt+story.Usage.Completion)
}

// A seed that the server draws is a number that JavaScript has, so that its clients can send it
// again.
func TestDrawnSeeds(t *testing.T) {
	_, h := serving(t, server.Options{})
	for range 8 {
		a := ask(t, h.URL+"/v1/completions", `{"prompt":"A","max_tokens":1}`)
		require.Equal(t, a.Unmask.Seed, uint64(float64(a.Unmask.Seed)))
		require.Less(t, a.Unmask.Seed, uint64(1)<<53)
	}
}

// The developer's messages are the system's; a stream's usage comes alone in a last chunk.
func TestChatAsOpenAIsClientsHaveIt(t *testing.T) {
	url := one(t, "llada", chatModel(t, "llada")) + "/v1/chat/completions"
	body := func(role string) string {
		return `{"messages":[{"role":"` + role + `","content":"be brief"},` +
			`{"role":"user","content":"hello"}],"seed":1,"max_tokens":16,"temperature":0`
	}
	a := ask(t, url, body("system")+`}`)
	require.Equal(t, a.Choices[0].Message, ask(t, url, body("developer")+`}`).Choices[0].Message)
	events := stream(t, url, body("developer")+`,"stream":true,"stream_options":{"include_usage":true}}`)
	last := events[len(events)-2].data
	require.Contains(t, last, `"choices":[]`)
	require.Equal(t, a.Usage, read(t, []byte(last)).Usage)
	for _, e := range events[:len(events)-2] {
		require.False(t, strings.Contains(e.data, `"usage"`), e.data)
	}
}
