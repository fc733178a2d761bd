package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/server"
	"unmask/server/page"
)

// oddValues are values of JSON that no field wants, of 64 kB each, and a few short ones.
var oddValues = func() []json.RawMessage {
	const size = 64 << 10
	text := func(unit string) json.RawMessage {
		return json.RawMessage(`"` + strings.Repeat(unit, size/len(unit)) + `"`)
	}
	digits := strings.Repeat("9", size)
	return []json.RawMessage{
		text("x"),
		text(`\u0007\u001b[31m\u202e\n`),
		text(`\u2028\u0085\t\r\u0000`),
		text("語\\\\\\\""),
		json.RawMessage(digits),
		json.RawMessage("-0." + digits),
		json.RawMessage("1e" + digits),
		json.RawMessage(`{` + string(text(`k\n`)) + `:1}`),
		json.RawMessage(`[` + string(text("e")) + `]`),
		json.RawMessage(`[` + strings.Repeat("0,", size/2) + `0]`),
		json.RawMessage(`"` + "\xff\xfe" + `"`),
		json.RawMessage(`"\ud800\n"`),
		json.RawMessage(`"\u001b[2J\r\n"`),
	}
}()

// withOdd calls visit with bodies of a schema, in each of which one value, at any depth, is not
// what the schema wants. All other fields that a schema requires have a plain value.
func withOdd(schema *openapi3.Schema, depth int, visit func(body func(odd string) string)) {
	visit(func(odd string) string { return odd })
	if depth == 0 {
		return
	}
	if schema.Items != nil {
		withOdd(schema.Items.Value, depth-1, func(item func(string) string) {
			visit(func(odd string) string { return "[" + item(odd) + "]" })
		})
	}
	fields := propertiesOf(schema)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		withOdd(fields[name], depth-1, func(value func(string) string) {
			visit(func(odd string) string {
				object := plainFields(schema)
				object[name] = json.RawMessage(value(odd))
				return marshalRaw(object)
			})
		})
	}
}

// marshalRaw writes an object whose values may be no JSON.
func marshalRaw(object map[string]json.RawMessage) string {
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		fields = append(fields, fmt.Sprintf("%q:%s", name, object[name]))
	}
	return "{" + strings.Join(fields, ",") + "}"
}

// propertiesOf returns those of a schema and of what it is composed of.
func propertiesOf(schema *openapi3.Schema) map[string]*openapi3.Schema {
	all := map[string]*openapi3.Schema{}
	for name, property := range schema.Properties {
		all[name] = property.Value
	}
	for _, parts := range []openapi3.SchemaRefs{schema.AllOf, schema.AnyOf, schema.OneOf} {
		for _, part := range parts {
			maps.Copy(all, propertiesOf(part.Value))
		}
	}
	return all
}

// shortRun are fields that make an answer short.
var shortRun = map[string]json.RawMessage{
	"steps":             json.RawMessage(`1`),
	"max_tokens":        json.RawMessage(`1`),
	"max_output_tokens": json.RawMessage(`1`),
	"n_predict":         json.RawMessage(`1`),
	"seconds":           json.RawMessage(`0.1`),
}

// plainFields returns a plain value of each field that a schema requires, and of those that make an
// answer short.
func plainFields(schema *openapi3.Schema) map[string]json.RawMessage {
	plain := map[string]json.RawMessage{}
	required := slices.Clone(schema.Required)
	for _, part := range schema.AllOf {
		required = append(required, part.Value.Required...)
	}
	for name, property := range propertiesOf(schema) {
		if short, ok := shortRun[name]; ok {
			plain[name] = short
		} else if slices.Contains(required, name) {
			plain[name] = plainValue(property)
		}
	}
	return plain
}

func plainValue(schema *openapi3.Schema) json.RawMessage {
	switch {
	case len(schema.Enum) > 0:
		data, _ := json.Marshal(schema.Enum[0])
		return data
	case schema.Type.Is("array"):
		if schema.Items == nil {
			return json.RawMessage(`[]`)
		}
		return json.RawMessage(`[` + string(plainValue(schema.Items.Value)) + `]`)
	case schema.Type.Is("integer"), schema.Type.Is("number"):
		return json.RawMessage(`1`)
	case schema.Type.Is("boolean"):
		return json.RawMessage(`false`)
	case schema.Type.Is("object"):
		return json.RawMessage(marshalRaw(plainFields(schema)))
	}
	return json.RawMessage(`"A"`)
}

// checkEcho asserts that what a server says of a request is short and on one line: an error, what
// headers say, and notes.
func checkEcho(t require.TestingT, w *httptest.ResponseRecorder, about string) {
	const letters = 640 // of a message, which begins with what was found
	line := func(what, text string) {
		isBreak := func(r rune) bool {
			return unicode.IsControl(r) || unicode.In(r, unicode.Zl, unicode.Zp, unicode.Bidi_Control)
		}
		require.False(t, strings.ContainsFunc(text, isBreak), "%s: %s %q", about, what, text)
		require.LessOrEqual(t, utf8.RuneCountInString(text), letters, "%s: %s %.200q", about, what, text)
	}
	for name, values := range w.Header() {
		for _, value := range values {
			line(name, value)
		}
	}
	if w.Code < 400 {
		var answer struct{ Unmask struct{ Notes []string } }
		if json.Unmarshal(w.Body.Bytes(), &answer) == nil {
			for _, note := range answer.Unmask.Notes {
				line("note", note)
			}
		}
		return
	}
	var texts func(value any)
	texts = func(value any) {
		switch value := value.(type) {
		case string:
			line("error", value)
		case map[string]any:
			for _, inner := range value {
				texts(inner)
			}
		case []any:
			for _, inner := range value {
				texts(inner)
			}
		}
	}
	var body any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body), "%s: %.200q", about, w.Body)
	texts(body)
	require.Less(t, w.Body.Len(), 4*letters, about)
	require.Equal(t, 1, strings.Count(w.Body.String(), "\n"), "%s: %.200q", about, w.Body)
}

// echoing serves a model of each kind.
func echoing(t *testing.T) *server.Server {
	s, err := server.New(server.Options{Page: page.Handler()})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	m, err := unmask.Load(t.Context(), "oracle:letters:length=12", unmask.Options{})
	require.NoError(t, err)
	require.NoError(t, s.Add(server.Model{Name: "letters", Model: m}))
	chat, err := unmask.Load(t.Context(), "testdata/reports/chat", unmask.Options{Threads: 1})
	require.NoError(t, err)
	require.NoError(t, s.Add(server.Model{Name: "chat", Model: chat}))
	for _, name := range []string{"mage-tiny", "embed-bert-tiny", "omnivoice-tiny",
		"laya-tiny"} {
		m, err := unmask.Load(t.Context(), "../testdata/packs/"+name, unmask.Options{Threads: 1})
		require.NoError(t, err)
		require.NoError(t, s.Add(server.Model{Name: name, Model: m}))
	}
	return s
}

// Whatever a field of a body has, in any route and at any depth, its error is one line that repeats
// at most a few hundred letters of it.
func TestErrorsEchoLittleOfAnyField(t *testing.T) {
	doc, err := openapi3.NewLoader().LoadFromData(page.Description())
	require.NoError(t, err)
	s := echoing(t)
	h := s.Handler()
	for path, item := range doc.Paths.Map() {
		if item.Post == nil {
			continue
		}
		media := item.Post.RequestBody.Value.Content["application/json"]
		if media == nil {
			continue
		}
		t.Run(path, func(t *testing.T) {
			refused := 0
			fields := 0
			withOdd(media.Schema.Value, 5, func(body func(odd string) string) {
				fields++
				for i := range 2 { // the next field gets other values
					sent := body(string(oddValues[(fields*5+i*4)%len(oddValues)]))
					w := httptest.NewRecorder()
					r := httptest.NewRequest("POST", "http://127.0.0.1"+path, strings.NewReader(sent))
					r.Header.Set("Content-Type", "application/json")
					h.ServeHTTP(w, r)
					checkEcho(t, w, fmt.Sprintf("%s %.120q", path, sent))
					if w.Code >= 400 {
						refused++
					}
				}
			})
			require.Greater(t, refused, fields)
		})
	}
}

// The same of what is no body of JSON: names of fields, parts of forms, parts of paths, and
// headers.
func TestErrorsEchoLittleOfAnyPlace(t *testing.T) {
	h := echoing(t).Handler()
	asked := 0
	refused := 0
	ask := func(about string, r *http.Request) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		checkEcho(t, w, about)
		asked++
		if w.Code >= 400 {
			refused++
		}
	}
	const size = 64 << 10
	for _, unit := range []string{"x", "\x1b[31m", "\u202e\u2028", "\x00\x7f", "\xff\xfe", "a\r\nb"} {
		odd := strings.Repeat(unit, size/len(unit))
		quoted, err := json.Marshal(odd)
		require.NoError(t, err)
		for _, path := range slices.Sorted(maps.Keys(computing)) {
			r := httptest.NewRequest("POST", "http://127.0.0.1"+path,
				strings.NewReader("{"+string(quoted)+":1}"))
			r.Header.Set("Content-Type", "application/json")
			ask("a name on "+path, r)
			for _, name := range []string{"Content-Type", "Content-Encoding", "Origin"} {
				r := httptest.NewRequest("POST", "http://127.0.0.1"+path, strings.NewReader("{"))
				r.Header.Set("Content-Type", "application/json")
				r.Header.Set(name, odd)
				ask(name+" on "+path, r)
			}
		}
		for _, path := range []string{"/v1/models/", "/v1/responses/", "/v1/results/", "/v1/results/a/",
			"/api/", "/v1/", "/v1/messages/"} {
			r := httptest.NewRequest("GET", "http://127.0.0.1/", nil)
			r.URL.Path = path + odd
			ask(path, r)
			r.Method = odd
			ask("method on "+path, r)
		}
		r := httptest.NewRequest("GET", "http://127.0.0.1/v1/models", nil)
		r.Host = odd
		ask("host", r)

		for _, path := range []string{"/v1/images/edits", "/v1/images/encode"} {
			for _, field := range [][2]string{{odd, "a"}, {"model", odd}, {"steps", odd}, {"fit", odd},
				{"sampler", odd}, {"response_format", odd}, {"seed", odd}, {"image", odd}} {
				var body bytes.Buffer
				form := multipart.NewWriter(&body)
				part, err := form.CreateFormFile("image", odd[:min(len(odd), 200)])
				require.NoError(t, err)
				_, err = part.Write([]byte("GIF" + odd))
				require.NoError(t, err)
				require.NoError(t, form.WriteField(field[0], field[1]))
				require.NoError(t, form.Close())
				r := httptest.NewRequest("POST", "http://127.0.0.1"+path, &body)
				r.Header.Set("Content-Type", form.FormDataContentType())
				ask(fmt.Sprintf("%.10q of a form on %s", field[0], path), r)
			}
		}
	}
	require.Greater(t, refused, asked*9/10)
}
