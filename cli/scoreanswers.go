package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"

	"golang.org/x/term"

	"unmask"
	"unmask/cli/terminal"
	"unmask/internal/jsonline"
	"unmask/likelihood"
	"unmask/param"
)

// answerQuestion is a line of --inputs.
type answerQuestion struct {
	Name     string          `json:"name,omitempty"`
	Prompt   string          `json:"prompt,omitempty"`
	Messages json.RawMessage `json:"messages,omitempty"`
	Answer   string          `json:"answer,omitempty"`
	Answers  []string        `json:"answers,omitempty"`
}

// scoredAnswer is what is known of an answer; a log-probability that is -Inf is null.
type scoredAnswer struct {
	Answer  string     `json:"answer"`
	LogProb *float64   `json:"log_prob"`
	Error   *float64   `json:"error"`
	Tokens  int        `json:"tokens"`
	Greedy  bool       `json:"greedy"`
	LogP    []*float64 `json:"logp"`
	Passes  int        `json:"passes"`
}

// scoredQuestion is a line of the output.
type scoredQuestion struct {
	Name        string         `json:"name"`
	Answers     []scoredAnswer `json:"answers"`
	Best        int            `json:"best"`          // index of the most probable answer
	BestPerByte int            `json:"best_per_byte"` // by log_prob / bytes of the answer
}

// tokenizedAnswer is an answer, tokens[from:to].
type tokenizedAnswer struct {
	tokens []int32
	from   int
	to     int
}

// scoreAnswers scores the answers of --inputs. All are read and checked before the first pass.
func (f *scoreFlags) scoreAnswers(ctx context.Context) error {
	if err := f.likelihood.Check(); err != nil {
		return flagMistake(err)
	}
	questions, err := readQuestions(f.inputs)
	if err != nil {
		return wrapError(f.inputs, err)
	}
	m, err := f.loadText(ctx)
	if err != nil {
		return err
	}
	total := 0
	list := make([][]tokenizedAnswer, len(questions))
	conversations := make([][]byte, len(questions))
	for i, q := range questions {
		conversations[i] = q.Messages
		for j := range q.Answers {
			a, passes, err := f.tokenize(ctx, m, q, j)
			if err != nil {
				return q.nameAnswer(f.inputs, j, err)
			}
			total = total + passes
			list[i] = append(list[i], a)
		}
	}
	logNotes(m.TemplateNote(conversations...))
	if !f.json && term.IsTerminal(int(os.Stdout.Fd())) {
		if err := printLine("question\tlog p\terror\ttokens\tbest\tanswer"); err != nil {
			return err
		}
	}
	progress := terminal.NewProgress("passes", int64(total))
	defer progress.Close()
	for i, q := range questions {
		out := scoredQuestion{Name: q.Name}
		for j, a := range list[i] {
			// Answers of one question have one index: those of equal length then have equal masks, and
			// their differences vary less.
			o := f.likelihood
			reported := 0
			o.Seed = f.Seed
			o.Index = uint32(i)
			o.Progress = func(passes, _ int) {
				progress.Add(int64(passes - reported))
				reported = passes
			}
			e, err := likelihood.Measure(ctx, m.Denoiser, a.tokens, a.from, a.to, o)
			if err != nil {
				return q.nameAnswer(f.inputs, j, err)
			}
			out.add(q.Answers[j], e, a.tokens[a.from:a.to])
		}
		if err := out.print(f.json); err != nil {
			return err
		}
	}
	return nil
}

// tokenize returns an answer's tokens and the number of passes that it takes.
func (f *scoreFlags) tokenize(ctx context.Context, m *unmask.Model, q answerQuestion,
	answer int) (a tokenizedAnswer, passes int, err error) {
	beginning := unmask.Request{Prompt: q.Prompt, Messages: q.Messages}
	a.tokens, a.from, a.to, err = m.TokensWithAnswer(ctx, beginning, q.Answers[answer], nil)
	if err == nil {
		passes, err = likelihood.CountPasses(m.Denoiser, a.tokens, a.from, a.to, f.likelihood)
	}
	return a, passes, err
}

// nameAnswer says which answer an error is about.
func (q *answerQuestion) nameAnswer(file string, answer int, err error) error {
	return fmt.Errorf("%s: question %s, answer %d: %w", file, q.Name, answer+1, err)
}

// add adds an answer with its estimate, and updates which answer is best. Per byte, so that an
// answer is not better only because it is shorter.
func (s *scoredQuestion) add(answer string, e *likelihood.Estimate, tokens []int32) {
	scored := scoredAnswer{
		Answer:  answer,
		LogProb: jsonline.FiniteOrNil(e.LogProb),
		Error:   jsonline.FiniteOrNil(e.Error),
		Tokens:  len(tokens),
		Greedy:  e.IsGreedy(tokens),
		LogP:    jsonline.FinitesOrNil(e.LogP),
		Passes:  e.Passes,
	}
	s.Answers = append(s.Answers, scored)
	perByte := func(a scoredAnswer) float64 { return orImpossible(a.LogProb) / float64(len(a.Answer)) }
	last := len(s.Answers) - 1
	if e.LogProb > orImpossible(s.Answers[s.Best].LogProb) {
		s.Best = last
	}
	if perByte(scored) > perByte(s.Answers[s.BestPerByte]) {
		s.BestPerByte = last
	}
}

// orImpossible returns a log-probability that may be null, which means -Inf: JSON has no number for
// it.
func orImpossible(logP *float64) float64 {
	if logP == nil {
		return math.Inf(-1)
	}
	return *logP
}

// print prints the question as JSON, or each answer as a line of columns.
func (s *scoredQuestion) print(asJSON bool) error {
	if asJSON {
		return json.NewEncoder(stdout).Encode(s)
	}
	for i, a := range s.Answers {
		best := ""
		scatter := 0.0
		if i == s.Best && len(s.Answers) > 1 {
			best = "best"
		}
		if a.Error != nil {
			scatter = *a.Error
		}
		if err := printLine(fmt.Sprintf("%s\t%.4f\t%.4f\t%d\t%s\t%q", tableName(s.Name),
			orImpossible(a.LogProb), scatter, a.Tokens, best, a.Answer)); err != nil {
			return err
		}
	}
	return nil
}

// readQuestions reads lines of JSON. A question without a name has the number of its line.
func readQuestions(name string) (list []answerQuestion, err error) {
	lines, err := readLines(name)
	if err != nil {
		return nil, err
	}
	for i, line := range lines {
		q := answerQuestion{Name: fmt.Sprint(i + 1)}
		if err := jsonline.DecodeStrict([]byte(line), &q); err != nil {
			return nil, fmt.Errorf("line %d is %s, want an object with prompt or messages, and answer or "+
				"answers: %w", i+1, param.Quote(line), err)
		}
		switch {
		case q.Answer != "" && q.Answers != nil:
			return nil, fmt.Errorf("line %d has answer and answers, want one of them", i+1)
		case q.Prompt != "" && q.Messages != nil:
			return nil, fmt.Errorf("line %d has prompt and messages, want one of them", i+1)
		case q.Answer != "":
			q.Answers = []string{q.Answer}
		case len(q.Answers) == 0:
			return nil, fmt.Errorf("line %d has no answer, want answer or answers", i+1)
		}
		list = append(list, q)
	}
	return list, nil
}
