package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// The demo model with a chat template is talked with, twice.
func TestChat(t *testing.T) {
	dir := talker(t, "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
	plain := talker(t, "{% for m in messages %}{% if m.role != 'system' %}{{ m.content }}{% endif %}{% endfor %}")
	s, err := serve("127.0.0.1:0", "--model", "talk="+dir, "--model", "plain="+plain)
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	x := open(t, s.url, "mode=chat&seed=4&steps=8&length=24")
	x.do(chromedp.SendKeys("#prompt", "What news?\r"))
	x.until(`document.body.classList.contains("busy") || page.panels.chat.messages.length`)
	x.finish()
	want := command(t, "text", "--model", dir, "--chat", "What news?", "--seed", "4", "--steps", "8",
		"--length", join([]int{eval[int](x, `
			const { length, header } = page.panels.chat.current.trace;
			return length - (header.around || 0)`)}))
	if got := x.text("#talk .text"); got+"\n" != want {
		t.Errorf("the answer is %q, the command's %q", got, want)
	}
	if got := x.text("#talk .mine p"); got != "What news?" {
		t.Errorf("the question is %q", got)
	}
	x.do(chromedp.SendKeys("#prompt", "And then?\r"))
	x.until(`page.panels.chat.messages.length === 4`)
	x.finish()
	if n := eval[int](x, `return document.querySelectorAll("#talk .bubble").length`); n != 4 {
		t.Errorf("%d bubbles are shown, want 4", n)
	}
	if got := eval[int](x, "return page.panels.chat.current.body.messages.length"); got != 3 {
		t.Errorf("%d messages are sent, want 3", got)
	}
	for _, v := range violations(x) {
		t.Error(v)
	}
	for model, shown := range map[string]bool{"talk": true, "plain": false} {
		choose(x, "#set-model", model)
		if got := eval[bool](x, `return !document.getElementById("system-box").hidden`); got != shown {
			t.Errorf("a system prompt for %s is shown: %v", model, got)
		}
	}

	// That the template leaves the system message out is said once, below the first answer, and
	// after a reload.
	const fragment = "mode=chat&model=plain&seed=4&steps=2&length=8"
	y := open(t, s.url, fragment)
	eval[bool](y, `
		document.getElementById("system").value = "Be kind.";
		document.getElementById("system").dispatchEvent(new Event("input"));
		return true`)
	for n := 2; n <= 4; n += 2 {
		y.do(chromedp.SendKeys("#prompt", "And then?\r"))
		y.until(fmt.Sprintf("page.panels.chat.messages.length === %d", n))
		y.finish()
	}
	for _, when := range []string{"at first", "after a reload"} {
		if got := eval[string](y, `
			return [...document.querySelectorAll("#turns .bubble")].map((b) => [...b.querySelectorAll(".help")]
				.filter((h) => h.textContent === "The model's chat template leaves system messages out.").length).join()`); got != "0,1,0,0" {
			t.Errorf("%s it is said %s times", when, got)
		}
		y.do(chromedp.Navigate(s.url+"/?again#"+fragment), chromedp.WaitReady("body.ready"))
	}
}

// talker writes a folder with the demo's text model and a chat template.
func talker(t *testing.T, template string) string {
	dir := t.TempDir()
	for _, name := range []string{"config.json", "model.safetensors", "tokenizer.json"} {
		data, err := os.ReadFile(filepath.Join("..", "..", "demo", "text", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(template), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// A conversation with the demo: what follows an end is folded away, an answer is whole however far
// its playback was, messages are edited, answers made again or stopped, and all of it is there
// after a reload.
func TestConversation(t *testing.T) {
	const fragment = "mode=chat&seed=4&steps=12&length=100"
	x := open(t, shared, fragment)
	send := func(message string) {
		x.do(chromedp.SendKeys("#prompt", message+"\r"))
	}
	messages := func() int { return eval[int](x, "return page.panels.chat.messages.length") }
	eval[bool](x, `
		window.early = 0;
		new MutationObserver(() => {
			const done = document.getElementById("status").textContent === "done";
			if (done && document.querySelector("#talk .hole:not([hidden])")) early++;
		}).observe(document.getElementById("status"), { childList: true, characterData: true, subtree: true });
		document.getElementById("system").value = "Be kind.";
		document.getElementById("system").dispatchEvent(new Event("input"));
		return true`)
	send("Who is Tom?")
	x.until("page.panels.chat.messages.length === 2")
	send("Tell me about him.") // the answer before is still being shown
	x.until("page.panels.chat.messages.length === 4")
	x.finish()
	if n := eval[int](x, `return document.querySelectorAll("#talk .hole:not([hidden])").length`); n > 0 {
		t.Errorf("%d holes are left in answers", n)
	}
	if n := eval[int](x, "return early"); n > 0 {
		t.Errorf("it is done %d times while holes are shown", n)
	}
	roles := eval[[]string](x, "return page.panels.chat.current.body.messages.map((m) => m.role)")
	if want := []string{"system", "user", "assistant", "user"}; !slices.Equal(roles, want) {
		t.Errorf("roles are %v, want %v", roles, want)
	}

	// What follows the end is hidden, until the reader asks for it.
	shown := eval[[]int](x, `
		const c = page.panels.chat, count = () => c.view.pieces.filter((s) => !s.hidden && s.isConnected).length;
		const fold = document.querySelector("#talk .fold"), first = count();
		fold.click();
		return [first, count(), c.messages.at(-1).shown, c.messages.at(-1).of, fold.hidden ? 1 : 0]`)
	if shown[4] == 1 || shown[0] >= shown[1] || shown[1] != shown[3] || shown[2] >= shown[3] {
		t.Errorf("pieces before and after unfolding, tokens and all of them: %v", shown)
	}

	// Its playback begins with the first step that shows something.
	frames := eval[[]int](x, `
		const c = page.panels.chat, t = c.timeline, set = t.set, out = [];
		t.set = function (v, playing) {
			set.call(t, v, playing);
			if (playing) out.push(c.view.pieces.filter((s) => !s.hidden && s.isConnected && s.entry).length);
		};
		t.set(0);
		t.toggle();
		return t.settled().then(() => { t.set = set; return out; });`)
	if len(frames) < 2 || frames[0] == 0 {
		t.Errorf("pieces that are shown after each step that plays: %v", frames)
	}

	last := "page.panels.chat.messages.at(-1)"
	before := eval[string](x, "return "+last+".seed")
	x.click("#talk .bubble:last-child .acts button:last-child") // Regenerate
	x.until("page.panels.chat.messages.length === 4 && %s.seed !== %q", last, before)
	x.finish()
	acts := `return [...document.querySelectorAll("#turns .acts")].map((a) => a.textContent).join()`
	if got := eval[string](x, acts); got != "Edit,Copy,Edit,‹2/2›CopyRegenerate" {
		t.Errorf("after an answer is made again the buttons are %q", got)
	}
	if got := eval[string](x, "return page.panels.chat.markdown()"); !strings.Contains(got,
		"## System\n\nBe kind.\n\n## You\n\nWho is Tom?\n\n## Model\n\n") {
		t.Errorf("saved it is %q", got)
	}

	// Stop keeps what stood there, or gives the message back.
	eval[bool](x, `document.getElementById("set-steps").value = 60; return true`)
	choose(x, "#sampler", "info-gain") // the demo's own rule is done before somebody could stop it
	send("And then?")
	x.until(`document.getElementById("status").textContent === "opening"`)
	x.click("#cancel")
	x.until(`document.getElementById("status").textContent === "stopped"`)
	if n := messages(); n == 6 && !eval[bool](x, "return "+last+".stopped") ||
		n == 4 && eval[string](x, `return document.getElementById("prompt").value`) != "And then?" ||
		n != 4 && n != 6 {
		t.Errorf("after a stop there are %d messages, and %q to send", n,
			eval[string](x, `return document.getElementById("prompt").value`))
	}

	if got := eval[string](x, `
		const c = page.panels.chat, piece = (text, token = -1) => ({ text, token });
		const open = [piece("Once"), null, null, piece(" time"), piece("."), null, piece("", page.info.ends[0]), piece(" never")];
		return c.standing({ entries: () => [...Array(c.from).fill(piece("x")), ...open] });`); got != "Once … time." {
		t.Errorf("of an answer with gaps %q is kept", got)
	}

	// A message is edited in its place. Until it has another answer, and after a cancel, all is there.
	n := messages()
	x.click("#talk .mine:nth-of-type(3) .acts button")
	if got := eval[string](x, `return document.querySelector("#talk .mine textarea").value`); got !=
		"Tell me about him." || messages() != n {
		t.Errorf("%q is edited, and %d messages stay, want %d", got, messages(), n)
	}
	x.click("#talk .mine:has(textarea) .acts button:last-child") // Cancel
	if got := eval[int](x, `return document.querySelectorAll("#talk .mine p").length`); got != (n+1)/2 {
		t.Errorf("%d messages are shown after a cancel, want %d", got, (n+1)/2)
	}
	x.click("#talk .mine:nth-of-type(3) .acts button")
	eval[bool](x, `document.querySelector("#talk .mine textarea").value = "Who is he?"; return true`)
	x.click("#talk .mine:has(textarea) .acts button:first-child") // Send
	x.until(`page.panels.chat.messages.length === 4 && page.panels.chat.messages[2].content === "Who is he?"`)
	x.finish()
	if got := eval[string](x, acts); got != "Edit,Copy,‹2/2›Edit,CopyRegenerate" {
		t.Errorf("after a message is edited the buttons are %q", got)
	}
	x.click("#talk .mine:nth-of-type(3) .acts button:first-child") // the version before
	if got := eval[string](x, "return page.panels.chat.messages[2].content"); got != "Tell me about him." ||
		messages() != n {
		t.Errorf("the version before is %q and has %d messages, want %d", got, messages(), n)
	}
	x.do(chromedp.Navigate(shared+"/?again#"+fragment), chromedp.WaitReady("body.ready"))
	if got := eval[string](x, `
		return [...document.querySelectorAll("#talk .mine p")].map((p) => p.textContent).slice(0, 2).join() +
			document.getElementById("system").value`); got != "Who is Tom?,Tell me about him.Be kind." {
		t.Errorf("after a reload there is %q", got)
	}
	x.click("#chat-new")
	if n := messages(); n != 0 || x.text("#chats") != "TodayWho is Tom?" ||
		x.text("#chat-title") != "New chat" {
		t.Errorf("a new chat has %d messages beside %q", n, x.text("#chats"))
	}
}

// Two windows lose nothing of each other; a deleted conversation comes back; what is stored and no
// conversation is put aside.
func TestConversationsStay(t *testing.T) {
	const fragment = "mode=chat&seed=4&steps=4&length=20"
	s, err := serve("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	x := open(t, s.url, fragment)
	y := x.beside(s.url, fragment)
	say(x, "Who is Tom?")
	say(y, "Who is Lily?")
	titles := `return JSON.parse(localStorage["unmask-chats"]).map((c) => c.messages[0].content).sort().join()`
	if got := eval[string](x, titles); got != "Who is Lily?,Who is Tom?" {
		t.Errorf("two windows keep %q", got)
	}
	x.until(`page.panels.chat.kept.all.length === 2`)
	x.click("#chat-delete")
	if got := eval[string](x, titles); got != "Who is Lily?" {
		t.Errorf("one is deleted, and %q is kept", got)
	}
	x.click("#chat-undo")
	if got := eval[string](x, titles); got != "Who is Lily?,Who is Tom?" {
		t.Errorf("it is taken back, and %q is kept", got)
	}
	for _, store := range []string{"{", "3", `[{"id": 3}]`, `[null]`,
		`[{"messages": [{"role": 1}]}]`, `[{"messages": [{"role": "user", "content": "a", "notes": 3}]}]`,
		`[{"messages": [], "system": 1}]`,
		`[{"messages": [], "branches": {"0": {"list": [3], "at": 0}}}]`} {
		eval[bool](x, `localStorage["unmask-chats"] = `+"`"+store+"`"+`; return true`)
		x.do(chromedp.Navigate(s.url+"/?"+join([]int{len(store)})+"#"+fragment),
			chromedp.WaitReady("body.ready"))
		got := eval[string](x, `
			return localStorage["unmask-chats-unreadable"] + page.panels.chat.kept.all.length`)
		if got != store+"1" {
			t.Errorf("%q in the store leaves %q", store, got)
		}
	}
	say(x, "Who is Ben?")
}

// On a telephone a conversation's buttons stand beside each other, and Send is in sight.
func TestTelephone(t *testing.T) {
	x := open(t, shared, "mode=chat&seed=4&steps=4&length=20", chromedp.EmulateViewport(390, 844))
	say(x, "Who is Tom?")
	if rows := eval[int](x, `
		const tops = [...document.querySelectorAll("#chat-tools button:not([hidden])")].map((b) => b.offsetTop);
		return new Set(tops).size`); rows != 1 {
		t.Errorf("the buttons stand in %d rows: %v", rows, eval[[]string](x, `
			return [...document.querySelectorAll("#chat-tools > *")].map((b) => b.textContent + " " +
				[b.offsetLeft, b.offsetTop, b.offsetWidth, b.hidden])`))
	}
	if below := eval[float64](x, `
		return document.getElementById("run").getBoundingClientRect().bottom - innerHeight`); below > 0 {
		t.Errorf("Send ends %g pixels below the screen", below)
	}
}
