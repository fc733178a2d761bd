package server_test

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/decide"
	"unmask/embed"
	"unmask/server"
)

// deciders returns a server of the demo, of Laya and of a network that embeds texts.
func deciders(t *testing.T, o server.Options) (*server.Server, *httptest.Server, *unmask.Model) {
	s, h := serving(t, o)
	var laya *unmask.Model
	for _, name := range []string{"laya-tiny", "embed-bert-tiny"} {
		m, err := unmask.Load(t.Context(), "../testdata/packs/"+name, unmask.Options{Threads: 1})
		require.NoError(t, err)
		require.NoError(t, s.Add(server.Model{Name: name, Model: m}))
		if laya == nil {
			laya = m
		}
	}
	return s, h, laya
}

const systemOne = `"state":{"mail":"Pay me back."},"questions":{
	"refund":{"type":"noul","instructions":"Does the mail ask for money?"},
	"queue":{"type":"choice","instructions":"Which queue?","criteria":{"billing":"payments","technical":null}},
	"urgency":{"type":"score","instructions":["How urgent?"],"criteria":["low","high",{"x":1}]}}}`

// Both wires have the library's answers, from Laya or a model of text, whatever a client calls it.
func TestSystemOne(t *testing.T) {
	_, h, laya := deciders(t, server.Options{})
	state, err := decide.ReadState(json.RawMessage(`{"mail":"Pay me back."}`))
	require.NoError(t, err)
	list := []decide.Question{
		{Kind: decide.Boolean, Instructions: "Does the mail ask for money?"},
		{Kind: decide.Choice, Instructions: "Which queue?", Options: []decide.Option{
			{Label: "billing", Description: "payments"}, {Label: "technical"}}},
		{Kind: decide.Score, Instructions: `["How urgent?"]`, Options: []decide.Option{{Label: "low"},
			{Label: "high"}, {Label: `{"x": 1}`}}},
	}
	for name, m := range map[string]*unmask.Model{"jev-latest": laya, "laya-tiny": laya,
		"demo": loaded()["demo"]} {
		t.Run(name, func(t *testing.T) {
			want, err := decide.Ask(t.Context(), m, state, list, decide.Options{})
			require.NoError(t, err)
			status, header, data := post(t, h.URL+"/v1/systemone", `{"model":"`+name+`",`+systemOne)
			require.Equal(t, 200, status, "%s", data)
			require.Equal(t, header.Get("X-Request-Id"), header.Get("x-typesafe-request-id"))
			var got struct {
				Model   string
				Answers map[string]struct {
					Type, Choice            string
					Noul, Score, Confidence float64
					Legend                  map[string]string
					Probabilities           map[string]float64
					Unmask                  struct {
						Mass float64
						Act  *float64 `json:"act_probability"`
					}
				}
				Usage struct {
					Input int `json:"input_tokens"`
				}
			}
			require.NoError(t, json.Unmarshal(data, &got))
			require.Equal(t, "noul", got.Answers["refund"].Type)
			require.Equal(t, want[0].P[1], got.Answers["refund"].Noul)
			queue, urgency := got.Answers["queue"], got.Answers["urgency"]
			require.Equal(t, map[string]float64{"billing": want[1].P[0], "technical": want[1].P[1]},
				queue.Probabilities)
			require.Equal(t, list[1].Options[want[1].Best()].Label, queue.Choice)
			require.Equal(t, want[1].Confidence, queue.Confidence)
			require.Equal(t, want[2].Score(), urgency.Score)
			require.Equal(t, map[string]string{"0": "low", "1": "high", "2": `{"x": 1}`}, urgency.Legend)
			require.Equal(t, want[2].P[2], urgency.Probabilities["2"])
			require.Equal(t, want[1].Mass, queue.Unmask.Mass)
			require.Equal(t, m == laya, queue.Unmask.Act != nil)
			require.Equal(t, want[0].Tokens+want[1].Tokens+want[2].Tokens, got.Usage.Input)
		})
	}
	status, _, data := get(t, h.URL+"/v1/models")
	require.Equal(t, 200, status)
	require.Contains(t, string(data), `","name":"demo","release_date":"20`)
}

func TestDecisions(t *testing.T) {
	_, h, laya := deciders(t, server.Options{})
	body := `{"model":"laya-tiny","input":%s,"questions":[
		{"type":"predicate","instructions":"Is it cold?"},
		{"type":"choice","instructions":[{"type":"input_text","text":"Which?"}],"name":"which",
			"choices":[{"value":true,"description":"warm"},{"value":"true"},{"value":false}]},
		{"type":"score","instructions":"How?","levels":[{"label":"low","description":"d"},{"label":"high"}]}]}`
	cold := []decide.Question{{Kind: decide.Boolean, Instructions: "Is it cold?"}}
	for input, state := range map[string]decide.State{
		`"It is."`: {Text: "It is."},
		`[{"role":"user","content":[{"type":"input_text","text":"It"},{"type":"input_json","data":{"a":[1,null]}}]}]`: {Text: "It\n{\"a\": [1, null]}"},
		`[{"role":"system","content":"S"},{"type":"message","role":"user","content":"U"}]`: {List: true,
			Text: `[{"role": "system", "content": "S"}, {"role": "user", "content": "U"}]`},
	} {
		t.Run(input, func(t *testing.T) {
			status, _, data := post(t, h.URL+"/v1/decisions", fmt.Sprintf(body, input))
			require.Equal(t, 200, status, "%s", data)
			var got struct {
				Answers []struct {
					Type          string
					Name          *string
					Probability   float64
					Choice        any
					Score         float64
					Probabilities []struct {
						Value       any
						Label       string
						Probability float64
					}
				}
				Usage struct {
					Total int `json:"total_tokens"`
				}
			}
			require.NoError(t, json.Unmarshal(data, &got))
			want, err := decide.Ask(t.Context(), laya, state, cold, decide.Options{})
			require.NoError(t, err)
			require.Equal(t, want[0].P[1], got.Answers[0].Probability)
			require.Nil(t, got.Answers[0].Name)
			require.Equal(t, "which", *got.Answers[1].Name)
			require.Equal(t, []any{true, "true", false}, []any{got.Answers[1].Probabilities[0].Value,
				got.Answers[1].Probabilities[1].Value, got.Answers[1].Probabilities[2].Value})
			require.Contains(t, []any{true, "true", false}, got.Answers[1].Choice)
			require.Equal(t, "high", got.Answers[2].Probabilities[1].Label)
			require.InDelta(t, got.Answers[2].Score, got.Answers[2].Probabilities[1].Probability, 1e-12)
			require.Greater(t, got.Usage.Total, 0)
		})
	}
}

func TestRefusedDecisions(t *testing.T) {
	_, h, _ := deciders(t, server.Options{})
	noul := `"questions":{"q":{"type":"noul","instructions":"x"}}`
	for name, c := range map[string]refusal{
		"no state": {`{` + noul + `}`,
			422, "missing", "state", "state is missing, want a text, an object or a list"},
		"no questions": {`{"state":"x","questions":{}}`,
			422, "out_of_range", "questions", "questions is 0 of them, want 1 to 400"},
		"a list": {`{"state":"x","questions":[]}`,
			422, "wrong_type", "questions", "questions is a list, want an object of questions"},
		"type": {`{"state":"x","questions":{"q":{"type":"box"}}}`,
			422, "out_of_range", "questions", `question q: type is "box", want boolean, choice or score`},
		"one option": {`{"state":"x","questions":{"q":{"type":"choice","criteria":{"a":null}}}}`,
			422, "out_of_range", "questions", "question q: options is 1, want 2 to 255 of them"},
		"unknown": {`{"state":"x","assets":{},` + noul + `}`,
			422, "unknown_parameter", "assets", "unknown field"},
	} {
		t.Run(name, func(t *testing.T) { c.check(t, h.URL+"/v1/systemone") })
	}
	predicate := `"questions":[{"type":"predicate","instructions":"x"}]`
	for name, c := range map[string]refusal{
		"model": {`{"model":"gpt","input":"x",` + predicate + `}`,
			404, "model_not_found", "model", `model "gpt" is not served for this`},
		"input": {`{` + predicate + `}`,
			400, "missing", "input", "input is missing, want a text or a list of messages"},
		"picture": {`{"input":[{"role":"user","content":[{"type":"input_image"}]}],` + predicate + `}`,
			400, "unsupported_parameter", "input", `a part has the type "input_image"`},
		"levels": {`{"input":"x","questions":[{"type":"predicate","instructions":"x","levels":[]}]}`,
			400, "unsupported_parameter", "questions", "question 0: choices or levels of a predicate"},
		"field": {`{"input":"x","questions":[{"type":"predicate","question":"x"}]}`,
			400, "wrong_type", "questions", `unknown field "question"`},
		"no head": {`{"model":"embed-bert-tiny","input":"x",` + predicate + `}`,
			404, "model_not_found", "model", ""},
	} {
		t.Run(name, func(t *testing.T) { c.check(t, h.URL+"/v1/decisions") })
	}
	for name, c := range map[string]refusal{
		"no input": {`{}`,
			400, "missing", "input", "input is missing, want a text, token ids, or a list of either"},
		"format": {`{"input":"x","encoding_format":"hex"}`,
			400, "out_of_range", "encoding_format", ""},
		"dimensions": {`{"input":"x","dimensions":7}`,
			400, "out_of_range", "dimensions", "dimensions is 7, want 1 to 6"},
		"prompt": {`{"input":"x","prompt_name":"ask"}`,
			400, "out_of_range", "prompt_name", `unknown prompt "ask"`},
		"empty": {`{"model":"demo","input":["a",""]}`,
			400, "missing", "input", "input 1: text is empty"},
		"laya":    {`{"model":"laya-tiny","input":"a"}`, 404, "model_not_found", "model", ""},
		"unknown": {`{"input":"x","truncate":true}`, 400, "unknown_parameter", "truncate", ""},
	} {
		t.Run("embeddings "+name, func(t *testing.T) { c.check(t, h.URL+"/v1/embeddings") })
	}
	// it makes no text
	refusal{`{"model":"laya-tiny","prompt":"x"}`, 404, "model_not_found", "model", ""}.check(t,
		h.URL+"/v1/completions")
}

// Vectors are the library's, as numbers and as the bytes that OpenAI's clients ask for.
func TestEmbeddings(t *testing.T) {
	_, h, _ := deciders(t, server.Options{})
	m, err := unmask.Load(t.Context(), "../testdata/packs/embed-bert-tiny", unmask.Options{Threads: 1})
	require.NoError(t, err)
	e, err := embed.New(m)
	require.NoError(t, err)
	for name, o := range map[string]embed.Options{"": {}, `,"prompt_name":"query"`: {Prompt: "query"},
		`,"dimensions":3`: {Dimensions: 3},
		`,"add_special_tokens":true,"priority":0,"request_id":"a","embed_dtype":"float32"`: {}} {
		var texts []*embed.Text
		for _, text := range []string{"the dog", "a cat sat on the mat"} {
			one, err := e.Tokenize(t.Context(), text, o)
			require.NoError(t, err)
			texts = append(texts, one)
		}
		want, err := e.Embed(t.Context(), texts, o)
		require.NoError(t, err)
		var plain struct {
			Data []struct {
				Index     int
				Embedding []float32
			}
			Usage struct {
				Prompt int `json:"prompt_tokens"`
			}
		}
		body := `{"input":["the dog","a cat sat on the mat"]` + name
		status, _, data := post(t, h.URL+"/v1/embeddings", body+`}`)
		require.Equal(t, 200, status, "%s", data)
		require.NoError(t, json.Unmarshal(data, &plain))
		require.Equal(t, len(texts[0].Tokens)+len(texts[1].Tokens), plain.Usage.Prompt)
		var packed struct{ Data []struct{ Embedding string } }
		_, _, data = post(t, h.URL+"/v1/embeddings", body+`,"encoding_format":"base64"}`)
		require.NoError(t, json.Unmarshal(data, &packed))
		for i := range want {
			require.Equal(t, want[i], plain.Data[i].Embedding)
			raw, err := base64.StdEncoding.DecodeString(packed.Data[i].Embedding)
			require.NoError(t, err)
			for j, x := range want[i] {
				require.Equal(t, x, math.Float32frombits(binary.LittleEndian.Uint32(raw[4*j:])))
			}
		}
	}
	ids := fmt.Sprint(m.Spec().BeforeText[0] + 3)
	status, _, data := post(t, h.URL+"/v1/embeddings", `{"input":[`+ids+`]}`)
	require.Equal(t, 200, status, "%s", data)
	_, _, data = post(t, h.URL+"/v1/embeddings", `{"input":"Lily","model":"demo"}`)
	require.Contains(t, string(data), `"model":"demo"`)
	_, _, data = post(t, h.URL+"/v1/embeddings", `{"input":"a","add_special_tokens":false}`)
	require.Contains(t, string(data), "add_special_tokens is false, want true")
}

// As many texts as OpenAI takes, of ordinary sizes, are more than other bodies may have.
func TestManyEmbeddings(t *testing.T) {
	_, h, _ := deciders(t, server.Options{})
	texts := strings.Repeat(`,"`+strings.Repeat("dog ", 200)+`"`, 2048)[1:]
	require.Greater(t, len(texts), 1<<20)
	body := `{"model":"embed-bert-tiny","input":[` + texts + `]}`
	status, _, data := post(t, h.URL+"/v1/embeddings", body)
	require.Equal(t, 200, status, "%.200s", data)
	require.Equal(t, 2048, strings.Count(string(data), `"embedding":[`))
}

// Ollama's routes have the vectors of /v1/embeddings, of length 1 in the newer one.
func TestOllamaEmbeddings(t *testing.T) {
	_, h, _ := deciders(t, server.Options{})
	vector := func(path, body string) (v []float64, list [][]float64) {
		status, _, data := post(t, h.URL+path, body)
		require.Equal(t, 200, status, "%s", data)
		var got struct {
			Data       []struct{ Embedding []float64 }
			Embedding  []float64
			Embeddings [][]float64
		}
		require.NoError(t, json.Unmarshal(data, &got))
		if got.Data != nil {
			return got.Data[0].Embedding, nil
		}
		return got.Embedding, got.Embeddings
	}
	for _, name := range []string{"embed-bert-tiny", "demo"} {
		t.Run(name, func(t *testing.T) {
			want, _ := vector("/v1/embeddings", `{"model":"`+name+`","input":"the dog"}`)
			older, _ := vector("/api/embeddings", `{"model":"`+name+`","prompt":"the dog"}`)
			require.Equal(t, want, older)
			_, list := vector("/api/embed", `{"model":"`+name+`:latest","input":["a cat","the dog"],
				"options":{"num_ctx":4096,"temperature":1},"keep_alive":"5m","truncate":true}`)
			length := 0.0
			for _, x := range want {
				length += x * x
			}
			require.Len(t, list, 2)
			for i, x := range want {
				require.InDelta(t, x/math.Sqrt(length), list[1][i], 1e-6)
			}
			_, list = vector("/api/embed", `{"model":"`+name+`","input":"the dog","dimensions":2}`)
			require.InDelta(t, 1, math.Hypot(list[0][0], list[0][1]), 1e-6)
		})
	}
	long := strings.Repeat("the dog ", 600)
	for body, want := range map[string]string{
		`{"model":"none","input":"a"}`: "want demo or embed-bert-tiny",
		`{}`:                           "input is missing",
		`{"input":"` + long + `","model":"embed-bert-tiny","truncate":false}`: "tokens too long, want it " +
			"shorter, or truncate true",
		`{"input":"a","dimensions":99}`: "dimensions is 99, want 1 to",
		`{"input":"a","prompt":"b"}`:    "unknown field",
	} {
		status, _, data := post(t, h.URL+"/api/embed", body)
		require.GreaterOrEqual(t, status, 400)
		require.Contains(t, string(data), `{"error":"`)
		require.Contains(t, string(data), want)
	}
	status, _, data := post(t, h.URL+"/api/embeddings", `{}`)
	require.Equal(t, 400, status)
	require.Contains(t, string(data), "prompt is missing")
	_, _, data = get(t, h.URL+"/api/tags")
	require.Contains(t, string(data), `"name":"embed-bert-tiny"`)
	require.Contains(t, string(data), `"name":"laya-tiny"`)
	_, _, data = post(t, h.URL+"/api/show", `{"model":"embed-bert-tiny"}`)
	require.Contains(t, string(data), `"capabilities":["embedding"]`)
	_, _, data = post(t, h.URL+"/api/show", `{"model":"laya-tiny"}`)
	require.Contains(t, string(data), `"capabilities":["decision"]`)
}

// A calibration's temperature is used and said, and the list of models has how good it was.
func TestCalibratedDecisions(t *testing.T) {
	fits := decide.Calibration{decide.Choice: {Temperature: 3, Questions: 8,
		After: decide.Quality{Brier: 0.5, ECE: 0.25}}}
	s, h := serving(t, server.Options{})
	m, err := unmask.Load(t.Context(), "../testdata/packs/laya-tiny", unmask.Options{Threads: 1})
	require.NoError(t, err)
	require.NoError(t, s.Add(server.Model{Name: "laya", Model: m, Calibration: fits}))
	q := []decide.Question{{Kind: decide.Choice, Options: []decide.Option{{Label: "a"}, {Label: "b"}}}}
	want, err := decide.Ask(t.Context(), m, decide.State{Text: "x"}, q,
		decide.Options{Calibration: fits})
	require.NoError(t, err)
	_, _, data := post(t, h.URL+"/v1/systemone", `{"state":"x","questions":{
		"n":{"type":"noul","instructions":"y"},"q":{"type":"choice","criteria":{"a":null,"b":null}}}}`)
	var got struct {
		Answers map[string]struct {
			Probabilities map[string]float64
			Unmask        struct{ Temperature float64 }
		}
	}
	require.NoError(t, json.Unmarshal(data, &got), "%s", data)
	require.Equal(t, want[0].P[0], got.Answers["q"].Probabilities["a"])
	require.Equal(t, 3.0, got.Answers["q"].Unmask.Temperature)
	require.Zero(t, got.Answers["n"].Unmask.Temperature)
	_, _, data = post(t, h.URL+"/v1/decisions", `{"input":"x","questions":[{"type":"choice",
		"instructions":"y","choices":[{"value":"a"},{"value":"b"}]}]}`)
	require.Contains(t, string(data), `"temperature":3`)
	_, _, data = get(t, h.URL+"/v1/models/laya")
	require.Contains(t, string(data), `"calibration":{"choice":{"temperature":3,"questions":8,`)
	require.Contains(t, string(data), `"brier":0.5,"ece":0.25`)
	require.ErrorContains(t, s.Add(server.Model{Name: "picture", Model: loaded()["demo-image"],
		Calibration: fits}), "model picture answers no typed questions, want it without a calibration")
	require.EqualError(t, s.Add(server.Model{Name: "laya", Model: m, Calibration: decide.Calibration{
		decide.Boolean: {Temperature: -1}}}), "temperature of boolean is -1, want 0.05 to 20")
}
