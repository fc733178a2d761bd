package server_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"unmask/internal/wording"
	"unmask/server"
)

// refusal is a request that is answered with an error.
type refusal struct {
	body    string
	status  int
	code    string
	param   string
	message string // a part of it
}

// check posts a body to a route and compares the error. Its code and its field stay the same when
// the library refuses values in other words.
func (c refusal) check(t *testing.T, url string) {
	status, header, data := post(t, url, c.body)
	c.compare(t, status, header, data)
	defer wording.Replace("other words")()
	c.message = ""
	status, header, data = post(t, url, c.body)
	c.compare(t, status, header, data)
}

func (c refusal) compare(t *testing.T, status int, header http.Header, data []byte) {
	name := c.body[:min(len(c.body), 80)]
	require.Equal(t, c.status, status, "%s: %s", name, data)
	require.Equal(t, "application/json", header.Get("Content-Type"), name)
	require.NotEmpty(t, header.Get("X-Request-Id"))
	a := read(t, data)
	require.NotNil(t, a.Error, name)
	require.Equal(t, c.code, a.Error.Code, "%s: %s", name, data)
	require.Contains(t, a.Error.Message, c.message, name)
	require.Less(t, len(a.Error.Message), 700, name)
	require.NotContains(t, a.Error.Message, "\n")
	require.NotContains(t, a.Error.Message, "/root/")
	if c.param != "" {
		require.Equal(t, c.param, a.Error.Param, name)
	}
	want := "invalid_request_error"
	switch {
	case status == 401:
		want = "authentication_error"
	case status == 403:
		want = "permission_error"
	case status == 429:
		want = "rate_limit_error"
		require.NotEmpty(t, header.Get("Retry-After"))
	case status >= 500:
		want = "server_error"
	}
	require.Equal(t, want, a.Error.Type)
}

// with returns a request with more fields than a prompt.
func with(fields string) string { return `{"prompt":"A","max_tokens":4,` + fields + `}` }

func TestBadJSON(t *testing.T) {
	_, h := serving(t, server.Options{})
	deep := strings.Repeat("[", 64)
	for _, c := range []refusal{
		{"", 400, "invalid_json", "", "body is empty, want one JSON object"},
		{"  \n", 400, "invalid_json", "", "body is empty"},
		{"{", 400, "invalid_json", "", "byte 1: unexpected end, want one JSON object"},
		{`{"prompt": x}`, 400, "invalid_json", "", "byte 11: invalid character 'x'"},
		{`{"temperature": NaN}`, 400, "invalid_json", "", "byte 16: invalid character 'N'"},
		{`{"prompt":"A",}`, 400, "invalid_json", "", "byte 14"},
		{`{"prompt":"A"} {}`, 400, "invalid_json", "", `byte 15: found "{" after the end`},
		{`{"prompt":"A"}x`, 400, "invalid_json", "", `byte 14: found "x" after the end`},
		{`["A"]`, 400, "invalid_json", "", "body is a list, want one JSON object"},
		{`null`, 400, "invalid_json", "", "body is null"},
		{`"A"`, 400, "invalid_json", "", "body is a text"},
		{`{"metadata":` + deep + strings.Repeat("]", 64) + `}`, 400, "too_deep", "",
			"byte 75: JSON is 65 deep, want at most 64"},
		{`{"prompt":"A","seed":1,"seed":2}`, 400, "duplicate_key", "seed", `"seed" is there twice`},
		{`{"prompt":"A","metadata":{"a":{"b":1,"b":1}}}`, 400, "duplicate_key", "b", "twice"},
		{with(`"temprature":1`), 400, "unknown_parameter", "temprature",
			`unknown field "temprature", did you mean temperature?`},
		{with(`"stepz":1`), 400, "unknown_parameter", "stepz", "did you mean steps?"},
		{with(`"Seed":1`), 400, "unknown_parameter", "Seed", "did you mean seed?"},
		{with(`"SAMPLER":"moment"`), 400, "unknown_parameter", "SAMPLER", "did you mean sampler?"},
		{with(`"zzzzzz":1`), 400, "unknown_parameter", "zzzzzz", `unknown field "zzzzzz"`},
		{"{\"prompt\":\"\xff\"}", 400, "invalid_utf8", "prompt", "prompt: byte 11 is 0xff, want UTF-8"},
		{"{\"prompt\":[\"a\",\"b\xff\"]}", 400, "invalid_utf8", "prompt[1]",
			"prompt[1]: byte 17 is 0xff"},
		{"{\"\xff\":1}", 400, "invalid_utf8", "", "byte 2 is 0xff, want UTF-8"},
		{`{"prompt":"\ud800"}`, 400, "invalid_utf8", "prompt", "byte 11 is half of a surrogate pair"},
		{`{"prompt":"\udc00\ud800"}`, 400, "invalid_utf8", "prompt", "byte 11"},
	} {
		c.check(t, h.URL+"/v1/completions")
	}
	// What is just allowed.
	ask(t, h.URL+"/v1/completions", with(`"metadata":`+deep[1:]+strings.Repeat("]", 63)))
	ask(t, h.URL+"/v1/completions", with(`"user":"\ud83d\ude00 \\ud800"`)+" \n")
	ask(t, h.URL+"/v1/completions",
		with(`"user":"u","safety_identifier":"s","metadata":{},"store":true,
		"service_tier":"auto","best_of":1,"presence_penalty":0,"frequency_penalty":0.0,"stop":null,
		"logit_bias":null,"stream":false,"suffix":null,"logprobs":null`))
}

func TestBadBodies(t *testing.T) {
	_, h := serving(t, server.Options{})
	url := h.URL + "/v1/completions"
	send := func(body []byte, chunked bool, header ...string) (int, http.Header, []byte) {
		var from = bytes.NewReader(body)
		r, err := http.NewRequest("POST", url, from)
		require.NoError(t, err)
		if chunked {
			r.ContentLength = -1
		}
		r.Header.Set("Content-Type", "application/json")
		return do(t, r, header...)
	}
	padded := func(n int) []byte {
		body := with(`"steps":2`)
		return []byte(body + strings.Repeat(" ", n-len(body)))
	}
	for _, chunked := range []bool{false, true} {
		status, header, data := send(padded(1<<20+1), chunked)
		refusal{"too large", 413, "body_too_large", "", "more than 1048576 bytes"}.compare(t, status,
			header, data)
		status, _, data = send(padded(1<<20), chunked)
		require.Equal(t, 200, status, "%s", data)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err := z.Write(padded(1000))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	status, header, data := send(packed.Bytes(), false, "Content-Encoding", "gzip")
	refusal{"gzip", 415, "unsupported_encoding", "",
		`content encoding is "gzip", want none`}.compare(t,
		status, header, data)
	for _, kind := range []string{"text/plain", "", "application/x-www-form-urlencoded"} {
		status, header, data = send(padded(1000), false, "Content-Type", kind)
		refusal{kind, 415, "content_type", "", "want application/json"}.compare(t, status, header, data)
	}
	status, _, _ = send(padded(1000), false, "Content-Type", "application/json; charset=utf-8")
	require.Equal(t, 200, status)
	// Ollama's own examples are of curl -d, whose type is of a form; other clients send none.
	url = h.URL + "/api/generate"
	for _, kind := range []string{"", "application/x-www-form-urlencoded"} {
		status, _, data = send([]byte(`{"model":"demo","prompt":"A","stream":false}`), false,
			"Content-Type", kind)
		require.Equal(t, 200, status, "%s", data)
	}
}

// A client that writes all of a large body before it reads gets the answer, not a reset connection.
func TestBodyThatIsTooLargeIsRead(t *testing.T) {
	_, h := serving(t, server.Options{})
	host := strings.TrimPrefix(h.URL, "http://")
	c, err := net.Dial("tcp", host)
	require.NoError(t, err)
	defer c.Close()
	_, err = fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n", host, 20<<20)
	require.NoError(t, err)
	_, err = c.Write(bytes.Repeat([]byte(" "), 20<<20))
	require.NoError(t, err)
	r, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	defer r.Body.Close()
	require.Equal(t, http.StatusRequestEntityTooLarge, r.StatusCode)
}

func TestUnknownRoutes(t *testing.T) {
	_, h := serving(t, server.Options{})
	for _, path := range []string{"/v1/foo", "/v1/../metrics", "//", "//v1/models", "/v1//models",
		"/%2e/v1/models", "/v1/%6dodels", "/metrics", "/debug/pprof/", "/", "/v1", "/v1/completions/",
		"/v1/models/a/b", "/.env"} {
		r, err := http.NewRequest("GET", h.URL+path, nil) // sent as it is
		require.NoError(t, err)
		status, header, data := do(t, r)
		refusal{path, 404, "unknown_route", "", "there is no route \"/"}.compare(t, status, header, data)
	}
	for path, allow := range map[string]string{"/v1/completions": "POST", "/v1/models": "GET, HEAD"} {
		r, err := http.NewRequest("PUT", h.URL+path, nil)
		require.NoError(t, err)
		status, header, data := do(t, r)
		refusal{path, 405, "method_not_allowed", "", "the method is PUT, want"}.compare(t, status, header,
			data)
		require.Equal(t, allow, header.Get("Allow"))
	}
}

// A path that is a route's but for /v1 or slashes is answered with that route.
func TestNearRoutes(t *testing.T) {
	_, h := serving(t, server.Options{})
	for path, want := range map[string]string{"/chat/completions": "/v1/chat/completions",
		"/v1//models": "/v1/models", "/v1/v1/completions": "/v1/completions",
		"/v1/completions/": "/v1/completions", "//v1/models": "/v1/models"} {
		status, header, data := get(t, h.URL+path)
		refusal{path, 404, "unknown_route", "", fmt.Sprintf("there is no route %q, want %s",
			path, want)}.compare(t, status, header, data)
	}
}

func TestBadModels(t *testing.T) {
	_, h := serving(t, server.Options{})
	for _, name := range []string{"../../etc/passwd", strings.Repeat("x", 10_000), "demo-image",
		"gpt-4"} {
		refusal{fmt.Sprintf(`{"prompt":"A","model":%q}`, name), 404, "model_not_found", "model",
			"want demo"}.check(t, h.URL+"/v1/completions")
		_, _, data := post(t, h.URL+"/v1/completions", fmt.Sprintf(`{"prompt":"A","model":%q}`, name))
		require.Contains(t, string(data), name[:5], "the error names the model")
		require.Less(t, len(data), 500, "all of a long name")
	}
	refusal{`{"prompt":"","model":"demo"}`, 404, "model_not_found", "model",
		"want demo-image"}.check(t,
		h.URL+"/v1/images/generations")
	status, header, data := get(t, h.URL+"/v1/models/nothing")
	refusal{"", 404, "model_not_found", "model", `model "nothing" is not served, want demo or demo-image`}.compare(t, status, header,
		data)
}

func TestBadFields(t *testing.T) {
	_, h := serving(t, server.Options{})
	ids := "[" + strings.Repeat("1,", 299) + "1]"
	biases := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%d":1,`, i)
		}
		return "{" + strings.TrimSuffix(b.String(), ",") + "}"
	}
	for _, c := range []refusal{
		{with(`"n":0`), 400, "out_of_range", "n", "n is 0, want 1 to 64"},
		{with(`"n":-1`), 400, "out_of_range", "n", "n is -1, want 1 to 64"},
		{with(`"n":65`), 400, "out_of_range", "n", "n is 65, want 1 to 64"},
		{with(`"n":1000000000`), 400, "out_of_range", "n", "want 1 to 64"},
		{with(`"n":99999999999999999999999`), 400, "out_of_range", "n", "want 1 to 64"},
		{with(`"n":1.5`), 400, "wrong_type", "n", "n is 1.5, want a whole number, 1 to 64"},
		{with(`"n":"4"`), 400, "wrong_type", "n", "n is a text, want a whole number, 1 to 64"},
		{with(`"steps":0`), 400, "out_of_range", "steps", "steps is 0, want 1 to 4096"},
		{with(`"steps":4097`), 400, "out_of_range", "steps", "steps is 4097, want 1 to 4096"},
		{with(`"steps":"5"`), 400, "wrong_type", "steps", "steps is a text"},
		{with(`"seed":-1`), 400, "out_of_range", "seed", "seed is -1, want a whole number, 0 to"},
		{with(`"seed":1.5`), 400, "out_of_range", "seed", "seed is 1.5"},
		{with(`"seed":1e3`), 400, "out_of_range", "seed", "seed is 1e3"},
		{with(`"seed":18446744073709551616`), 400, "out_of_range", "seed",
			"seed is 18446744073709551616"},
		{with(`"seed":"x"`), 400, "out_of_range", "seed", "seed is x"},
		{with(`"seed":"+1"`), 400, "out_of_range", "seed", "seed is +1"},
		{with(`"seed":true`), 400, "wrong_type", "seed", "seed is true"},
		{with(`"first":-1`), 400, "out_of_range", "first", "first is -1, want 0 to"},
		{with(`"temperature":-1`), 400, "out_of_range", "temperature",
			"temperature is -1, want 0.001 to"},
		{with(`"temperature":1e999`), 400, "out_of_range", "temperature", "temperature is +Inf"},
		{with(`"temperature":"hot"`), 400, "wrong_type", "temperature",
			`temperature is "hot", want a number`},
		{with(`"temperature":0,"sampler":"theta-trapezoidal"`), 400, "out_of_range", "temperature",
			"temperature is 0, want more than 0: sampler theta-trapezoidal draws tokens itself"},
		{with(`"top_p":0`), 400, "out_of_range", "top_p", "top_p is 0, want 1e-09 to 1"},
		{with(`"top_p":1.01`), 400, "out_of_range", "top_p", "top_p is 1.01, want"},
		{with(`"sampler":"moment","alpha":0`), 400, "out_of_range", "alpha", "alpha is 0, want 0.001 to"},
		{with(`"sampler":"halton","alpha":2`), 400, "out_of_range", "alpha",
			"alpha is 2, want none: sampler halton takes no alpha"},
		{with(`"top_k":-2`), 400, "out_of_range", "top_k", "top_k is -2, want 1 to"},
		{with(`"top_k":1.5`), 400, "wrong_type", "top_k", "top_k is 1.5, want a whole number"},
		{with(`"sampler":"momnet"`), 400, "unknown_sampler", "sampler", "did you mean moment?"},
		{with(`"sampler":"` + strings.Repeat("semi-ar(", 10_000) + `"`), 400, "unknown_sampler",
			"sampler",
			"sampler:"},
		{with(`"sampler":"../../etc/passwd"`), 400, "unknown_sampler", "sampler", "sampler:"},
		{with(`"sampler":7`), 400, "wrong_type", "sampler", "sampler is 7, want a text"},
		{with(`"schedule":"/etc/passwd"`), 400, "unknown_schedule", "schedule", "unknown schedule"},
		{with(`"sampler":"maskgit","cache":1`), 400, "out_of_range", "cache",
			"cache is 1, want 0 with sampler maskgit"},
		{with(`"sampler":"hybrid+cache","cache":0`), 400, "out_of_range", "cache", "cache is 0, want 1"},
		{with(`"cache":65`), 400, "out_of_range", "cache", "cache is 65, want 0 to 64"},
		{with(`"reuse":"some"`), 400, "out_of_range", "reuse", "unknown reuse"},
		{with(`"refresh":4`), 400, "out_of_range", "refresh", "refresh is 4, want 0 without reuse dkv"},
		{with(`"guidance":-2`), 400, "out_of_range", "guidance", "guidance is -2"},
		{with(`"priority":"urgent"`), 400, "out_of_range", "priority", "want interactive or batch"},
		{`{"prompt":"A","max_tokens":0}`, 400, "out_of_range", "max_tokens",
			"max_tokens is 0, want 1 to"},
		{`{"prompt":` + ids + `}`, 400, "context_length_exceeded", "prompt",
			"is 300 tokens, want at most 256: the prompt is too long"},
		{`{"prompt":"` + strings.Repeat("word ", 1000) + `"}`, 400, "context_length_exceeded", "prompt",
			"want at most 256"},
		{`{}`, 400, "missing", "prompt", "prompt is missing"},
		{`{"prompt":null}`, 400, "missing", "prompt", "prompt is missing"},
		{`{"prompt":[]}`, 400, "missing", "prompt", "empty list"},
		{`{"prompt":[` + strings.Repeat(`"a",`, 64) + `"a"]}`, 400, "out_of_range", "prompt",
			"prompt has 65 texts, want 1 to 64"},
		{`{"prompt":["a",[1]]}`, 400, "wrong_type", "prompt", "prompt 1 is a list"},
		{`{"prompt":["a",1]}`, 400, "wrong_type", "prompt", "prompt 1 is a number"},
		{`{"prompt":[1,"a"]}`, 400, "wrong_type", "prompt", `prompt has "a" at index 1, want token ids`},
		{`{"prompt":7}`, 400, "wrong_type", "prompt", "prompt is 7"},
		{`{"prompt":[5,-1]}`, 400, "unknown_token", "prompt", "token -1 at index 1, want 0 to 1023"},
		{`{"prompt":[1023,1024]}`, 400, "unknown_token", "prompt", "token 1024 at index 1"},
		{`{"prompt":[99999999999999]}`, 400, "unknown_token", "prompt", "at index 0"},
		{`{"prompt":["a","b"],"n":33}`, 400, "out_of_range", "n", "n is 33, want 1 to 32 with 2 prompts"},
		{with(`"stop":["a","b","c","d","e"]`), 400, "out_of_range", "stop",
			"stop has 5 texts, want at most 4"},
		{with(`"stop":[""]`), 400, "out_of_range", "stop", "stop 0 is 0 bytes, want 1 to 64"},
		{with(`"stop":["` + strings.Repeat("x", 65) + `"]`), 400, "out_of_range", "stop",
			"stop 0 is 65 bytes"},
		{with(`"logit_bias":{"x":1}`), 400, "unknown_token", "logit_bias", `token "x", want 0 to 1023`},
		{with(`"logit_bias":{"5":101}`), 400, "out_of_range", "logit_bias",
			"token 5 is 101, want -100 to 100"},
		{with(`"logit_bias":` + biases(1025)), 400, "out_of_range", "logit_bias",
			"has 1025 tokens, want at most 1024"},
		{with(`"logprobs":21`), 400, "out_of_range", "logprobs", "logprobs is 21, want 0 to 20"},
		{`{"prompt":"A","n":64,"max_tokens":255,"logprobs":20}`, 400, "out_of_range", "logprobs",
			"logprobs is 20, want 0 to 16 with"},
		{with(`"best_of":2`), 400, "unsupported_parameter", "best_of", "best_of is 2, want 1"},
		{with(`"presence_penalty":0.5`), 400, "unsupported_parameter", "presence_penalty", "want 0"},
		{with(`"tools":[{"type":"function"}]`), 400, "unsupported_parameter", "tools", "tools is a list"},
		{with(`"response_format":{"type":"xml"}`), 400, "unsupported_parameter", "response_format",
			"response_format has type \"xml\", want text, json_object or json_schema"},
		{with(`"response_format":{"type":"json_schema"}`), 400, "missing_parameter",
			"response_format", "has no json_schema.schema"},
		{with(`"response_format":{"type":"text","schema":{}}`), 400, "unsupported_parameter",
			"response_format", "schema with type text, want type json_schema"},
		{with(`"response_format":{"type":"json_object","shema":{}}`), 400, "unknown_parameter",
			"response_format", "shema"},
		{with(`"guided_regex":"a","guided_json":{}`), 400, "unsupported_parameter", "guided_regex",
			"guided_json and guided_regex together"},
		{with(`"structured_outputs":{"grammar":"x"}`), 400, "unsupported_parameter",
			"structured_outputs", "want json, regex, choice or json_object"},
		{with(`"stream":"yes"`), 400, "out_of_range", "stream", `want true, false or "events"`},
		{with(`"stream":1`), 400, "wrong_type", "stream", "stream is 1"},
		{with(`"stream_options":{"include_all":true}`), 400, "unknown_parameter",
			"stream_options.include_all",
			"unknown field"},
		{with(`"ban":[""],"bias":["7"]`), 400, "out_of_range", "ban", "ban:"},
		{with(`"bias":["7"]`), 400, "out_of_range", "bias", `"7" has no value, want TOKENS=VALUE`},
		{with(`"min_length":257`), 400, "out_of_range", "min_length", "min_length is 257, want 0 to 5, the length"},
		{with(`"min_length":3`), 400, "out_of_range", "end",
			"the model's files name no token that ends a text, want one"},
		{with(`"end":"x"`), 400, "out_of_range", "end", "want it with min-length or cut"},
		{`{"prompt":["a","b"],"stream":"events"}`, 400, "unsupported_parameter", "stream",
			"want one prompt"},
	} {
		c.check(t, h.URL+"/v1/completions")
	}
	// What is just allowed.
	for _, fields := range []string{`"n":64,"steps":1`, `"seed":18446744073709551615,"steps":2`,
		`"temperature":0`, `"top_p":1`, `"top_k":0`, `"logprobs":20`,
		`"stop":["a","b","c","` + strings.Repeat("x", 64) + `"]`, `"logit_bias":` + biases(1024),
		`"logit_bias":{"1023":-100,"0":100}`, `"sampler":"hybrid","reuse":"dkv","refresh":2`,
		`"sampler":"remdm","steps":300`,
	} {
		ask(t, h.URL+"/v1/completions", with(fields))
	}
	a := ask(t, h.URL+"/v1/completions", with(`"seed":"18446744073709551615"`))
	require.Equal(t, uint64(1<<64-1), a.Unmask.Seed)
	ask(t, h.URL+"/v1/completions", `{"prompt":[`+strings.Repeat(`"a",`, 63)+`"a"],"max_tokens":1}`)
	ask(t, h.URL+"/v1/completions", `{"prompt":[1023],"max_tokens":255,"steps":2}`)
}

func TestBadInfills(t *testing.T) {
	_, h := serving(t, server.Options{})
	for _, c := range []refusal{
		{`{}`, 400, "missing", "parts", "0 of them are given, want one"},
		{`{"parts":["a",1],"text":"a[1]"}`, 400, "missing", "parts", "2 of them are given"},
		{`{"parts":["a"]}`, 400, "no_hole", "parts", "no hole"},
		{`{"text":"a"}`, 400, "no_hole", "text", "no hole"},
		{`{"tokens":[1,2]}`, 400, "no_hole", "", "no hole"},
		{`{"parts":["a",0]}`, 400, "out_of_range", "parts",
			"parts is 0, want holes of 1 to 256 tokens, at index 1"},
		{`{"parts":["a",1000000000]}`, 400, "out_of_range", "parts", "want holes of 1 to 256"},
		{`{"parts":["a",-5]}`, 400, "out_of_range", "parts", "parts is -5"},
		{`{"parts":["a",1.5]}`, 400, "wrong_type", "parts", "part 1 is a number, want"},
		{`{"text":"a[0]"}`, 400, "out_of_range", "text", "hole is [0]"},
		{`{"parts":[` + strings.Repeat("null,", 12_000) + `null]}`, 400, "wrong_type", "parts",
			"part 0 is null"},
		{`{"parts":["a",200,100]}`, 400, "context_length_exceeded", "parts", "want at most 256"},
		{`{"tokens":[1,null,5000]}`, 400, "unknown_token", "tokens", "token 5000 at index 2"},
		{`{"parts":["a",4],"stream":true}`, 400, "unsupported_parameter", "stream", `want "events"`},
	} {
		c.check(t, h.URL+"/v1/infill")
	}
}

func TestBadPictures(t *testing.T) {
	_, h := serving(t, server.Options{})
	for _, c := range []refusal{
		{`{"prompt":"a house"}`, 400, "prompt_unsupported", "prompt", "the model reads no prompts but has a class, or ignore_prompt true"},
		{`{"prompt":"","size":"1024x1024"}`, 400, "out_of_range", "size",
			`size is "1024x1024", want auto or 64x64`},
		{`{"prompt":"","class":"noon"}`, 400, "out_of_range", "class", "class is"},
		{`{"prompt":"","class":9}`, 400, "out_of_range", "class", "class is"},
		{`{"prompt":"","partial_images":4}`, 400, "out_of_range", "partial_images", "want 0 to 3"},
		{`{"prompt":"","output_format":"webp"}`, 400, "out_of_range", "output_format", "want png"},
		{`{"prompt":"","response_format":"file"}`, 400, "out_of_range", "response_format",
			"want b64_json or url"},
		{`{"prompt":"","negative":"x"}`, 400, "out_of_range", "negative", "negative is"},
		{`{"prompt":"","quality":"hd"}`, 400, "unsupported_parameter", "quality", "quality is"},
	} {
		c.check(t, h.URL+"/v1/images/generations")
	}
	picture := pngOf(t, landscape(t))
	sized := func(side uint32) []byte { // the picture with another size in its header
		out := slices.Clone(picture)
		binary.BigEndian.PutUint32(out[16:], side)
		binary.BigEndian.PutUint32(out[20:], side)
		binary.BigEndian.PutUint32(out[29:], crc32.ChecksumIEEE(out[12:29]))
		return out
	}
	small := pngOf(t, image.NewNRGBA(image.Rect(0, 0, 32, 64)))
	black := pngOf(t, image.NewGray(image.Rect(0, 0, 64, 64)))
	for _, c := range []struct {
		refusal
		parts []any
	}{
		{refusal{"truncated", 400, "invalid_image", "image", "damaged PNG"},
			[]any{"image", picture[:len(picture)/2], "mask", picture}},
		{refusal{"cut in its magic", 400, "invalid_image", "image", "ends early"},
			[]any{"image", picture[:4]}},
		{refusal{"huge", 413, "image_too_large", "image", "60000 x 60000 pixels, want 33554432"},
			[]any{"image", sized(60000)}},
		{refusal{"large together", 413, "image_too_large", "", "the pictures have 50000000 pixels"},
			[]any{"image", sized(5000), "mask", sized(5000)}},
		{refusal{"jpeg", 415, "unsupported_image", "image", "want PNG"},
			[]any{"image", []byte("\xff\xd8\xff\xe0 jpeg")}},
		{refusal{"gif", 415, "unsupported_image", "image", "want PNG"}, []any{"image", []byte("GIF89a")}},
		{refusal{"svg", 415, "unsupported_image", "image", "want PNG"},
			[]any{"image", []byte("<svg xmlns='http://www.w3.org/2000/svg'/>")}},
		{refusal{"mask size", 400, "mask_size", "mask", "mask is 32 x 64 pixels, want 64 x 64"},
			[]any{"image", picture, "mask", small}},
		{refusal{"image size", 400, "out_of_range", "image", "fit cover or contain"},
			[]any{"image", small, "mask", small}},
		{refusal{"nothing new", 400, "mask_empty", "mask", "transparent"},
			[]any{"image", picture, "mask", black}},
		{refusal{"no mask", 400, "mask_empty", "mask", "transparent"}, []any{"image", picture}},
		{refusal{"two images", 400, "out_of_range", "image", "image is 2 files, want one"},
			[]any{"image[]", picture, "image[]", picture}},
		{refusal{"no image", 400, "missing", "image", "image is missing"}, []any{"mask", picture}},
		{refusal{"65 parts", 413, "too_many_parts", "", "more than 64 parts"},
			slices.Repeat([]any{"user", "x"}, 65)},
		{refusal{"25 MiB", 413, "body_too_large", "", "more than 25165824 bytes"},
			[]any{"image", make([]byte, 25<<20)}},
		{refusal{"twice", 400, "duplicate_key", "seed", "twice"},
			[]any{"image", picture, "seed", 1, "seed", 2}},
		{refusal{"unknown", 400, "unknown_parameter", "imge", "did you mean"},
			[]any{"image", black, "mask", pngOf(t, image.NewNRGBA(image.Rect(0, 0, 64, 64))), "imge", 1}},
	} {
		kind, body := form(t, c.parts...)
		r, err := http.NewRequest("POST", h.URL+"/v1/images/edits", body)
		require.NoError(t, err)
		status, header, data := do(t, r, "Content-Type", kind)
		c.compare(t, status, header, data)
	}
	for _, kind := range []string{"multipart/form-data", "multipart/form-data; boundary="} {
		r, err := http.NewRequest("POST", h.URL+"/v1/images/edits", strings.NewReader("x"))
		require.NoError(t, err)
		status, header, data := do(t, r, "Content-Type", kind)
		refusal{kind, 400, "invalid_multipart", "", "boundary"}.compare(t, status, header, data)
	}
	r, err := http.NewRequest("POST", h.URL+"/v1/images/edits", strings.NewReader("x"))
	require.NoError(t, err)
	status, header, data := do(t, r, "Content-Type", "multipart/form-data; boundary=b")
	refusal{"", 400, "invalid_multipart", "", "end early"}.compare(t, status, header, data)
	for body, code := range map[string]string{`{}`: "missing", `{"codes":[1]}`: "out_of_range",
		`{"codes":[-1]}`: "unknown_token", `{"codes":"x"}`: "wrong_type"} {
		refusal{body, 400, code, "codes", "codes"}.check(t, h.URL+"/v1/images/decode")
	}
}

func TestBadResults(t *testing.T) {
	_, h := serving(t, server.Options{})
	for _, path := range []string{"/v1/results/x", "/v1/results/" + strings.Repeat("0", 64)} {
		status, header, data := get(t, h.URL+path)
		refusal{path, 404, "result_not_found", "", "no such result"}.compare(t, status, header, data)
	}
}
