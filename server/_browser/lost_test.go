package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// slowly is a conversation whose answers take long enough to be disturbed.
const slowly = "mode=chat&model=demo-chat&seed=4&steps=120&length=120&sampler=info-gain&cache=0"

// field returns what stands in the field of the next message.
func field(x *tab) string {
	return eval[string](x, `return document.getElementById("prompt").value.trim()`)
}

// reload loads the page again, with the address that it has.
func (x *tab) reload() {
	x.Helper()
	x.do(chromedp.Reload(), chromedp.WaitReady("body.ready"))
}

// An answer that is made again and stopped leaves the one before, and so does a deletion that is
// taken back while an answer opens.
func TestAgainThenStop(t *testing.T) {
	x := open(t, shared, slowly, early(`if (!localStorage["unmask-chats"]) `+keeps("one")))
	opens := func() { x.until(`document.getElementById("status").textContent === "opening"`) }
	versions := `
		const [c] = JSON.parse(localStorage["unmask-chats"]), all = [c, ...c.branches[1]?.list || []].filter(Boolean);
		return all.map((v) => v.messages.at(-1).content)`
	x.click("#turns .bubble:last-child .acts button:last-child") // Regenerate
	opens()
	x.click("#cancel")
	x.until(`document.getElementById("status").textContent === "stopped"`)
	if got := eval[[]string](x, versions); !strings.Contains(strings.Join(got, "|"), "Yes.") {
		t.Errorf("after a stop there are %q", got)
	}
	x.click("#turns .bubble:last-child .acts button:last-child")
	opens()
	x.click("#chat-delete")
	x.click("#chat-undo")
	if got := eval[[]string](x, versions); !strings.Contains(strings.Join(got, "|"), "Yes.") {
		t.Errorf("after a deletion that was taken back there are %q", got)
	}
	x.do(chromedp.SendKeys("#prompt", "And then?\r"))
	opens()
	x.click("#chat-delete")
	x.click("#chat-undo")
	if got := field(x); got != "And then?" {
		t.Errorf("the message is %q", got)
	}
}

// A conversation that goes on in another tab while its answer opens here loses neither.
func TestTabsAtOnce(t *testing.T) {
	x := open(t, shared, slowly, early(`if (!localStorage["unmask-chats"]) `+keeps("one")))
	y := x.beside(shared, "mode=chat&model=demo-chat&seed=4&steps=4&length=20")
	x.do(chromedp.SendKeys("#prompt", "Left?\r"))
	x.until(`document.getElementById("status").textContent === "opening"`)
	say(y, "Right?")
	x.until(`page.panels.chat.messages.length === 4 && !document.body.classList.contains("busy")`)
	for _, tab := range []*tab{x, y} {
		tab.until(`page.panels.chat.kept.all.length === 2`)
		got := eval[string](tab, `
			return page.panels.chat.kept.all.map((c) => c.messages.map((m) => m.content).join()).join("|")`)
		if !strings.Contains(got, "one,Yes.,Left?") || !strings.Contains(got, "one,Yes.,Right?") {
			t.Errorf("the conversations are %s", got)
		}
	}
}

// What is written over a message stays until it is sent or left: in another conversation, in
// another mode and after a reload.
func TestEditStays(t *testing.T) {
	x := open(t, shared, "mode=chat&model=demo-chat&seed=4&steps=4&length=20",
		early(`if (!localStorage["unmask-chats"]) `+keeps("one", "two")))
	edited := func() string {
		return eval[string](x, `return document.querySelector("#turns textarea")?.value ?? ""`)
	}
	x.click("#turns .mine .acts button")
	x.do(chromedp.SendKeys("#turns textarea", " and more"))
	x.click("#chats li:last-child button")
	if got := edited(); got != "" {
		t.Errorf("another conversation has %q", got)
	}
	x.click("#chats li:first-child button")
	if got := edited(); got != "one and more" {
		t.Errorf("back in the conversation there is %q", got)
	}
	x.do(chromedp.SendKeys("#turns textarea", "!"))
	x.reload()
	if got := edited(); got != "one and more!" {
		t.Errorf("after a reload there is %q", got)
	}
	x.do(chromedp.Focus("#turns textarea"))
	x.press(kb.Escape)
	x.reload()
	if got := edited() + x.text("#turns .mine p"); got != "one" {
		t.Errorf("after Escape and a reload there is %q", got)
	}
}

// An edit that is being written goes on where it was when another window changes the conversation;
// where its message is gone, the words are in the field of the next one.
func TestEditBesideAnotherWindow(t *testing.T) {
	const fragment = "mode=chat&model=demo-chat&seed=4&steps=4&length=20"
	x := open(t, shared, fragment, early(`if (!localStorage["unmask-chats"]) `+keeps("one")))
	y := x.beside(shared, fragment)
	edit := `document.querySelector("#turns textarea")`
	say(x, "two")
	y.until(`page.panels.chat.messages.length === 4`)
	x.click("#turns .mine:nth-of-type(3) .acts button:last-child")
	x.do(chromedp.SendKeys("#turns textarea", " and more"))
	eval[bool](x, edit+`.setSelectionRange(3, 5); return true`)
	say(y, "three")
	x.until(`page.panels.chat.messages.length === 6`)
	if got := eval[string](x, `
		const e = `+edit+`;
		return [e?.value, e === document.activeElement, e?.selectionStart, e?.selectionEnd].join()`); got !=
		"two and more,true,3,5" {
		t.Errorf("beside another window's message the edit is %q", got)
	}
	x.reload()
	if got := eval[string](x, `return `+edit+`?.value ?? ""`); got != "two and more" {
		t.Errorf("after a reload the edit is %q", got)
	}
	if got := eval[bool](y, `return !`+edit); !got {
		t.Error("the other window shows the edit")
	}
	y.click("#turns .mine:nth-of-type(1) .acts button:last-child")
	y.do(chromedp.SendKeys("#turns textarea", " again\r"))
	x.until(`page.panels.chat.messages.length === 2`)
	if got := field(x); got != "two and more" || eval[bool](x, `return !!`+edit) {
		t.Errorf("where the message is gone the field has %q", got)
	}
}

// Each mode has settings of its own, except that Text and Compare share them. Back and Forward go
// through the modes, and what was written stays.
func TestModes(t *testing.T) {
	x := open(t, shared, "mode=text&seed=5&length=24&sampler=semi-ar(hybrid,block=16)&prompt=Lily")
	value := func(id string) string {
		return eval[string](x, `return document.getElementById(%q)?.value ?? "-"`, id)
	}
	at := func(mode string) { x.until(`page.mode === %q`, mode) }
	x.click("#modes [value=chat]")
	if got := value("set-seed") + value("set-length") + value("sampler") + value("set-model"); got !=
		"demo-chat" {
		t.Errorf("a chat begins with %s", got)
	}
	x.do(chromedp.SendKeys("#prompt", "Who is"))
	eval[bool](x, `document.getElementById("side").showPopover(); return true`)
	x.do(chromedp.Focus("#set-form"))
	x.press(kb.ArrowDown, kb.ArrowDown, kb.ArrowDown) // Choices
	x.do(chromedp.SendKeys("#set-choice", "yes\nno"))
	choose(x, "#sampler", "semi-ar")
	x.do(chromedp.SendKeys("#sampler-block", "8"))
	choose(x, "#sampler", "moment")
	if got := eval[string](x, `return new URLSearchParams(location.hash.slice(1)).get("sampler")`); got != "moment" {
		t.Errorf("another sampler is %s in the address", got)
	}
	x.press(kb.Escape)
	x.click("#modes [value=text]")
	if got := value("set-form") + value("set-seed") + value("set-length") + value("sampler") +
		value("set-model"); got != "524semi-ardemo" {
		t.Errorf("the settings of texts are %s", got)
	}
	x.click("#modes [value=compare]")
	if got := value("set-seed") + value("sampler") + value("sampler-block"); got != "5semi-ar16" {
		t.Errorf("two texts are compared with %s", got)
	}
	x.do(chromedp.NavigateBack())
	at("text")
	x.do(chromedp.NavigateBack())
	at("chat")
	if got := value("set-form") + value("set-choice") + value("sampler") + field(x); got !=
		"choiceyes\nnomomentWho is" {
		t.Errorf("back in the chat there is %q", got)
	}
	x.do(chromedp.SendKeys("#prompt", " Tom?"))
	x.do(chromedp.NavigateBack())
	at("text")
	if got := value("prompt") + value("set-form") + value("set-seed"); got != "Lily5" {
		t.Errorf("back at the text there is %s", got)
	}
	x.click("#modes [value=chat]")
	if got := field(x); got != "Who is Tom?" {
		t.Errorf("the message is %q", got)
	}
	if said := x.heard(); len(said) > 0 {
		t.Errorf("the console has %s", said)
	}
}

// A message that was sent is no part of the address. A conversation is shown at its end, after a
// reload too; what was written and not sent is there.
func TestReload(t *testing.T) {
	x := open(t, shared, "mode=chat&model=demo-chat&seed=4&steps=4&length=20",
		early(`if (!localStorage["unmask-chats"]) `+keeps(strings.Repeat("one ", 900),
			strings.Repeat("two ", 900))))
	below := func() float64 {
		return eval[float64](x, `
			const t = document.getElementById("talk");
			return t.scrollHeight > t.clientHeight ? t.scrollHeight - t.clientHeight - t.scrollTop : 1e6`)
	}
	x.click("#chats li:last-child button")
	if n := below(); n > 2 {
		t.Errorf("%g pixels of another conversation are below", n)
	}
	x.click("#chat-new")
	say(x, "Who is Tom?")
	if got := eval[string](x, "return location.hash"); strings.Contains(got, "prompt=Who") {
		t.Errorf("the address is %s", got)
	}
	x.do(chromedp.SendKeys("#prompt", "And"))
	x.reload()
	if got := field(x) + "|" + x.text("#chat-title"); got != "And|Who is Tom?" {
		t.Errorf("after a reload there is %q", got)
	}
	x.click("#chats li:last-child button")
	x.click("#modes [value=text]")
	x.click("#modes [value=chat]")
	if n := below(); n > 2 {
		t.Errorf("%g pixels are below after another mode", n)
	}
}

// A message alone that is longer than the model stays in its field, with the error.
func TestMessageWithoutRoom(t *testing.T) {
	x := open(t, shared, "mode=chat&model=demo-chat&seed=4&steps=4&length=20")
	long := strings.TrimSpace(strings.Repeat("Tom and the owl were friends. ", 120))
	eval[bool](x, `document.getElementById("prompt").value = %q; return true`, long)
	x.click("#run")
	x.until(`document.getElementById("prompt-error")`)
	got := x.text("#prompt-error")
	if !strings.Contains(got, "tokens, want at most") || field(x) != long {
		t.Errorf("it says %q, and %d characters stay", got, len(field(x)))
	}
}

// An answer that is empty or cut off says so, before anything else is asked, and after a reload.
func TestAnswerWithoutEnd(t *testing.T) {
	x := open(t, shared, "mode=chat&model=demo-chat")
	for _, c := range [][3]string{{"Once", "length", "cut off at 12 tokens: a larger length has room"},
		{" ", "stop", "The answer is empty. Ask in other words, make it again or begin a new chat."}} {
		eval[bool](x, `
			const [piece, finish_reason] = [%q, %q], positions = [...Array(12).keys()];
			const event = (name, data) => new TextEncoder().encode("event: " + name + "\ndata: " + JSON.stringify(data) + "\n\n");
			window.fetch = async () => new Response(new ReadableStream({ start(to) {
				to.enqueue(event("start", { trace: 1, model: "m", sampler: "s", seed: 5, shape: [12], hole: "▯", known: [] }));
				to.enqueue(event("step", { sample: 0, step: 1, steps: 1, done: true, opened: positions.map((position) => ({ position, token: 1, piece })) }));
				to.enqueue(event("done", { choices: [{ message: { content: piece.trim() }, finish_reason }], usage: { completion_tokens: 12 }, unmask: {} }));
				to.close();
			} }));
			return true`, c[0], c[1])
		say(x, "Tell me a story.")
		for range 2 {
			got := eval[string](x, `
				return document.querySelector("#turns .bubble:last-child .help")?.textContent ?? "nothing"`)
			if !strings.HasPrefix(got, c[2]) {
				t.Errorf("the answer says %q, want %q", got, c[2])
			}
			x.reload()
		}
	}
}

// A browser that gives the page no store, or a full one, has all modes.
func TestNoStore(t *testing.T) {
	const shut = `for (const name of ["localStorage", "sessionStorage"])
		Object.defineProperty(window, name, { get() { throw new DOMException("denied", "SecurityError"); } });`
	x := open(t, shared, "mode=chat&model=demo-chat&seed=4&steps=4&length=20", early(shut))
	if got := x.text("#chat-none"); !strings.Contains(got, "keeps nothing") {
		t.Errorf("without a store the page says %q", got)
	}
	say(x, "Who is Tom?")
	x.click("#chat-new")
	x.click("#chats button")
	if got := x.text("#turns .mine p"); got != "Who is Tom?" {
		t.Errorf("the conversation is %q", got)
	}
	y := open(t, shared, "", early(`if (!localStorage.full) {
		localStorage.full = 1;
		for (let n = 1 << 22; n; n >>= 1) try { for (;;) localStorage["fill" + localStorage.length] = "x".repeat(n); } catch { }
	}`))
	y.until(`document.getElementById("status").textContent === "done"`)
	theme := eval[string](y, `return document.documentElement.dataset.theme ?? ""`)
	y.click("#theme")
	y.click("#colours")
	if got := eval[string](y, `return document.documentElement.dataset.theme ?? ""`); got == theme ||
		!eval[bool](y, `return document.body.classList.contains("coloured")`) {
		t.Errorf("in a full browser the theme is %q", got)
	}
	if said := y.heard(); len(said) > 0 {
		t.Errorf("the console has %s", said)
	}
}

// An edit near the beginning of a conversation that had no room sends what stands above it again.
func TestRoomAgain(t *testing.T) {
	x := open(t, shared, "mode=chat&model=demo-chat&seed=4&steps=4&length=20", early(`
		localStorage["unmask-chats"] = JSON.stringify([{ id: "c", changed: 1, system: "", branches: {}, left: 4, messages:
			["a", "b", "c", "d", "e", "f"].flatMap((content, i) => ({ role: i % 2 ? "assistant" : "user", content })) }])`))
	x.click("#turns .mine .acts button:nth-last-child(1)")
	x.click("#turns .mine:has(textarea) .acts button:last-child")
	eval[bool](x, "page.panels.chat.edit(2); return true")
	x.do(chromedp.SendKeys("#turns textarea", "!\r"))
	x.until(`page.panels.chat.messages.length === 4`)
	if got := eval[int](x, "return page.panels.chat.current.body.messages.length"); got != 3 {
		t.Errorf("%d messages are sent, want 3", got)
	}
}
