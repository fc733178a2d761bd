package server_test

import (
	"encoding/json"
	"math"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/server"
)

// topAnswer has an answer's log-probabilities, of a completion or of a conversation.
type topAnswer struct {
	Choices []struct {
		Text    string
		Message struct{ Content string }
		Finish  string `json:"finish_reason"`
		Logs    *struct {
			Tokens  []string
			LogP    []*float64           `json:"token_logprobs"`
			Top     []map[string]float64 `json:"top_logprobs"`
			Content []struct {
				topToken
				Top []topToken `json:"top_logprobs"`
			}
		} `json:"logprobs"`
	}
}

type topToken struct {
	Token   string
	LogProb *float64
	Bytes   []int
}

func readTop(t *testing.T, data []byte) (a topAnswer) {
	require.NoError(t, json.Unmarshal(data, &a), "%s", data)
	return a
}

// A completion's most probable tokens are as many as asked for, and the text stays the same.
func TestTopOfCompletions(t *testing.T) {
	_, h := serving(t, server.Options{})
	url := h.URL + "/v1/completions"
	body := `{"prompt":"Once upon","max_tokens":12,"seed":3,"steps":4`
	status, _, data := post(t, url, body+`}`)
	require.Equal(t, 200, status)
	plain := readTop(t, data).Choices[0]
	require.Nil(t, plain.Logs)
	for field, most := range map[string]int{`"logprobs":0`: 0, `"logprobs":1`: 1, `"logprobs":5`: 5} {
		status, _, data := post(t, url, body+`,`+field+`,"echo":true}`)
		require.Equal(t, 200, status, "%s", data)
		c := readTop(t, data).Choices[0]
		require.Equal(t, "Once upon"+plain.Text, c.Text)
		if most == 0 {
			require.Nil(t, c.Logs.Top)
			continue
		}
		require.Len(t, c.Logs.Top, len(c.Logs.Tokens))
		opened := 0
		for i, own := range c.Logs.LogP {
			if own == nil { // given
				require.Nil(t, c.Logs.Top[i])
				continue
			}
			opened++
			require.LessOrEqual(t, len(c.Logs.Top[i]), most+1)
			found := math.Inf(-1)
			for _, logP := range c.Logs.Top[i] {
				if math.Abs(logP-*own) < math.Abs(found-*own) {
					found = logP
				}
			}
			require.InDelta(t, *own, found, 1e-5) // its own is one of them
		}
		require.Positive(t, opened)
		sent := stream(t, url, body+`,`+field+`,"stream":true}`)
		last := readTop(t, []byte(sent[len(sent)-2].data)).Choices[0]
		from := len(c.Logs.Top) - len(last.Logs.Top)
		require.Equal(t, c.Logs.Top[from:], last.Logs.Top)
	}
}

// A conversation has them as lists, in a stream in the last chunk.
func TestTopOfChats(t *testing.T) {
	s, err := server.New(server.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Add(server.Model{Name: "llada", Model: chatModel(t, "llada")}))
	h := httptest.NewServer(describedHandler(t, s.Handler()))
	defer s.Close()
	defer h.Close()
	url := h.URL + "/v1/chat/completions"
	body := `{"messages":[{"role":"user","content":"Hi"}],"max_tokens":8,"logprobs":true`
	status, _, data := post(t, url, body+`,"top_logprobs":0}`)
	require.Equal(t, 200, status, "%s", data)
	plain := readTop(t, data).Choices[0]
	status, _, data = post(t, url, body+`,"top_logprobs":20}`)
	require.Equal(t, 200, status, "%s", data)
	c := readTop(t, data).Choices[0]
	require.Equal(t, plain.Message, c.Message)
	require.Len(t, c.Logs.Content, len(plain.Logs.Content))
	require.NotEmpty(t, c.Logs.Content)
	for i, one := range c.Logs.Content {
		require.Equal(t, plain.Logs.Content[i].topToken, one.topToken)
		require.Empty(t, plain.Logs.Content[i].Top)
		require.Len(t, one.Top, 20)
		require.True(t, slices.IsSortedFunc(one.Top, func(a, b topToken) int {
			if *a.LogProb >= *b.LogProb {
				return -1
			}
			return 1
		}))
		// the model's published run takes the most probable token
		require.InDelta(t, *one.LogProb, *one.Top[0].LogProb, 1e-5)
	}
	sent := stream(t, url, body+`,"top_logprobs":20,"stream":true}`)
	last := readTop(t, []byte(sent[len(sent)-2].data)).Choices[0]
	require.Equal(t, c.Logs, last.Logs)
}

// Under a list of choices only tokens that some choice has are listed, and their probabilities sum
// to 1 at most.
func TestTopOfChoices(t *testing.T) {
	_, h := serving(t, server.Options{})
	status, _, data := post(t, h.URL+"/v1/completions", `{"prompt":"Once upon a time","max_tokens":12,`+
		`"seed":3,"steps":4,"logprobs":5,"guided_choice":[" a cat"," a dog"]}`)
	require.Equal(t, 200, status, "%s", data)
	c := readTop(t, data).Choices[0]
	require.Contains(t, []string{" a cat", " a dog"}, strings.TrimRight(c.Text, " \n"))
	require.NotEmpty(t, strings.TrimSpace(strings.Join(c.Logs.Tokens, "")))
	for i, top := range c.Logs.Top {
		if strings.TrimSpace(c.Logs.Tokens[i]) == "" { // after the choice
			break
		}
		require.NotEmpty(t, top)
		sum := 0.0
		for text, logP := range top {
			require.True(t, strings.TrimSpace(text) == "" || // after a choice
				strings.Contains(" a cat", text) || strings.Contains(" a dog", text), text)
			sum += math.Exp(logP)
		}
		require.LessOrEqual(t, sum, 1+1e-6, c.Logs.Tokens[i])
	}
}
