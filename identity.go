package unmask

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"unmask/generate"
	"unmask/tokenizers"
)

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
func (q *Requests) Identify(s map[string]string) {
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
	if q.Vary() {
		s["lines"] = q.hash()
	}
}

// hash returns a hash of the inputs, 16 hexadecimal digits.
func (q *Requests) hash() string {
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
