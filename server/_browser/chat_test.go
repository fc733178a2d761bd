package browser

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// The demo model with a chat template is talked with, twice.
func TestChat(t *testing.T) {
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
	template := "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
	err := os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(template), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	s, err := serve("127.0.0.1:0", "--model", "talk="+dir)
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
}

// A conversation with the demo: what follows an end is folded away, an answer is whole however far
// its playback was, messages are edited, answers made again or stopped, and all of it is there
// after a reload.
func TestConversation(t *testing.T) {
	const fragment = "mode=chat&seed=4&steps=12&length=60"
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

	last := "page.panels.chat.messages.at(-1)"
	before := eval[string](x, "return "+last+".seed")
	x.click("#talk .bubble:last-child .acts button:last-child") // Regenerate
	x.until("page.panels.chat.messages.length === 4 && %s.seed !== %q", last, before)
	x.finish()
	if got := eval[string](x, "return page.panels.chat.markdown()"); !strings.Contains(got,
		"## System\n\nBe kind.\n\n## You\n\nWho is Tom?\n\n## Model\n\n") {
		t.Errorf("saved it is %q", got)
	}

	// Stop keeps what had settled, or gives the message back.
	eval[bool](x, `document.getElementById("set-steps").value = 60; return true`)
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

	// Edit takes a message back, with what followed.
	x.click("#talk .mine:nth-of-type(3) .acts button")
	if got := eval[string](x, `return document.getElementById("prompt").value`); got !=
		"Tell me about him." || messages() != 2 {
		t.Errorf("%q is edited, and %d messages stay", got, messages())
	}
	x.do(chromedp.Navigate(shared+"/?again#"+fragment), chromedp.WaitReady("body.ready"))
	if got := eval[string](x, `
		return [...document.querySelectorAll("#talk .mine p")].map((p) => p.textContent).join() +
			document.getElementById("system").value`); got != "Who is Tom?Be kind." {
		t.Errorf("after a reload there is %q", got)
	}
	x.click("#chat-new")
	if n := messages(); n != 0 || x.text("#chats") != "New chatWho is Tom?" {
		t.Errorf("a new chat has %d messages beside %q", n, x.text("#chats"))
	}
}

// On a telephone a conversation's buttons stand beside each other, and Send is in sight.
func TestTelephone(t *testing.T) {
	x := open(t, shared, "mode=chat&seed=4&steps=4&length=20", chromedp.EmulateViewport(390, 844))
	say(x, "Who is Tom?")
	if rows := eval[int](x, `
		const tops = [...document.querySelectorAll("#chat-tools button")].map((b) => b.offsetTop);
		return new Set(tops).size`); rows != 1 {
		t.Errorf("the buttons stand in %d rows", rows)
	}
	if below := eval[float64](x, `
		return document.getElementById("run").getBoundingClientRect().bottom - innerHeight`); below > 0 {
		t.Errorf("Send ends %g pixels below the screen", below)
	}
}
