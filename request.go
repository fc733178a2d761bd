package unmask

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"unmask/generate"
	"unmask/internal/jsonline"
	"unmask/param"
	"unmask/samplers"
	"unmask/tokenizers"
)

// Request is one sequence that somebody wants. The flags of unmask text and unmask image, lines of
// --prompts, the jobs of workers and the bodies of HTTP requests are read into it, and
// [Model.Prepare] knows what it means for a model. The zero Request is an unconditional sequence of
// the model's own length, made by its published recipe.
//
// Its JSON names are the names of flags with underscores, min_length for --min-length. A zero field
// is left out. The Overrides are fields beside the others: {"prompt": "Once", "top_p": 0.9}.
//
// To add a field to a request:
//
//  1. Add it here (or to Constraints) with a json tag, and say what it means when it is zero.
//  2. Give it its meaning in Prepare (prepare.go), which refuses it by its flag's name with a
//     *param.Error. What it changes must be part of the generate.Request as data; only Constraints,
//     which keys of answers and settings of files contain, may become an Adjust.
//  3. Set it from its flag (cli/flags), and name it in the server's list of fields that mean what
//     the Request's do (textFields in server/request.go; page/openapi.json describes them). Lines
//     of --prompts and workers have it already.
//  4. Add it to the random requests of testkit/requesttest, with which tests hold that all ways
//     prepare the same: go test . ./cli ./server -run PrepareTheSame. A field that has no flag is
//     cleared in cli/request_test.go.
//
// A number or a word that belongs to sampling is no field here: it is a row in generate's table of
// parameters, and is then an override in every one of these places by itself.
type Request struct {
	// What is known at the start; at most one is set. Prompt is continued, or it is what a picture
	// is drawn from if the model reads prompts.
	Prompt string `json:"prompt,omitempty"`
	Infill string `json:"infill,omitempty"` // holes are numbers of tokens in brackets, [20]
	// Special makes spellings of special tokens in Prompt, Infill and Suffix these tokens, not text.
	Special bool `json:"special,omitempty"`
	// a conversation in JSON, as the model's chat template takes it
	Messages json.RawMessage `json:"messages,omitempty"`
	// ids with Spec.Mask in holes; without a hole they are continued
	Tokens []int32     `json:"tokens,omitempty"`
	Image  *ImageInput `json:"image,omitempty"`

	// What follows the positions to fill after a Prompt or Tokens: a text, or its ids.
	Suffix       string  `json:"suffix,omitempty"`
	SuffixTokens []int32 `json:"suffix_tokens,omitempty"`

	// Variables are those of the chat template, by name: bool, text, whole number or nil. Of others it
	// has the model's own values.
	Variables Variables `json:"chat_template_kwargs,omitempty"`

	// Tools are the functions that an answer to Messages may call, in JSON, as the template takes
	// them. That the answer is a call is for a Schema to say.
	Tools json.RawMessage `json:"tools,omitempty"`

	Class    string `json:"class,omitempty"`    // a number or a name
	Negative string `json:"negative,omitempty"` // the prompt that guidance leads away from

	Preset string `json:"preset,omitempty"` // a published run of the model; "" for its usual one

	generate.Overrides `json:"-"`
	Constraints

	Name string `json:"name,omitempty"` // of the sample in FASTA; it changes nothing else

	Length    int `json:"length,omitempty"`     // positions, without tokens around; 0: see Prepare
	MaxTokens int `json:"max_tokens,omitempty"` // positions to fill, at most; 0: those of Length

	Seed  uint64 `json:"seed,omitempty"`
	Index uint32 `json:"index,omitempty"` // of the sequence among those of its seed
}

// given are the names of the fields of r that say what is known at the start. The prompt is one of
// them for a text, but not for a picture.
func (r *Request) given(text bool) (names []string) {
	for _, g := range []struct {
		name string
		is   bool
	}{{"prompt", text && r.Prompt != "" || r.Tokens == nil && r.goesOn()}, {"infill", r.Infill != ""},
		{"messages", r.Messages != nil}, {"tokens", r.Tokens != nil}, {"image", r.Image != nil}} {
		if g.is {
			names = append(names, g.name)
		}
	}
	return names
}

// goesOn reports whether something follows the positions to fill.
func (r *Request) goesOn() bool { return r.Suffix != "" || r.SuffixTokens != nil }

// Overridable returns the parameters that a request's Overrides may have; the slice is shared and
// must not be changed. A ban and a bias of token ids are among them, but in JSON they are those of
// the Constraints, which also take texts.
var Overridable = sync.OnceValue(func() []param.Param {
	return append(generate.Params(), samplers.AlphaParam, samplers.GammaParam)
})

// override returns the parameter that a JSON field of a request sets in its Overrides.
func override(field string) (p param.Param, ok bool) {
	list := Overridable()
	at := slices.IndexFunc(list, func(p param.Param) bool { return FieldName(p.Name) == field })
	if at < 0 {
		return p, false
	}
	return list[at], true
}

// FieldName returns the JSON name of a parameter: underscores for dashes.
func FieldName(name string) string { return strings.ReplaceAll(name, "-", "_") }

// plainRequest is a Request without methods of JSON.
type plainRequest Request

// MarshalJSON implements json.Marshaler.
func (r Request) MarshalJSON() ([]byte, error) {
	data, err := json.Marshal(plainRequest(r))
	if err != nil || len(r.Overrides) == 0 {
		return data, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return nil, err
	}
	for name, text := range r.Overrides {
		value, _ := json.Marshal(text) // a text has JSON
		p, _ := override(FieldName(name))
		if number := json.RawMessage(text); (p.Kind == param.Number || p.Kind == param.Whole) &&
			json.Valid(number) {
			value = number
		}
		fields[FieldName(name)] = value
	}
	return json.Marshal(fields)
}

// UnmarshalJSON implements json.Unmarshaler. Fields that data leaves out keep their values. Unknown
// fields are an error, and names of files are too: whoever sends a request must not choose what
// Prepare opens. An Input, a line of the user's own file, may have them.
func (r *Request) UnmarshalJSON(data []byte) error {
	read := *r
	if r.Image != nil {
		image := *r.Image
		image.File, image.MaskFile = "", ""
		read.Image = &image
	}
	if err := read.read(data); err != nil {
		return err
	}
	if in := read.Image; in != nil && (in.File != "" || in.MaskFile != "") {
		return param.Refuse("image", param.Unsupported,
			"image names the file %s, want none in a request that is read: set Picture",
			param.Quote(cmp.Or(in.File, in.MaskFile)))
	}
	if r.Image != nil && read.Image != nil { // its own names stay
		read.Image.File, read.Image.MaskFile = r.Image.File, r.Image.MaskFile
	}
	*r = read
	return nil
}

// read is UnmarshalJSON where names of files may stand.
func (r *Request) read(data []byte) error {
	var fields map[string]json.RawMessage
	if err := cmp.Or(jsonline.CheckUTF8(data), json.Unmarshal(data, &fields)); err != nil {
		return err
	}
	over := maps.Clone(r.Overrides)
	for name, raw := range fields {
		p, ok := override(name)
		if !ok || name == "ban" || name == "bias" { // of the Constraints
			fields[name] = lenient(name, raw)
			continue
		}
		delete(fields, name)
		text, err := overrideText(p, raw)
		if err != nil {
			return err
		}
		if over == nil {
			over = generate.Overrides{}
		}
		if over[p.Name] = text; text == "" {
			delete(over, p.Name)
		}
	}
	rest, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	plain := plainRequest(*r)
	plain.Overrides = over
	if err := jsonline.DecodeStrict(rest, &plain); err != nil {
		return err
	}
	*r = Request(plain)
	return nil
}

// lenient returns a field in the form that plainRequest has: a class may be a number, and the text
// of one ban, bias or avoid stands for a list of one.
func lenient(name string, raw json.RawMessage) json.RawMessage {
	switch {
	case len(raw) == 0:
	case name == "class" && strings.Trim(string(raw), "-0123456789") == "":
		return json.RawMessage(strconv.Quote(string(raw)))
	case (name == "ban" || name == "bias" || name == "avoid") && raw[0] == '"':
		return slices.Concat([]byte("["), raw, []byte("]"))
	}
	return raw
}

// overrideText returns the text of a JSON value for a parameter's override: a number's own, and "",
// which sets nothing, for null. The error is a *param.Error.
func overrideText(p param.Param, raw json.RawMessage) (text string, err error) {
	wrong := func(kind string) (string, error) {
		return "", &param.Error{Name: p.Name, Found: fmt.Sprintf("%.40s", raw), Want: kind,
			Reason: param.WrongType}
	}
	switch {
	case string(raw) == "null":
		return "", nil
	case p.Kind == param.Text || p.Kind == param.Word:
		if json.Unmarshal(raw, &text) != nil {
			return wrong("a text")
		}
		return text, nil
	case p.Kind == param.Whole:
		if strings.Trim(strings.TrimPrefix(string(raw), "-"), "0123456789") != "" {
			return wrong("a whole number, " + p.Want())
		}
		_, err = p.Int(string(raw))
		return string(raw), err
	}
	x, err := strconv.ParseFloat(string(raw), 64)
	if err != nil && x == 0 {
		return wrong("a number, " + p.Want())
	}
	_, err = p.Float(param.Format(x))
	return param.Format(x), err
}

// Fingerprint returns what outputs depend on of a model: its files or, of an exact one, its name.
func (m *Model) Fingerprint() (string, error) {
	if m.Source == nil {
		return m.Name, nil
	}
	return m.Source.Fingerprint()
}

// Identity returns all that decides the bytes of what is made of r, which Prepare made q of, by
// name, besides the model and the request's Index. Settings of folders and files are made of it,
// and keys of HTTP answers. A parameter of recipes or a field of Constraints is in it by itself.
func (m *Model) Identity(r *Request, q *generate.Request) map[string]string {
	s := q.Identity()
	if m.Text == nil && m.Spec().Prompt {
		s["prompt"] = r.Prompt
	} else if m.Text == nil && r.Class != "" {
		s["class"] = r.Class
	}
	if r.Negative != "" {
		s["negative"] = r.Negative
	}
	if r.Messages != nil {
		s["text"] = "answer"
	}
	c := r.Constraints
	if m.Text != nil && !c.Grammar.IsZero() {
		s["schema"], s["regex"] = string(c.Schema), c.Regex
		s["choice"] = strings.Join(c.Choice, ",")
	}
	if m.Text != nil && (c.MinLength > 0 || c.Cut) {
		s["end"] = cmp.Or(c.End, tokenizers.EndOfText)
		s["min-length"], s["cut"] = strconv.Itoa(c.MinLength), strconv.FormatBool(c.Cut)
	}
	c.Ban, c.Bias, c.MinLength, c.Cut, c.End = nil, nil, 0, false, "" // of the recipe, or above
	c.Schema, c.Regex, c.Choice = nil, "", nil
	data, err := json.Marshal(c)
	var rest map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(data, &rest)
	}
	if err != nil {
		panic(err) // Prepare has refused what cannot be written
	}
	for name, value := range rest {
		s[name] = string(value)
	}
	return s
}

// Identify puts the identity of a list in place of that of one request.
func (q *RequestList) AddIdentity(s map[string]string) {
	if q.model.Text != nil {
		s["known"] = q.hash()
		return
	}
	var of []string
	for _, r := range q.requests {
		of = append(of, cmp.Or(r.Class, r.Prompt))
	}
	subjects := strings.Join(of, "\n")
	if q.model.Spec().Prompt {
		s["prompt"] = subjects
	} else if subjects != "" {
		s["class"] = subjects
	}
	if q.Differ() {
		s["lines"] = q.hash()
	}
}

// hash returns a hash of the inputs, 16 hexadecimal digits.
func (q *RequestList) hash() string {
	hash := sha256.New()
	for _, in := range q.inputs {
		r, seeded, err := in.Over(Request{})
		if err != nil { // it was read before
			panic(err)
		}
		fmt.Fprintf(hash, "%q %q", r.Prompt, r.Infill)
		if seeded {
			fmt.Fprintf(hash, " %d", r.Seed)
		}
		r.Name, r.Prompt, r.Infill, r.Seed = "", "", "", 0
		if rest := InputOf(r); string(rest) != "{}" {
			fmt.Fprintf(hash, " %s", rest)
		}
		fmt.Fprintln(hash)
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}
