package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"unmask/cli/terminal"
	"unmask/decide"
	"unmask/internal/atomicfile"
	"unmask/internal/jsonline"
	"unmask/param"
)

// questionFlags are those of unmask decide.
type questionFlags struct {
	deviceFlags
	state       string // this and the four below are names of files, but for the question
	questions   []string
	inputs      string
	calibrate   string
	calibration string
	out         string
	options     []string
	levels      []string
	askOptions  decide.Options
	json        bool
}

// newDecide returns the command unmask decide.
func newDecide() *cobra.Command {
	var f questionFlags
	cmd := &cobra.Command{
		Use:   "decide",
		Short: "Answer typed questions in one pass each",
		Long: `Answer yes or no, one of some options, or a level of a scale, with probabilities. The options
are letters in a prompt that ends in one mask. A model that would write no letter there is asked again:
p is then that of an option as its whole answer. Laya, von and d1 have a head for such questions.

--question is about the text in --state, a file or - for standard input; --options makes it a choice,
--levels a scale. One line is printed for each option: p and its name, tab-separated, and the question
where there are several. A note says if the options together have little probability: the model would
answer in other words then.

A line of --inputs FILE.jsonl is a request of /v1/systemone, {"state": ..., "questions": {NAME:
{"type": "noul", "choice" or "score", "instructions": ..., "criteria": ...}}}, and may have a "name". A
line of the output has the answers by name.

--calibrate FILE.jsonl has such lines with "answers": {NAME: true, a label, or a level's number}. It
fits a temperature for each type, and writes it with log loss, Brier score, expected calibration
error and accuracy before and after to --out, for --calibration.`,
		Args: noArgs,
		Example: `  unmask decide --state mail.txt --question "Does the mail ask for money?"
  unmask decide --model DIR --state mail.txt --question "Which queue?" --options billing,sales,other
  unmask decide --model DIR --inputs mails.jsonl
  unmask decide --model DIR --calibrate known.jsonl --out calibration.json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context())
		},
	}
	f.register(cmd.Flags(), "demo")
	flag := cmd.Flags()
	flag.StringVar(&f.state, "state", "", "`FILE` that the question is about")
	flag.StringArrayVar(&f.questions, "question", nil,
		"a question, a `TEXT` about --state; may be repeated")
	flag.StringSliceVar(&f.options, "options", nil, "`LABELS` of a choice, separated by commas")
	flag.StringSliceVar(&f.levels, "levels", nil, "`LABELS` of a scale, the lowest first, separated by commas")
	flag.StringVar(&f.inputs, "inputs", "", "`FILE`.jsonl of states with questions")
	flag.StringVar(&f.calibrate, "calibrate", "", "`FILE`.jsonl of states, questions and right answers")
	flag.StringVar(&f.calibration, "calibration", "", "`FILE` that --calibrate wrote")
	flag.StringVar(&f.out, "out", "", "`FILE` for the result of --calibrate; by default standard output")
	flag.StringVar((*string)(&f.askOptions.Form), "by", "", "ask by letters of listed options, or by "+
		"whole answers: `letters` or answers; by default letters, and answers where those have "+
		"less than 10 % of the model's probability")
	flag.BoolVar(&f.json, "json", false, "print the answer to --question as JSON")
	return cmd
}

// checkFlags returns an error for flags that do not go together.
func (f *questionFlags) checkFlags() error {
	asks := len(f.questions) > 0
	sources := countTrue(asks, f.inputs != "", f.calibrate != "")
	switch {
	case sources != 1:
		return usagef("%d of --question, --inputs and --calibrate, want one of them", sources)
	case slices.Contains(f.questions, ""):
		return usagef("--question is empty, want a text")
	case asks && f.state == "":
		return usagef("--state is missing, want a FILE that --question is about")
	case f.askOptions.Form.Check() != nil:
		return flagMistake(f.askOptions.Form.Check())
	case f.options != nil && f.levels != nil:
		return usagef("--options and --levels together, want one of them")
	case !asks && (f.state != "" || f.options != nil || f.levels != nil || f.json):
		return usagef("--state, --options, --levels or --json without --question, want it with one")
	}
	return nil
}

// questionLine is a line of --inputs or --calibrate.
type questionLine struct {
	Name      string                     `json:"name,omitempty"`
	State     json.RawMessage            `json:"state"`
	Questions map[string]json.RawMessage `json:"questions"`
	Answers   map[string]json.RawMessage `json:"answers,omitempty"`
	Model     string                     `json:"model,omitempty"` // as clients send it; not used

	state     decide.State
	names     []string
	questions []decide.Question
	right     []int
}

// parse reads the parts of a line.
func (a *questionLine) parse(line string, answers bool) (err error) {
	if err := jsonline.DecodeStrict([]byte(line), a); err != nil {
		return err
	}
	a.state, err = decide.ReadState(a.State)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(a.Questions)) {
		q, err := decide.ReadQuestion(a.Questions[name])
		right := 0
		if err == nil && answers {
			right, err = q.RightOption(a.Answers[name])
		}
		if err != nil {
			return fmt.Errorf("question %s: %w", param.Quote(name), err)
		}
		a.names = append(a.names, name)
		a.questions = append(a.questions, q)
		a.right = append(a.right, right)
	}
	if len(a.questions) == 0 || !answers && a.Answers != nil {
		return fmt.Errorf("%d questions, with answers %v, want questions, and answers to calibrate alone",
			len(a.questions), a.Answers != nil)
	}
	return nil
}

// readInput returns what is asked.
func (f *questionFlags) readInput() (list []questionLine, err error) {
	if len(f.questions) > 0 {
		text, err := readWhole(f.state)
		line := questionLine{state: decide.State{Text: text}}
		for i, question := range f.questions {
			name := "question"
			if len(f.questions) > 1 {
				name = fmt.Sprintf("question-%d", i+1)
			}
			line.names = append(line.names, name)
			line.questions = append(line.questions, f.newQuestion(question))
		}
		return []questionLine{line}, wrapError("--state", err)
	}
	file := cmp.Or(f.inputs, f.calibrate)
	lines, err := readLines(file)
	if err != nil {
		return nil, wrapError(file, err)
	}
	for i, line := range lines {
		parsed := questionLine{}
		if err := parsed.parse(line, f.calibrate != ""); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", file, i+1, err)
		}
		list = append(list, parsed)
	}
	return list, nil
}

// newQuestion returns a question with the options of the flags.
func (f *questionFlags) newQuestion(text string) decide.Question {
	q := decide.Question{Kind: decide.Boolean, Instructions: text}
	for _, label := range slices.Concat(f.options, f.levels) {
		q.Options = append(q.Options, decide.Option{Label: label})
	}
	if f.options != nil {
		q.Kind = decide.Choice
	} else if f.levels != nil {
		q.Kind = decide.Score
	}
	return q
}

// run answers the questions of the flags, or calibrates by those whose answers are known.
func (f *questionFlags) run(ctx context.Context) error {
	if err := f.checkFlags(); err != nil {
		return err
	}
	lines, err := f.readInput()
	if err != nil {
		return err
	}
	if f.calibration != "" {
		f.askOptions.Calibration, err = decide.ReadCalibration(f.calibration)
		if err != nil {
			return wrapError("--calibration", err)
		}
	}
	if err := checkFile("--out", f.out); err != nil {
		return err
	}
	m, err := f.loadModel(ctx)
	if err != nil {
		return err
	}

	var labelled []decide.LabelledAnswer
	for _, line := range lines {
		answers, err := decide.Ask(ctx, m, line.state, line.questions, f.askOptions)
		if err != nil {
			return err
		}
		if f.calibrate == "" {
			if err := f.printAnswers(&line, answers); err != nil {
				return err
			}
			continue
		}
		for i := range answers {
			labelled = append(labelled, decide.LabelledAnswer{
				Kind:  line.questions[i].Kind,
				LogP:  answers[i].LogP,
				Right: line.right[i],
			})
		}
	}
	if f.calibrate == "" {
		return nil
	}
	return f.writeCalibration(decide.Calibrate(labelled))
}

// writeCalibration writes temperatures to --out, or to standard output.
func (f *questionFlags) writeCalibration(c decide.Calibration) error {
	logNotes(c.Note())
	data, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		return err
	}
	if f.out == "" {
		return printLine(string(data))
	}
	return printWritten(atomicfile.Put(f.out, append(data, '\n')), f.out)
}

// answeredState is the JSON of the answers to the questions about a state.
type answeredState struct {
	Name    string         `json:"name,omitempty"`
	Answers map[string]any `json:"answers"`
}

// printAnswers prints the answers of a line.
func (f *questionFlags) printAnswers(line *questionLine, answers []decide.Answer) error {
	if f.json || f.inputs != "" {
		out := map[string]any{}
		for i, name := range line.names {
			out[name] = answers[i].JSON(&line.questions[i])
		}
		return json.NewEncoder(stdout).Encode(answeredState{line.Name, out})
	}
	for i := range answers {
		end := ""
		if len(answers) > 1 {
			end = "\t" + tableName(line.questions[i].Instructions)
		}
		if err := f.printOptions(&line.questions[i], &answers[i], end); err != nil {
			return err
		}
	}
	return nil
}

// printOptions prints the options of a question, with end at the end of each line.
func (f *questionFlags) printOptions(q *decide.Question, a *decide.Answer, end string) error {
	logNotes(a.Notes...)
	if a.Form == decide.WholeAnswers && f.askOptions.Form == "" {
		terminal.Logf("note: asked by whole answers: letters have little of the model's probability")
	}
	if a.Mass < decide.MinMass {
		terminal.Logf("note: the model gives these options only %.2g %% of its probability: it would "+
			"answer in other words", 100*a.Mass)
	}
	for i, p := range a.P {
		name := []string{"false", "true"}[i%2]
		if q.Options != nil {
			name = q.Options[i].Label
		}
		if err := printLine(fmt.Sprintf("%.4f\t%s%s", p, tableName(name), end)); err != nil {
			return err
		}
	}
	return nil
}
