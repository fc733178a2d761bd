package browser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

const settings = "mode=text&seed=5&steps=12&length=60&prompt=Once upon"

func TestFirstLoad(t *testing.T) {
	x := open(t, shared, "")
	x.generate()
	if said := x.heard(); len(said) > 0 {
		t.Errorf("the console has %s", said)
	}
	for _, url := range x.requests() {
		if !strings.HasPrefix(url, shared+"/") && !strings.HasPrefix(url, "blob:"+shared) {
			t.Errorf("the page asks %s", url)
		}
	}
	r, err := http.Get(shared + "/")
	x.ok(err)
	defer r.Body.Close()
	policy := r.Header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") {
		t.Errorf("policy is %q", policy)
	}
	if eval[int](x, "return document.fonts.size") != 0 {
		t.Error("the page brings a font, want those of the system")
	}
}

// header is the first line of a trace.
type header struct {
	Shape []int
	Known []piece
}

// step is a line of a trace.
type step struct {
	Opened  []piece
	Closed  []int
	Resized []struct{ Position, Into int }
	Steps   int
}

// piece is an open position.
type piece struct {
	Position int
	Piece    string
	P        *float64
}

// after adds a step to the positions that are open: some samplers mask positions again.
func (s step) after(open []int) []int {
	for _, o := range s.Opened {
		open = append(open, o.Position)
	}
	slices.Sort(open)
	return slices.DeleteFunc(slices.Compact(open), func(at int) bool {
		return slices.Contains(s.Closed, at)
	})
}

// trace asks a server itself for the first line of a run's trace and its steps.
func trace(x *tab, url, body string) (first header, steps []step) {
	r, err := http.Post(url, "application/json", strings.NewReader(body))
	x.ok(err)
	defer r.Body.Close()
	in := bufio.NewScanner(r.Body)
	in.Buffer(nil, 1<<22)
	for event := ""; in.Scan(); {
		name, ok := strings.CutPrefix(in.Text(), "event: ")
		if ok {
			event = name
			continue
		}
		data, ok := strings.CutPrefix(in.Text(), "data: ")
		switch {
		case ok && event == "start":
			x.ok(json.Unmarshal([]byte(data), &first))
		case ok && event == "step":
			var s step
			x.ok(json.Unmarshal([]byte(data), &s))
			steps = append(steps, s)
		}
	}
	return first, steps
}

const sameRun = `{"model":"demo","prompt":"Once upon","seed":5,"steps":12,"max_tokens":60,"stream":"events"}`

// openAt is JavaScript for the positions that are open.
const openAt = `[...document.querySelectorAll("#text .p")].filter((s) => s.matches(".open")).map((s) => s.at)`

func TestOpensInOrder(t *testing.T) {
	x := open(t, shared, settings)
	eval[bool](x, `
		window.seen = [];
		new MutationObserver(() => {
			const now = `+openAt+`.join();
			if (now !== seen.at(-1)) seen.push(now);
		}).observe(document.getElementById("text"), { subtree: true, childList: true, attributes: true });
		return true`)
	x.generate()
	if holes := eval[int](x, `return document.querySelectorAll("#text .hole").length`); holes != 0 {
		t.Errorf("%d holes are left", holes)
	}
	var open []int
	states := map[string]int{"": 0}
	_, steps := trace(x, shared+"/v1/completions", sameRun)
	for n, s := range steps {
		open = s.after(open)
		states[join(open)] = n + 1
	}
	last := -1
	seen := eval[[]string](x, "return seen")
	for _, state := range seen {
		n, ok := states[state]
		if !ok || n < last {
			t.Fatalf("state after step %d shows %s", last, state)
		}
		last = n
	}
	if last != len(steps) || len(seen) < 8 {
		t.Errorf("%d states are seen, the last is step %d of %d", len(seen), last, len(steps))
	}
}

func join(list []int) string {
	text, _ := json.Marshal(list)
	return strings.Trim(string(text), "[]")
}

func TestFinalText(t *testing.T) {
	x := open(t, shared, settings)
	x.generate()
	length := eval[int](x, `return document.querySelectorAll("#text .p").length`) - 1 // a text's first token
	want := command(t, "text", "--prompt", "Once upon", "--seed", "5", "--steps", "12", "--length",
		join([]int{length}))
	if got := x.text("#text"); got+"\n" != want {
		t.Errorf("the page has %q, the command %q", got, want)
	}
}

func TestScrub(t *testing.T) {
	x := open(t, shared, settings)
	x.generate()
	_, steps := trace(x, shared+"/v1/completions", sameRun)
	scrub := func(k int) string {
		return eval[string](x, `
			const r = document.querySelector("#text-time input");
			r.value = %d;
			r.dispatchEvent(new Event("input"));
			return `+openAt+`.join()`, k)
	}
	var open []int
	for k, s := range steps {
		open = s.after(open)
		if got := scrub(k + 1); got != join(open) {
			t.Fatalf("after step %d of %d %s are open, want %s", k+1, len(steps), got, join(open))
		}
	}
	if got := scrub(0); got != "" {
		t.Errorf("before the first step %s are open", got)
	}

	// The same step is the same DOM, from whichever side one comes to it.
	eval[bool](x, "window.states = []; return true")
	for k := range len(steps) + 1 {
		scrub(k)
		eval[bool](x, `states.push(document.getElementById("text").cloneNode(true)); return true`)
	}
	for k := len(steps); k >= 0; k-- {
		scrub(k)
		if !eval[bool](x, `return states[%d].isEqualNode(document.getElementById("text"))`, k) {
			t.Fatalf("step %d is another on the way back", k)
		}
	}
}

// Clicked pieces are the only nulls of the request, and the only ones that change.
func TestHoles(t *testing.T) {
	x := open(t, shared, settings)
	x.generate()
	eval[bool](x, `
		const real = window.fetch;
		window.fetch = (path, init) => { window.sent = init?.body; return real(path, init); };
		return true`)
	tokens := eval[[]int](x, "return page.panels.text.current.trace.tokens()")
	chosen := []int{20, 21, 33}
	for _, i := range chosen {
		x.click("#text .p:nth-child(" + join([]int{i + 1}) + ")")
	}
	if got := x.text("#fill-count"); !strings.HasPrefix(got, "3 pieces") {
		t.Errorf("it says %q", got)
	}
	x.click("#fill-run")
	x.finish()
	var body struct{ Tokens []*int }
	x.ok(json.Unmarshal([]byte(eval[string](x, "return sent")), &body))
	after := eval[[]int](x, "return page.panels.text.current.trace.tokens()")
	if len(body.Tokens) != len(tokens) || len(after) != len(tokens) {
		t.Fatalf("%d tokens are sent and %d come back, want %d", len(body.Tokens), len(after), len(tokens))
	}
	for i, token := range body.Tokens {
		switch hole := slices.Contains(chosen, i); {
		case hole != (token == nil), !hole && *token != tokens[i]:
			t.Errorf("token %d is sent as %v", i, token)
		case !hole && after[i] != tokens[i]:
			t.Errorf("token %d was kept but changes", i)
		}
	}
	known := eval[int](x, `return document.querySelectorAll("#text .known").length`)
	if known != len(tokens)-3 {
		t.Errorf("%d pieces show as given, want %d", known, len(tokens)-3)
	}
}

func TestCompare(t *testing.T) {
	narrow := open(t, shared, aPair, chromedp.EmulateViewport(390, 844))
	narrow.generate()
	if below := eval[float64](narrow, `
		return document.getElementById("compare-time").getBoundingClientRect().bottom - innerHeight`); below > 0 {
		t.Errorf("the slider ends %g pixels below a telephone's screen", below)
	}

	x := open(t, shared,
		"mode=compare&seed=5&steps=12&length=60&prompt=Once upon&sampler=moment&other=halton")
	x.generate()
	for i, sampler := range []string{"moment", "halton"} {
		want := command(t, "text", "--prompt", "Once upon", "--seed", "5", "--steps", "12",
			"--length", "62", "--sampler", sampler)
		got := eval[string](x, `return document.querySelectorAll("#pair .text")[%d].textContent`, i)
		if got+"\n" != want {
			t.Errorf("%s has %q, the command %q", sampler, got, want)
		}
	}
	streams := 0
	for _, url := range x.requests() {
		if strings.HasSuffix(url, "/v1/completions") {
			streams++
		}
	}
	if streams != 2 {
		t.Errorf("%d streams show two samplers, want 2", streams)
	}
	if n := eval[int](x, `return document.querySelectorAll("[data-panel=compare] input[type=range]").length`); n != 1 {
		t.Errorf("there are %d sliders, want one", n)
	}
	open := eval[[]int](x, `
		page.panels.compare.timeline.set(50);
		return [...document.querySelectorAll("#pair .text")].map((t) => t.querySelectorAll(".open").length)`)
	for _, n := range open {
		if n < 30 || n > 36 {
			t.Errorf("at half %v of 60 are open", open)
		}
	}
	differ := eval[int](x, `return document.querySelectorAll("#pair .text:first-of-type .differs").length`)
	if !strings.Contains(x.text("#compare-note"), "words and") || differ == 0 {
		t.Errorf("%d pieces are marked, it says %q", differ, x.text("#compare-note"))
	}
}

// copied returns what a button copies.
func copied(x *tab, panel, what string) string {
	x.Helper()
	eval[bool](x, "navigator.clipboard.writeText = async (text) => { window.copied = text; }; return true")
	x.click("#" + panel + "-actions [aria-label='Copy " + what + "']")
	return eval[string](x, "return copied")
}

// shell runs a line in a shell, with unmask in the path.
func shell(t *testing.T, line string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", line)
	path := "PATH=" + filepath.Dir(program) + ":/usr/bin:/bin"
	cmd.Env = append(cmd.Environ(), path, "UNMASK_KEY=secret")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v: %s", line, err, stderr.String())
	}
	return string(out)
}

func TestCopied(t *testing.T) {
	for _, fragment := range []string{settings,
		"mode=text&seed=18446744073709551615&length=40&temperature=0.8&top-p=0.9&prompt=it's+so%0A$HOME;&sampler=moment(alpha=3)",
		"mode=text&seed=9&steps=6&prompt=Lily had [12] in the park&cache=0&schedule=cosine"} {
		t.Run("", func(t *testing.T) {
			x := open(t, shared, fragment)
			x.generate()
			text := x.text("#text")
			if got := copied(x, "text", "text"); got != text {
				t.Errorf("copied text is %q, want %q", got, text)
			}
			line := copied(x, "text", "command")
			if got := shell(t, line); got != text+"\n" {
				t.Errorf("%s prints %q, want %q", line, got, text)
			}
			line = copied(x, "text", "curl")
			if _, err := exec.LookPath("curl"); err != nil {
				t.Skip("there is no curl")
			}
			var answer struct{ Choices []struct{ Text string } }
			x.ok(json.Unmarshal([]byte(shell(t, line)), &answer))
			if len(answer.Choices) != 1 || answer.Choices[0].Text != text {
				t.Errorf("%s answers %v, want %q", line, answer, text)
			}
		})
	}
}

func TestLink(t *testing.T) {
	x := open(t, shared, "mode=compare&seed=7700000077&steps=9&length=30&temperature=0.7&cache=0&"+
		"prompt=a+b%26c&sampler=semi-ar(hybrid,block=8)&other=threshold(theta=0.5)")
	link := eval[string](x, "return location.href")
	fragment := link[strings.Index(link, "#")+1:]
	y := open(t, shared, fragment)
	state := `const v = {};
		for (const i of document.querySelectorAll("#settings input, #settings select, #prompt")) v[i.id] = i.value;
		return JSON.stringify(v)`
	want, got := eval[string](x, "%s", state), eval[string](y, "%s", state)
	if got != want {
		t.Errorf("the link gives %s, want %s", got, want)
	}
	for _, part := range []string{`"set-seed":"7700000077"`, `"set-temperature":"0.7"`,
		`"prompt":"a b&c"`, `"sampler-block":"8"`, `"sampler-inside":"hybrid"`, `"other-theta":"0.5"`} {
		if !strings.Contains(got, part) {
			t.Errorf("%s is not in %s", part, got)
		}
	}
	for _, url := range append(x.requests(), y.requests()...) {
		if strings.Contains(url, "7700000077") && !strings.Contains(url, "#") {
			t.Errorf("%s has the settings", url)
		}
	}
	x.do(chromedp.Click("#modes [value=text]", chromedp.NodeVisible))
	if got := eval[string](x, "return location.hash"); !strings.Contains(got, "mode=text") {
		t.Errorf("the address is %s", got)
	}
}

// A model that writes markup is shown as text.
func TestMarkup(t *testing.T) {
	x := open(t, shared, settings)
	eval[bool](x, `
		window.hurt = false;
		const lines = [["start", { trace: 1, model: "m", sampler: "s", seed: 5, shape: [3], hole: "▯", known: [] }],
			["step", { sample: 0, step: 1, steps: 1, done: true, opened: [0, 1, 2].map((position) =>
				({ position, token: position, piece: "<img src=x onerror='hurt=true'>", p: 0.5 })) }],
			["done", { choices: [{ text: "" }], unmask: { sampler: "<b>s</b>" } }]];
		window.fetch = async () => new Response(lines.map(([e, d]) => "event: " + e + "\ndata: " + JSON.stringify(d) + "\n\n").join(""));
		return true`)
	x.generate()
	if n := eval[int](x, `return document.querySelectorAll("#text img, dd b").length`); n != 0 {
		t.Errorf("%d elements come from the model", n)
	}
	if got := x.text("#text"); strings.Count(got, "<img src=x onerror='hurt=true'>") != 3 {
		t.Errorf("the text is %q", got)
	}
	if eval[bool](x, "return hurt") {
		t.Error("the model's script ran")
	}
}

func TestTwoTabs(t *testing.T) {
	a := open(t, shared, settings)
	b := open(t, shared, strings.Replace(settings, "seed=5", "seed=6", 1))
	a.click("#run")
	b.click("#run")
	a.finish()
	b.finish()
	want := [2]string{}
	for i, seed := range []string{"5", "6"} {
		want[i] = command(t, "text", "--prompt", "Once upon", "--seed", seed, "--steps", "12",
			"--length", "62")
	}
	if a.text("#text")+"\n" != want[0] || b.text("#text")+"\n" != want[1] {
		t.Errorf("the tabs have %q and %q", a.text("#text"), b.text("#text"))
	}
}
