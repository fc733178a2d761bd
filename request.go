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
	"unmask/model"
	"unmask/param"
	"unmask/prompt"
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
	// What is known at the start; at most one of Prompt, Infill, Messages, Tokens and Image is set.

	// Prompt is continued, or it is what a picture is drawn from if the model reads prompts.
	Prompt string `json:"prompt,omitempty"`

	// Infill is a text with holes, which are numbers of tokens in brackets, [20].
	Infill string `json:"infill,omitempty"`

	// Special makes spellings of special tokens in Prompt, Infill and Suffix these tokens, not text.
	Special bool `json:"special,omitempty"`

	// Messages are a conversation in JSON, as the model's chat template takes it.
	Messages json.RawMessage `json:"messages,omitempty"`

	// Tokens are ids with Spec.Mask in holes; without a hole they are continued.
	Tokens []int32     `json:"tokens,omitempty"`
	Image  *ImageInput `json:"image,omitempty"`

	// Suffix follows the positions to fill after a Prompt or Tokens: a text, or its ids.
	Suffix       string  `json:"suffix,omitempty"`
	SuffixTokens []int32 `json:"suffix_tokens,omitempty"`

	// Variables are those of the chat template, by name: bool, text, whole number or nil. Of others it
	// has the model's own values.
	Variables prompt.Variables `json:"chat_template_kwargs,omitempty"`

	// Tools are the functions that an answer to Messages may call, in JSON, as the template takes
	// them. That the answer is a call is for a Schema to say.
	Tools json.RawMessage `json:"tools,omitempty"`

	// Class is a number or a name.
	Class string `json:"class,omitempty"`

	// Negative is the prompt that guidance leads away from.
	Negative string `json:"negative,omitempty"`

	// Condition is a condition that a program computed itself, in place of a class or a prompt.
	Condition *model.Condition `json:"-"`

	// Preset is a published run of the model; "" for its usual one.
	Preset string `json:"preset,omitempty"`

	generate.Overrides `json:"-"`
	prompt.Constraints

	// Name is the sample's name in FASTA. It changes nothing else.
	Name string `json:"name,omitempty"`

	// Length is a number of positions, without tokens around the text; 0: see Prepare.
	Length int `json:"length,omitempty"`

	// MaxTokens bounds the tokens to fill; 0: see Prepare. An answer begins on no more positions than
	// without a bound. What is no answer fills as many positions.
	MaxTokens int `json:"max_tokens,omitempty"`

	// Canvas is the number of positions to fill, exactly; 0: see Prepare.
	Canvas int `json:"canvas,omitempty"`

	Seed uint64 `json:"seed,omitempty"`

	// Index is that of the sequence among those of its seed.
	Index uint32 `json:"index,omitempty"`
}

// startFields returns the names of the fields of r that say what is known at the start. The prompt
// is one of them for a text, but not for a picture.
func (r *Request) startFields(isText bool) []string {
	var names []string
	if isText && r.Prompt != "" || r.Tokens == nil && r.hasSuffix() {
		names = append(names, "prompt")
	}
	if r.Infill != "" {
		names = append(names, "infill")
	}
	if r.Messages != nil {
		names = append(names, "messages")
	}
	if r.Tokens != nil {
		names = append(names, "tokens")
	}
	if r.Image != nil {
		names = append(names, "image")
	}
	return names
}

// hasSuffix reports whether something follows the positions to fill.
func (r *Request) hasSuffix() bool { return r.Suffix != "" || r.SuffixTokens != nil }

// Overridable returns the parameters that a request's Overrides may have; the slice is shared and
// must not be changed. A ban and a bias of token ids are among them, but in JSON they are those of
// the Constraints, which also take texts.
var Overridable = sync.OnceValue(func() []param.Param {
	return append(generate.Params(), samplers.AlphaParam, samplers.GammaParam)
})

// findOverride returns the parameter that a JSON field of a request sets in its Overrides.
func findOverride(field string) (p param.Param, ok bool) {
	for _, p := range Overridable() {
		if FieldName(p.Name) == field {
			return p, true
		}
	}
	return param.Param{}, false
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
		field := FieldName(name)
		p, _ := findOverride(field)
		isNumber := p.Kind == param.Number || p.Kind == param.Whole
		if isNumber && json.Valid([]byte(text)) {
			fields[field] = json.RawMessage(text)
			continue
		}
		quoted, _ := json.Marshal(text) // every text has JSON
		fields[field] = quoted
	}
	return json.Marshal(fields)
}

// UnmarshalJSON implements json.Unmarshaler. Fields that data leaves out keep their values. Unknown
// fields are an error, and names of files are too: whoever sends a request must not choose what
// Prepare opens. An Input, a line of the user's own file, may have them.
func (r *Request) UnmarshalJSON(data []byte) error {
	decoded := *r
	if r.Image != nil {
		image := *r.Image
		image.File = ""
		image.MaskFile = ""
		decoded.Image = &image
	}
	if err := decoded.decode(data); err != nil {
		return err
	}
	if in := decoded.Image; in != nil && (in.File != "" || in.MaskFile != "") {
		return param.Refuse("image", param.Unsupported,
			"image names the file %s, want none in a request that is read: set Picture",
			param.Quote(cmp.Or(in.File, in.MaskFile)))
	}
	if r.Image != nil && decoded.Image != nil { // its own names stay
		decoded.Image.File = r.Image.File
		decoded.Image.MaskFile = r.Image.MaskFile
	}
	*r = decoded
	return nil
}

// decode is UnmarshalJSON where names of files may stand.
func (r *Request) decode(data []byte) error {
	if err := jsonline.CheckUTF8(data); err != nil {
		return err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		return err
	}

	overrides := maps.Clone(r.Overrides)
	for name, raw := range fields {
		p, ok := findOverride(name)
		if !ok || name == "ban" || name == "bias" { // those of the Constraints take texts too
			fields[name] = acceptShortForm(name, raw)
			continue
		}
		delete(fields, name)
		text, err := overrideText(p, raw)
		if err != nil {
			return err
		}
		if text == "" {
			delete(overrides, p.Name)
			continue
		}
		if overrides == nil {
			overrides = generate.Overrides{}
		}
		overrides[p.Name] = text
	}

	plainFields, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	plain := plainRequest(*r)
	plain.Overrides = overrides
	if err := jsonline.DecodeStrict(plainFields, &plain); err != nil {
		return err
	}
	*r = Request(plain)
	return nil
}

// acceptShortForm returns a field in the form that plainRequest has: a class may be a number, and
// the text of one ban, bias or avoid stands for a list of one.
func acceptShortForm(name string, raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return raw
	}
	switch name {
	case "class":
		if strings.Trim(string(raw), "-0123456789") == "" {
			return json.RawMessage(strconv.Quote(string(raw)))
		}
	case "ban", "bias", "avoid":
		if raw[0] == '"' {
			return slices.Concat([]byte("["), raw, []byte("]"))
		}
	}
	return raw
}

// overrideText returns the text of a JSON value for a parameter's override: a number's own, and "",
// which sets nothing, for null. The error is a *param.Error.
func overrideText(p param.Param, raw json.RawMessage) (string, error) {
	wrongType := func(kind string) error {
		return &param.Error{
			Name:   p.Name,
			Found:  fmt.Sprintf("%.40s", raw),
			Want:   kind,
			Reason: param.WrongType,
		}
	}
	if string(raw) == "null" {
		return "", nil
	}
	switch p.Kind {
	case param.Text, param.Word:
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return "", wrongType("a text")
		}
		return text, nil
	case param.Whole:
		digits := strings.TrimPrefix(string(raw), "-")
		if strings.Trim(digits, "0123456789") != "" {
			return "", wrongType("a whole number, " + p.Want())
		}
		_, err := p.Int(string(raw))
		return string(raw), err
	}
	number, err := strconv.ParseFloat(string(raw), 64)
	if err != nil && number == 0 { // a number out of range is infinite, and p.Float refuses it
		return "", wrongType("a number, " + p.Want())
	}
	_, err = p.Float(param.Format(number))
	return param.Format(number), err
}

// Fingerprint returns what outputs depend on of a model: its files or, of an exact one, its name.
// It reads all files once, and its error is that of a file that cannot be read.
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
	if m.revision != "" {
		s["network"] = m.revision
	}
	block := cmp.Or(q.BlockSize, m.Spec().Block, 1)
	if q.Reuse == generate.Blocks && q.Length%block != 0 {
		s["last-block"] = "0.2"
	}
	if m.Text != nil && m.endsOtherwise(r, q) {
		s["ends"] = "0.2"
	}
	c := r.Constraints
	if m.Text != nil && !c.Grammar.IsZero() {
		s["schema"] = string(c.Schema)
		s["regex"] = c.Regex
		s["choice"] = strings.Join(c.Choice, ",")
	}
	if m.Text != nil && !r.Grammar.IsZero() { // a list's lines have it, and q may not
		s["grammar"] = "0.2"
	}
	if m.Text != nil && (c.MinLength > 0 || c.Cut) {
		s["end"] = cmp.Or(c.End, tokenizers.EndOfText)
		s["min-length"] = strconv.Itoa(c.MinLength)
		s["cut"] = strconv.FormatBool(c.Cut)
	}

	// What is left of the constraints is named by its JSON, so that a new field counts by itself.
	// Bans and biases are part of the recipe; the others stand above.
	c.Ban = nil
	c.Bias = nil
	c.MinLength = 0
	c.Cut = false
	c.End = ""
	c.Schema = nil
	c.Regex = ""
	c.Choice = nil
	data, err := json.Marshal(c)
	var constraints map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(data, &constraints)
	}
	if err != nil {
		panic(err) // Prepare has refused what cannot be written
	}
	for name, value := range constraints {
		s[name] = string(value)
	}
	return s
}

// endsOtherwise reports whether a text may be shown to another end than 0.1.0 showed it, which knew
// neither the end tokens of a raw text nor the texts that a template puts behind an answer, and cut
// no answer.
func (m *Model) endsOtherwise(r *Request, q *generate.Request) bool {
	uncut := *r
	uncut.Cut = false
	a := m.AnswerOf(&uncut, q)
	if r.Messages == nil {
		return len(a.EndTokens) > 0
	}
	return r.Cut || len(a.StopTexts) > len(r.Stop)
}

// AddIdentity puts the identity of a list in place of that of one request.
func (l *RequestList) AddIdentity(settings map[string]string) {
	if l.model.Text != nil {
		settings["known"] = l.hashInputs()
		if l.readOtherwise() {
			settings["inputs"] = "0.2"
		}
		if settings["reuse"] == "blocks" { // texts of a list have lengths of their own
			settings["last-block"] = "0.2"
		}
		return
	}
	var subjects []string
	for _, r := range l.requests {
		subjects = append(subjects, cmp.Or(r.Class, r.Prompt))
	}
	joined := strings.Join(subjects, "\n")
	if l.model.Spec().Prompt {
		settings["prompt"] = joined
	} else if joined != "" {
		settings["class"] = joined
	}
	if l.Differ() {
		settings["lines"] = l.hashInputs()
	}
}

// readOtherwise reports whether 0.1.0 made other tokens of a list of texts, of which settings have
// the words alone: of prompts where it put its own token before each, and of lines with a
// conversation or a grammar of their own.
func (l *RequestList) readOtherwise() bool {
	t := l.model.Text
	var endOfText []int32
	if id, ok := t.Special(tokenizers.EndOfText); ok {
		endOfText = []int32{id}
	}
	continued, _ := t.Begin("", false, true)
	followed, _ := t.Begin("", false, false)
	if !slices.Equal(continued, endOfText) || len(followed) > 0 || len(t.Last()) > 0 {
		return true
	}
	return slices.ContainsFunc(l.requests, func(r Request) bool {
		return r.Messages != nil || !r.Grammar.IsZero()
	})
}

// hashInputs returns a hash of the inputs, 16 hexadecimal digits.
func (l *RequestList) hashInputs() string {
	hash := sha256.New()
	for _, input := range l.inputs {
		r, hasSeed, err := input.ApplyTo(Request{})
		if err != nil { // it was read before
			panic(err)
		}
		fmt.Fprintf(hash, "%q %q", r.Prompt, r.Infill)
		if hasSeed {
			fmt.Fprintf(hash, " %d", r.Seed)
		}
		r.Name = ""
		r.Prompt = ""
		r.Infill = ""
		r.Seed = 0
		if extra := InputOf(r); string(extra) != "{}" {
			fmt.Fprintf(hash, " %s", extra)
		}
		fmt.Fprintln(hash)
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}
