package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image/png"
	"slices"

	"unmask"
	"unmask/generate"
	"unmask/samplers"
)

// asked is a request of the mix with what every answer to it has.
type asked struct {
	path string
	fields
	model *unmask.Model
	run   generate.Options // the library's, of the same request
	from  int              // the answer's text begins at this position
	want  [sha256.Size]byte
}

// essence is the part of an answer that depends on the request alone.
type essence struct {
	Choices []choice
	Data    []picture
}

type choice struct {
	Text   string
	Tokens []int32 // of infills alone
}

type picture struct {
	B64 string `json:"b64_json"`
}

func (e essence) sum() [sha256.Size]byte {
	data, err := json.Marshal(e)
	if err != nil {
		panic(fmt.Sprintf("texts and pictures as JSON: %v", err))
	}
	return sha256.Sum256(data)
}

// essenceOf reads an answer.
func essenceOf(body []byte) (sum [sha256.Size]byte, err error) {
	var e essence
	if err := json.Unmarshal(body, &e); err != nil {
		return sum, err
	}
	return e.sum(), nil
}

// mix returns requests of all kinds. What each is to be answered with is the library's.
func (s *site) mix() (list []asked, err error) {
	for i := range 24 {
		known, err := s.known(0)
		if err != nil {
			return nil, err
		}
		rows := 20 + 7*i
		list = append(list, asked{path: "/v1/completions", fields: s.completion(rows, 4+i, i),
			model: s.text, from: s.given,
			run: generate.Options{Recipe: generate.Recipe{Steps: 4 + i}, Seed: uint64(i),
				Tokens: known[:rows]}})

		holes := fmt.Sprintf("Lily had a [%d] and [4].", 5+i)
		if known, err = s.text.Text.Infill(holes, 0); err != nil {
			return nil, err
		}
		rule := []string{"moment", "halton", "maskgit", "eb(margin)", "semi-ar(hybrid)", "remdm"}[i%6]
		x := asked{path: "/v1/infill", model: s.text, fields: fields{"text": holes, "steps": 5, "seed": i,
			"sampler": rule, "cache": 0, "n": 1 + i%3},
			run: generate.Options{Recipe: generate.Recipe{Steps: 5}, Seed: uint64(i), N: 1 + i%3,
				Tokens: known}}
		if x.run.Sampler, err = samplers.Parse(rule); err != nil {
			return nil, err
		}
		if list = append(list, x); i%3 != 0 {
			continue
		}
		list = append(list, asked{path: "/v1/images/generations", model: s.picture,
			fields: fields{"prompt": "", "seed": i, "steps": 4 + i%8, "n": 1 + i%2},
			run:    generate.Options{Recipe: generate.Recipe{Steps: 4 + i%8}, Seed: uint64(i), N: 1 + i%2}})
	}
	for i := range list {
		if err := list[i].answer(); err != nil {
			return nil, fmt.Errorf("%v: %w", list[i].fields, err)
		}
	}
	return list, nil
}

// answer computes what the request is to be answered with, by the library alone.
func (x *asked) answer() error {
	d, err := x.model.Defaults()
	if err != nil {
		return err
	}
	if rule := x.run.Sampler; rule != nil {
		d.Sampler, d.Cache = rule, 0
	}
	d.Steps = x.run.Steps
	var e essence
	run := x.run
	run.Recipe = d
	for step, err := range generate.Run(context.Background(), x.model.Denoiser, run) {
		if err != nil {
			return err
		}
		if !step.Done {
			continue
		}
		for _, q := range step.Sequences {
			switch tokens := slices.Clone(q.Tokens); {
			case x.model.Pictures != nil:
				img, err := x.model.Pictures.Image(tokens)
				if err != nil {
					return err
				}
				var file bytes.Buffer
				if err := png.Encode(&file, img); err != nil {
					return err
				}
				e.Data = append(e.Data, picture{base64.StdEncoding.EncodeToString(file.Bytes())})
			case x.path == "/v1/infill":
				e.Choices = append(e.Choices, choice{x.model.Text.Decode(tokens), tokens})
			default:
				e.Choices = append(e.Choices, choice{Text: x.model.Text.Decode(tokens[x.from:])})
			}
		}
	}
	x.want = e.sum()
	return nil
}
