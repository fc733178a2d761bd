// Command structured compares ways to make a text of a language with a masked diffusion model:
// this engine's law (package constrain), DINGO, and the method of arXiv 2508.10111. The embedded
// demo-chat writes the facts of the stories of demo/stories as JSON; an expression says which JSON
// is valid, and a rule which facts are right.
//
//	go run ./tools/structured                  the table of docs/structured.md
//	go run ./tools/structured -dialogues 5     fewer stories
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"unmask"
	"unmask/constrain"
	"unmask/demo"
	"unmask/demo/stories"
	"unmask/generate"
	"unmask/samplers"
)

// languages are the facts of a story, with or without spaces after the marks of JSON: in
// the order that the model has learned, and in another.
var languages = []language{
	{"learned order", []string{"name", "animal", "place", "object", "color"}},
	{"reverse order", []string{"color", "object", "place", "animal", "name"}},
}

type language struct {
	name string
	keys []string
}

// right reports whether an answer has the story's facts for these keys.
func (l language) right(answer string, d stories.Dialogue) bool {
	var got map[string]string
	if json.Unmarshal([]byte(answer), &got) != nil {
		return false
	}
	return !slices.ContainsFunc(l.keys, func(key string) bool { return got[key] != d.Facts[key] })
}

// object returns the expression of objects with these keys and words as values.
func object(keys ...string) string {
	var members []string
	for _, key := range keys {
		members = append(members, `"`+key+`": ?"[A-Za-z]+"`)
	}
	return `\{` + strings.Join(members, ", ?") + `\}`
}

// room is the number of positions of an answer; block is how many of them open before the next.
const room, block = 48, 16

// method is a way to make the answers.
type method struct {
	name, sampler string
	steps         int
	constrained   bool // by package constrain
	// of the others, the sampler that knows the language
	own func(l *constrain.Language) samplers.Sampler
}

func methods() (list []method) {
	greedy := fmt.Sprintf("semi-ar(low-confidence,block=%d)", block)
	for _, steps := range []int{48, 12, 6} {
		list = append(list, method{name: "no constraint", sampler: greedy, steps: steps},
			method{name: "DINGO", sampler: greedy, steps: steps,
				own: func(l *constrain.Language) samplers.Sampler { return &dingo{language: l} }},
			method{name: "arXiv 2508.10111", sampler: greedy, steps: steps,
				own: func(l *constrain.Language) samplers.Sampler { return newRejecting(l) }},
			method{name: "unmask, most probable text", sampler: greedy, steps: steps, constrained: true},
			method{name: "unmask, drawn", sampler: fmt.Sprintf("semi-ar(random,block=%d)", block),
				steps: steps, constrained: true})
	}
	return list
}

func main() {
	n := flag.Int("dialogues", 42, "stories, of 42")
	from := flag.String("stories", "demo/stories/testdata/dialogues.jsonl", "the file of dialogues")
	flag.Parse()
	if err := run(*from, *n); err != nil {
		fmt.Fprintln(os.Stderr, "structured:", err)
		os.Exit(1)
	}
}

func run(from string, n int) error {
	list, err := readFacts(from, n)
	if err != nil {
		return err
	}
	m, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{})
	if err != nil {
		return err
	}
	fmt.Printf("| %d stories | steps | passes ", len(list))
	for _, l := range languages {
		fmt.Printf("| %s: valid | right ", l.name)
	}
	fmt.Printf("|\n|---|---|---%s|\n", strings.Repeat("|---|---", len(languages)))
	for _, way := range methods() {
		for i, l := range languages {
			s, err := measure(m, way, l, list)
			if err != nil {
				return fmt.Errorf("%s: %w", way.name, err)
			}
			if i == 0 {
				fmt.Printf("| %s | %d | %.1f ", way.name, way.steps, float64(s.passes)/float64(len(list)))
			}
			fmt.Printf("| %d | %d ", s.valid, s.right)
		}
		fmt.Println("|")
	}
	return nil
}

// readFacts returns the dialogues that ask for facts, n at most.
func readFacts(name string, n int) ([]stories.Dialogue, error) {
	list, err := stories.ReadDialogues(name)
	list = slices.DeleteFunc(list, func(d stories.Dialogue) bool { return d.Kind != "facts" })
	return list[:min(n, len(list))], err
}

// score is what a method's answers are.
type score struct{ passes, valid, right int }

// measure makes the answers of a method in a language.
func measure(m *unmask.Model, way method, l language, list []stories.Dialogue) (s score,
	err error) {
	regex := object(l.keys...)
	valid := regexp.MustCompile("^(?:" + regex + ")$")
	requests, answers := make([]generate.Request, len(list)), make([]*unmask.Answer, len(list))
	for i, d := range list {
		if requests[i], answers[i], err = prepare(m, way, regex, d, uint32(i)); err != nil {
			return s, err
		}
	}
	for step, err := range generate.Each(context.Background(), m.Denoiser,
		generate.PoolOptions{Size: 8}, slices.Values(requests)) {
		if err != nil {
			return s, err
		}
		for _, p := range step.Sequences {
			if !p.Done {
				continue
			}
			s.passes += p.Evaluated.Full
			answer := answers[p.Number].Shown(p.Tokens).Text
			if valid.MatchString(answer) {
				s.valid++
			}
			if l.right(answer, list[p.Number]) {
				s.right++
			}
		}
	}
	return s, nil
}

// prepare returns the request of a dialogue's answer, and what is shown of it.
func prepare(m *unmask.Model, way method, regex string, d stories.Dialogue,
	index uint32) (generate.Request, *unmask.Answer, error) {
	r := unmask.Request{Messages: d.Messages(), MaxTokens: room, Seed: 1,
		Index: index, Overrides: generate.Overrides{}}
	r.Regex = regex
	r.Overrides["sampler"], r.Overrides["steps"] = way.sampler, strconv.Itoa(way.steps)
	q, err := m.Prepare(context.Background(), r)
	if err != nil {
		return q, nil, err
	}
	if !way.constrained {
		if way.own != nil {
			q.Sampler = way.own(q.Language)
		}
		q.Language = nil
	}
	return q, m.AnswerOf(&r, &q), nil
}
