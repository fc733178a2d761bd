package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// A first visit says what this is, and runs something at once; later ones wait.
func TestFirstVisit(t *testing.T) {
	x := open(t, shared, "")
	x.until(`document.getElementById("status").textContent === "done"`)
	if !strings.Contains(x.text("#intro"), "masked diffusion") ||
		!strings.HasPrefix(x.text("#text"), "Once upon") {
		t.Errorf("the first visit shows %q and %q", x.text("#intro"), x.text("#text"))
	}
	if n := eval[int](x, `return document.querySelectorAll("#text.lively").length`); n != 0 {
		t.Error("a complete text has its colours, want it plain")
	}
}

// Modes that are seen for the first time play something, once, and not over what a link shows.
func TestFirstVisitOfModes(t *testing.T) {
	x := open(t, shared, "")
	x.until(`document.getElementById("status").textContent === "done"`)
	x.click("#modes [value=image]")
	x.until(`page.panels.image.source`)
	x.click("#modes [value=compare]")
	if got := x.text("#status"); strings.Contains(got, "done") {
		t.Errorf("the status of another mode stays: %q", got)
	}
	x.until(`document.getElementById("compare-note").textContent`)
	x.click("#modes [value=image]")
	if n := eval[int](x, `return document.getElementById("strip").children.length`); n != 1 {
		t.Errorf("%d pictures after another visit, want 1", n)
	}
	y := open(t, shared, "mode=image&seed=5")
	y.click("#modes [value=compare]")
	if eval[bool](y, `return document.body.classList.contains("busy")`) {
		t.Error("a link is followed by a run that nobody asked for")
	}
}

// A slider ahead of the run shows what has come, and an error does not go on to another mode.
func TestAheadOfTheRun(t *testing.T) {
	x := open(t, shared, "mode=text&steps=200&length=200&prompt=Once")
	x.click("#run")
	x.until(`page.panels.text.current?.trace?.last > 1`)
	eval[bool](x, `
		const r = document.querySelector("#text-time input");
		r.value = 190;
		r.dispatchEvent(new Event("input"));
		return true`)
	if n := eval[int](x, `return +document.querySelector("#text-time input").value - page.panels.text.timeline.goal`); n > 0 {
		t.Errorf("the slider is %d steps ahead of the run", n)
	}
	x.click("#modes [value=chat]")
	x.click("#cancel")
	x.click("#run")
	x.until(`document.querySelector("[aria-invalid]")`)
	x.click("#modes [value=text]")
	if eval[bool](x, `return !!document.querySelector("[aria-invalid], .error")`) {
		t.Error("the error of a message stays at the prompt")
	}
}

// A copied link has the drawn seed and the holes of a refill, and runs again.
func TestLinkIsARun(t *testing.T) {
	x := open(t, shared, "mode=text&steps=6&length=20&prompt=Once upon")
	x.generate()
	x.click("#text .p:nth-child(12)")
	x.click("#fill-run")
	x.until(`document.getElementById("status").textContent === "done" && page.panels.text.versions.length === 2`)
	link := copied(x, "text", "link")
	y := newTab(t)
	y.do(chromedp.Navigate(link), chromedp.WaitReady("body.ready"))
	y.until(`document.getElementById("status").textContent === "done"`)
	if got, want := y.text("#text"), x.text("#text"); got != want {
		t.Errorf("%s shows %q, want %q", link, got, want)
	}
	before := eval[string](x, `return page.panels.text.versions[0].answer.choices[0].text`)
	x.click("#text-undo")
	if got := x.text("#text"); !strings.HasSuffix(got, before) {
		t.Errorf("undo shows %q, want %q", got, before)
	}
	z := open(t, shared, "mode=text&model=none&sampler=nix&bias=3%3D1&run=1")
	if got := z.text("#notice-text"); !strings.Contains(got, "model none or sampler nix or bias 3=1") {
		t.Errorf("a link with an unknown model says %q", got)
	}
}

// Copied Python has the calls of OpenAI's package, and words such as null in a prompt stay.
func TestCopiedPython(t *testing.T) {
	x := open(t, shared,
		"mode=text&seed=18446744073709551615&steps=4&length=8&prompt=null and true")
	x.generate()
	got := copied(x, "text", "Python")
	for _, want := range []string{"client.completions.create(", `prompt="null and true"`,
		"max_tokens=8", `extra_body={"seed": 18446744073709551615, "steps": 4}`} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in %s", want, got)
		}
	}
}

// An error stands at the field that it is about, until that is changed.
func TestErrorAtItsField(t *testing.T) {
	x := open(t, shared, "mode=text&top-p=5&prompt=Once")
	x.click("#run")
	x.until(`document.activeElement.id === "set-top-p"`)
	if got := x.text("#set-top-p-error"); !strings.Contains(got, "top_p is 5, want") {
		t.Errorf("the field says %q", got)
	}
	x.do(chromedp.SendKeys("#set-top-p", "x"))
	x.until(`!document.querySelector("[aria-invalid]")`)
}

// A server that says nothing any more is noticed.
func TestSilence(t *testing.T) {
	x := open(t, shared, settings)
	eval[bool](x, `
		(await import("/page/api.js")).silence.most = 200;
		window.fetch = async () => new Response(new ReadableStream({ start() {} }));
		return true`)
	x.click("#run")
	x.until(`/stopped answering/.test(document.getElementById("notice-text").textContent)`)
}

// A text is plain when it is complete, also if its last step was shown before the answer came.
func TestPlainAtLast(t *testing.T) {
	x := open(t, shared, settings)
	eval[bool](x, `
		const event = (name, data) => new TextEncoder().encode("event: " + name + "\ndata: " + JSON.stringify(data) + "\n\n");
		window.fetch = async () => new Response(new ReadableStream({ start(to) {
			to.enqueue(event("start", { trace: 1, model: "m", sampler: "s", seed: 5, shape: [1], hole: "▯", known: [] }));
			to.enqueue(event("step", { sample: 0, step: 1, steps: 1, done: true, opened: [{ position: 0, token: 1, piece: "a" }] }));
			window.answer = () => { to.enqueue(event("done", { choices: [{ text: "a" }], unmask: {} })); to.close(); };
		} }));
		return true`)
	x.click("#run")
	x.until(`document.querySelectorAll("#text.lively .open").length === 1`)
	eval[bool](x, "answer(); return true")
	x.until(`document.getElementById("status").textContent === "done"`)
	if n := eval[int](x, `return document.querySelectorAll("#text.lively").length`); n != 0 {
		t.Error("a complete text has its colours, want it plain")
	}
}

// A server whose models have no panel says so.
func TestNoPanel(t *testing.T) {
	s, err := serve("127.0.0.1:0", "--model", "../../testdata/packs/embed-bert-tiny")
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	x := newTab(t)
	x.do(chromedp.Navigate(s.url))
	x.until(`/None of the served models has a panel/.test(document.getElementById("notice-text").textContent)`)
}
