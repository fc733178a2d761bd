package cli

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"unmask"
	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/generate"
	"unmask/internal/atomicfile"
	"unmask/internal/textfile"
	"unmask/kvcache"
	"unmask/param"
	"unmask/prompt"
	"unmask/tokenizers"
	"unmask/tokenizers/chat"
)

// chatFlags are those of unmask chat.
type chatFlags struct {
	deviceFlags
	samplingFlags
	maxTokens int
	system    string
	variables flags.Variables
	keepGB    float64
	watch     bool
	plain     bool
}

// newChat returns the command unmask chat.
func newChat() *cobra.Command {
	f := &chatFlags{}
	cmd := &cobra.Command{
		Use:   "chat [MODEL]",
		Short: "Talk with a model in the terminal",
		Long: `Talk with a model that has a chat template; without MODEL, with the built-in demo-chat.

On a terminal an answer grows from the left as it settles; behind that stands, dim, what may still
change. --watch shows all of its positions while they open.

Each line is a message. A line that ends with \ continues on the next one. Pasted lines are one
message, which Enter sends. The arrow keys bring back earlier messages, in which ↵ marks the end of a
line.

Ctrl-C stops an answer; the part that is final stays in the conversation. At the prompt, Ctrl-C removes
what you typed. On an empty line Ctrl-D, or Ctrl-C twice, ends the conversation.

When the conversation outgrows the model, its oldest turns are no longer sent. The editor counts one
column for each character, so wide ones, such as Chinese, may be shown in the wrong place while you edit.

` + formatChatHelp(0),
		Args: cobra.MaximumNArgs(1),
		Example: `  unmask chat                                   the demo, which tells small stories
  unmask chat GSAI-ML/LLaDA-8B-Instruct --precision int8
  unmask chat DIR --system "Answer in one sentence." --max-tokens 64
  echo "What is Rome?" | unmask chat DIR          one answer for each line`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				f.model = args[0]
			}
			return f.run(cmd.Context(), cmd)
		},
	}
	f.deviceFlags.register(cmd.Flags(), "demo")
	f.samplingFlags.registerRecipe(cmd.Flags())
	addSeedFlag(cmd.Flags(), &f.seed, "seed of the first answer; each later one has the next")
	flags.MaxTokens(cmd.Flags(), &f.maxTokens)
	cmd.Flags().StringVar(&f.system, "system", "", "the system message")
	f.variables.Register(cmd.Flags())
	addKeepFlag(cmd.Flags(), &f.keepGB, "answers")
	cmd.Flags().BoolVar(&f.watch, "watch", false,
		"show all positions of an answer while they open, on a terminal")
	cmd.Flags().BoolVar(&f.plain, "plain", false,
		"print each answer when it is done, not wrapped, and redraw nothing")
	cmd.MarkFlagsMutuallyExclusive("watch", "plain")
	return cmd
}

// chatCommands are the lines that begin with / in a conversation, with what they do.
var chatCommands = [][2]string{
	{"/system TEXT", "set the system message; without TEXT, remove it"},
	{"/seed N", "set the seed of the next answer"},
	{"/sampler RULE", "set the sampler, such as semi-ar(hybrid); without RULE, the model's own"},
	{"/again", "answer the last message again, with the next seed"},
	{"/new", "start a new conversation"},
	{"/save FILE", "save the conversation as JSON, for --messages and /load"},
	{"/load FILE", "continue a saved conversation"},
	{"/quit", "end"},
}

// formatChatHelp lists the commands of a conversation in lines of at most so many columns, 0 for no
// bound.
func formatChatHelp(columns int) string {
	const indent = 17 // of what a command does
	var lines []string
	for _, command := range chatCommands {
		what := command[1]
		if columns > 2*indent {
			what = wrapParagraphs(what, columns-indent)
		}
		what = strings.ReplaceAll(what, "\n", "\n"+strings.Repeat(" ", indent))
		lines = append(lines, fmt.Sprintf("  %-*s%s", indent-2, command[0], what))
	}
	return strings.Join(lines, "\n")
}

// conversation is a chat in a terminal.
type conversation struct {
	model     *unmask.Model
	template  *chat.Model
	overrides generate.Overrides
	variables prompt.Variables
	maxTokens int
	seed      uint64
	system    string
	messages  []chat.Message

	// store keeps keys and values of what was said, so that a turn computes only what is new.
	store *kvcache.Store

	// dropped counts the oldest messages that are no longer sent, for want of room.
	dropped int

	out io.Writer

	// columns returns the width of the terminal; nil where answers are printed when they are done, not
	// wrapped.
	columns func() int

	// plain shows no progress.
	plain bool

	// watcher is nil without --watch.
	watcher *terminal.Watcher

	// interrupts receives when the user stops an answer.
	interrupts <-chan struct{}
}

// run loads the model and answers messages: with an editor on a terminal, and otherwise line by
// line, so that scripts can talk too.
func (f *chatFlags) run(ctx context.Context, cmd *cobra.Command) error {
	overrides, err := f.readOverrides(cmd.Flags())
	if err != nil {
		return err
	}
	variables, err := f.variables.Values()
	if err != nil {
		return err
	}
	f.replaceDemo(demoChat)
	m, err := f.loadText(ctx)
	if err != nil {
		return err
	}
	c := &conversation{
		model:     m,
		overrides: overrides,
		variables: variables,
		maxTokens: f.maxTokens,
		seed:      f.seed,
		system:    f.system,
		out:       stdout,
		plain:     f.plain,
		store:     kvcache.NewStore(int64(f.keepGB * 1e9)),
	}
	c.template, err = m.Chat()
	if err != nil {
		return wrapError("--model "+f.model, err)
	}
	if f.system != "" && !c.template.WritesSystem() {
		return usagef("--system: the model's template leaves system messages out")
	}
	if f.watch && !terminal.CanRedraw(os.Stderr) {
		return usagef("--watch needs a terminal on standard error")
	} else if f.watch {
		c.watcher = terminal.NewWatcher(m, os.Stderr)
	}
	// The editor draws on standard error, so that standard output has the answers alone and can go to
	// a file. Without both ends of a terminal there is nobody to edit.
	if !term.IsTerminal(int(os.Stdin.Fd())) || !terminal.CanRedraw(os.Stderr) {
		lines := bufio.NewScanner(textfile.NewReader(terminal.Stdin{Context: ctx}))
		lines.Buffer(nil, tokenizers.MaxText)
		return c.answerPipe(ctx, func() (string, error) { return readMessage(lines) })
	}
	c.interrupts = terminal.NotifyInterrupts(ctx)
	if term.IsTerminal(int(os.Stdout.Fd())) && !f.plain {
		c.columns = func() int { return terminalColumns(os.Stdout) }
	}
	terminal.LogWrappedf("%s. /help lists the commands, Ctrl-C stops an answer, Ctrl-D ends.",
		f.model)
	if !cmd.Flags().Changed("seed") {
		terminal.LogWrappedf("The first answer has seed 0, as always without --seed; /seed N sets " +
			"another.")
	}
	_, err = c.answerMessages(ctx, terminal.NewLineEditor(ctx, "> ").ReadMessage)
	return err
}

// answerPipe answers the messages of a pipe. A script sees by the exit status that some message had
// no answer.
func (c *conversation) answerPipe(ctx context.Context, read func() (string, error)) error {
	failed, err := c.answerMessages(ctx, read)
	if err == nil && failed > 0 {
		err = fmt.Errorf("%s of standard input failed, see above",
			terminal.FormatCount(failed, "line"))
	}
	return err
}

// answerMessages answers messages until there are no more. An error of one message, such as an
// unknown command, is printed and does not end the conversation; failed counts these.
func (c *conversation) answerMessages(ctx context.Context,
	read func() (string, error)) (failed int, _ error) {
	for ctx.Err() == nil {
		message, err := read()
		command, argument, _ := strings.Cut(strings.TrimSpace(message), " ")
		switch {
		case err == io.EOF || ctx.Err() != nil || command == "/quit":
			return failed, ctx.Err()
		case err != nil:
			return failed, wrapError("standard input", err)
		case command == "": // a line of blanks
		case strings.HasPrefix(command, "/"):
			err = c.runCommand(ctx, command, strings.TrimSpace(argument))
		default:
			err = c.askMessage(ctx, c.messages, message)
		}
		if err != nil && ctx.Err() == nil {
			terminal.Log(errorLine(err))
			failed++
		}
	}
	return failed, ctx.Err()
}

// readMessage reads lines as long as they end with a backslash. The input may end after one: what
// was read is the message then.
func readMessage(lines *bufio.Scanner) (message string, err error) {
	for lines.Scan() {
		line, continues := strings.CutSuffix(lines.Text(), `\`)
		message += line
		if !continues {
			return message, nil
		}
		message += "\n"
	}
	if message != "" && lines.Err() == nil {
		return strings.TrimSuffix(message, "\n"), nil
	}
	return "", cmp.Or(lines.Err(), io.EOF)
}

// runCommand does what a line that begins with / asks for.
func (c *conversation) runCommand(ctx context.Context, name, argument string) error {
	switch name {
	case "/help":
		terminal.Log(formatChatHelp(terminalColumns(os.Stderr)))
	case "/new":
		c.messages = nil
		c.dropped = 0
	case "/save":
		return c.saveFile(argument)
	case "/load":
		return c.loadFile(argument)
	case "/system":
		if argument != "" && !c.template.WritesSystem() {
			return errors.New("the model's template leaves system messages out")
		}
		c.system = argument
	case "/seed":
		seed, err := strconv.ParseUint(argument, 10, 64)
		if err != nil {
			return &param.Error{
				Name:  "/seed",
				Found: param.Quote(argument),
				Want:  "a whole number, 0 to 18446744073709551615",
			}
		}
		c.seed = seed
	case "/sampler":
		// Alpha and gamma of the command line belong to the sampler before.
		next := maps.Clone(c.overrides)
		for _, name := range []string{"sampler", "alpha", "gamma"} {
			delete(next, name)
		}
		if argument != "" {
			next["sampler"] = argument
		}
		if err := next.Check(); err != nil {
			return err
		}
		c.overrides = next
	case "/again":
		i := len(c.messages) - 1 // to the user's last message
		for i >= 0 && c.messages[i].Role != "user" {
			i--
		}
		if i < 0 {
			return errors.New("there is no answer yet")
		}
		return c.askMessage(ctx, c.messages[:i], c.messages[i].Content)
	default:
		return fmt.Errorf("unknown command %s, /help lists them", param.Quote(name))
	}
	return nil
}

// saveFile writes the conversation to a file.
func (c *conversation) saveFile(name string) error {
	if name == "" {
		return errors.New("/save has no file, want /save FILE")
	}
	data, _ := json.MarshalIndent(c.withSystem(c.messages), "", " ") // of texts, which never fails
	return atomicfile.Put(name, append(data, '\n'))
}

// loadFile replaces the conversation by one in a file. After an error it stays as it is.
func (c *conversation) loadFile(name string) error {
	data, err := atomicfile.ReadSmall(name, tokenizers.MaxText)
	if err != nil {
		return err
	}
	var messages []chat.Message
	err = json.Unmarshal(data, &messages)
	if err == nil {
		err = c.template.Template.CheckMessages(data)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}

	c.system = ""
	c.dropped = 0
	if len(messages) > 0 && messages[0].Role == "system" {
		c.system = messages[0].Content
		messages = messages[1:]
	}
	c.messages = messages
	terminal.Log(terminal.FormatCount(len(messages), "message"))
	return nil
}

// withSystem returns messages after the system's.
func (c *conversation) withSystem(messages []chat.Message) []chat.Message {
	if c.system == "" {
		return messages
	}
	return append([]chat.Message{{Role: "system", Content: c.system}}, messages...)
}

// askMessage answers a message after others. Without an answer the conversation stays as it is.
func (c *conversation) askMessage(ctx context.Context, history []chat.Message,
	message string) error {
	messages := append(slices.Clone(history), chat.Message{Role: "user", Content: message})
	request := unmask.Request{
		Variables: c.variables,
		Overrides: c.overrides,
		MaxTokens: c.maxTokens,
		Seed:      c.seed,
	}
	prepared, err := c.prepareRequest(ctx, &request, messages)
	if err != nil {
		return err
	}
	c.seed++ // also for /again, which with the same seed would give the same answer
	answer, stopped, err := c.generateAnswer(ctx, prepared, c.model.AnswerOf(&request, &prepared))
	switch {
	case err != nil:
	case stopped && len(messages) < len(c.messages):
		terminal.LogWrappedf("the previous answer is kept")
	case strings.TrimSpace(answer) == "":
		terminal.LogWrappedf("the answer is empty: rephrase the question, or start again with /new")
	default:
		c.messages = append(messages, chat.Message{Role: "assistant", Content: answer})
	}
	return err
}

// prepareRequest prepares a request, without the oldest turns if there is no room for them.
func (c *conversation) prepareRequest(ctx context.Context, r *unmask.Request,
	messages []chat.Message) (generate.Request, error) {
	// A message and its answer leave together: most templates refuse a conversation that begins with
	// an answer. What has left stays away, or the store's keys and values would be of no use.
	c.dropped = min(c.dropped, len(messages)-1)
	for droppedBefore := c.dropped; ; c.dropped += 2 {
		data, err := chat.MessagesJSON(c.withSystem(messages[c.dropped:]))
		if err != nil {
			return generate.Request{}, err
		}
		r.Messages = data
		q, err := c.model.Prepare(ctx, *r)
		var refused *param.Error
		if errors.As(err, &refused) && refused.Reason == param.TooLong && len(messages) > c.dropped+2 {
			continue
		}
		if err == nil && c.dropped > droppedBefore {
			terminal.LogWrappedf("the oldest %d messages are no longer sent: the model has no room for "+
				"them", c.dropped)
		}
		return q, err
	}
}

// generateAnswer generates and prints an answer or, after an interrupt, the part of it that is
// final.
func (c *conversation) generateAnswer(parent context.Context, r generate.Request,
	view *unmask.Answer) (text string, stopped bool, err error) {
	ctx, cancel := context.WithCancel(parent)
	defer cancel()
	select {
	case <-c.interrupts: // of the time between two answers
	default:
	}
	go func() { // Ctrl-C ends this answer and not the conversation
		select {
		case <-c.interrupts:
			cancel()
		case <-ctx.Done():
		}
	}()
	cut := false
	display := c.newDisplay(view)
	for step, failed := range generate.Each(ctx, c.model.Denoiser, generate.PoolOptions{
		Size:  1,
		Store: c.store,
	}, slices.Values([]generate.Request{r})) {
		err = failed
		if err != nil {
			break
		}
		// Text has what is final, which stays if the user stops the answer.
		rendered := view.Render(step.Sequences[0].Tokens)
		if step.Sequences[0].Done {
			text = rendered.Text
			cut = rendered.Finish == "length"
		} else {
			text = view.Settled(step.Sequences[0].Tokens, step.Sequences[0].Settled)
		}
		display.draw(step, text, rendered.Text)
	}
	display.clear()
	stopped = parent.Err() == nil && errors.Is(err, context.Canceled)
	if err != nil && !stopped {
		display.abandon()
		return "", false, err
	}
	err = display.print(c.out, text)
	if stopped {
		terminal.Logf("stopped")
	}
	if cut {
		terminal.LogWrappedf("stopped after %s: --max-tokens allows longer answers",
			terminal.FormatCount(view.To-view.From, "token"))
	}
	return text, stopped, err
}

// answerDisplay shows an answer while it is made. One of its ways is not nil, or with --plain none.
type answerDisplay struct {
	watcher  *terminal.Watcher
	growing  *terminal.GrowingText
	progress *terminal.LazyProgress
}

// newDisplay returns the display of an answer.
func (c *conversation) newDisplay(view *unmask.Answer) answerDisplay {
	var d answerDisplay
	switch {
	case c.watcher != nil:
		d.watcher = c.watcher
		d.watcher.SetAnswer(view)
	case c.columns != nil && c.columns() > 0: // 0 is not known
		d.growing = terminal.NewGrowingText(os.Stdout, c.columns())
	case !c.plain:
		d.progress = &terminal.LazyProgress{Label: "steps"}
	}
	return d
}

// draw shows what has settled of a text after a step, and the whole text as it is for now.
func (d answerDisplay) draw(step *generate.Step, settled, whole string) {
	switch {
	case d.watcher != nil:
		d.watcher.Draw(step)
	case d.growing != nil:
		unsettled, _ := strings.CutPrefix(whole, settled)
		d.growing.Draw(settled, unsettled, step.N, step.Steps)
	case d.progress != nil:
		d.progress.Set(step.N, step.Steps)
	}
}

// clear removes what is not a part of the answer.
func (d answerDisplay) clear() {
	switch {
	case d.watcher != nil:
		d.watcher.Clear()
	case d.progress != nil:
		d.progress.Close()
	}
}

// abandon ends the line of an answer that failed.
func (d answerDisplay) abandon() {
	if d.growing != nil {
		d.growing.Abandon()
	}
}

// print shows the whole answer.
func (d answerDisplay) print(out io.Writer, text string) error {
	if d.growing != nil {
		return d.growing.Close(text)
	}
	_, err := fmt.Fprintln(out, text)
	return err
}
