package browser

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// keeps puts conversations of one question each into the store; the first is the last changed.
func keeps(questions ...string) string {
	return `localStorage["unmask-chats"] = JSON.stringify(` + "`" + strings.Join(questions, "|") + "`" + `.split("|").map((q, i) => (
		{ id: "c" + i, changed: 1e12 - i, system: "", branches: {}, messages: [{ role: "user", content: q }, { role: "assistant", content: "Yes." }] })));`
}

// listed returns the titles at the side.
func listed(x *tab) string {
	return eval[string](x, `return [...document.querySelectorAll("#chats button")].map((b) => b.textContent).join("|")`)
}

// Conversations stand at the side, the last changed first. They are found by their words, renamed,
// deleted and brought back.
func TestConversationList(t *testing.T) {
	x := open(t, shared, "mode=chat&seed=4&steps=4&length=20",
		early(`if (!localStorage["unmask-chats"]) `+keeps("one", "two owls", "three", "four", "five",
			"six", "seven", "eight")))
	if got := listed(x); got != "one|two owls|three|four|five|six|seven|eight" {
		t.Fatalf("the list is %s", got)
	}
	if got := eval[string](x, `return [...document.querySelectorAll("#chats .help")].map((h) => h.textContent).join()`); got != "Earlier" {
		t.Errorf("conversations of 2001 are of %q", got)
	}
	x.do(chromedp.SendKeys("#chat-search", "OWLS Yes"))
	if got := listed(x); got != "two owls" {
		t.Errorf("a search finds %s", got)
	}
	x.click("#chats button")
	if got := x.text("#turns .mine p"); got != "two owls" {
		t.Errorf("%q is opened", got)
	}
	eval[bool](x, `
		document.getElementById("chat-search").value = "nix";
		document.getElementById("chat-search").oninput();
		return true`)
	if got := x.text("#chat-none"); got != "No conversation has these words." {
		t.Errorf("a search for what is nowhere says %q", got)
	}
	eval[bool](x, `
		document.getElementById("chat-search").value = "";
		document.getElementById("chat-search").oninput();
		return true`)

	name := "#chat-tools input"
	x.click("#chat-rename")
	x.do(chromedp.SendKeys(name, "Birds"+kb.Escape))
	if got := x.text("#chat-title"); got != "two owls" {
		t.Errorf("after Escape it is called %q", got)
	}
	x.click("#chat-rename")
	x.do(chromedp.SendKeys(name, "Birds\r"))
	if got := listed(x); !strings.HasPrefix(got, "Birds|one|three") ||
		x.text("#chat-title") != "Birds" {
		t.Errorf("after a new name the list is %s", got)
	}

	x.click("#chat-delete")
	x.click("#chat-delete")
	if got := listed(x); got != "three|four|five|six|seven|eight" {
		t.Errorf("after two were deleted the list is %s", got)
	}
	if got := x.text("#chat-gone-name"); got != "“one” is deleted." {
		t.Errorf("it says %q", got)
	}
	x.click("#chat-undo")
	x.click("#chat-undo")
	if got := listed(x); !strings.HasPrefix(got, "Birds|one|three") {
		t.Errorf("after both came back the list is %s", got)
	}
	x.do(chromedp.Reload(), chromedp.WaitReady("body.ready"))
	if got := listed(x); !strings.HasPrefix(got, "Birds|one|three") ||
		x.text("#chat-title") != "Birds" {
		t.Errorf("after a reload the list is %s, and %q is open", got, x.text("#chat-title"))
	}
}

// What the page of 0.1.0 kept, without names, is there once, whole, and stays so.
func TestConversationOfEarlierPage(t *testing.T) {
	kept, err := os.ReadFile("../../testdata/upgrade/0.1.0/page.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(string(kept))
	if err != nil {
		t.Fatal(err)
	}
	x := open(t, shared, "mode=chat&seed=4&steps=4&length=20",
		early(`localStorage["unmask-chats"] ||= `+string(text)))
	for _, shown := range []string{"Who is Ben?", "Ben is a boy.", "And Lily?", "Lily was"} {
		if talk := x.text("#talk"); !strings.Contains(talk, shown) {
			t.Errorf("the conversation %q has no %q", talk, shown)
		}
	}
	say(x, "And Tom?")
	x.do(chromedp.Reload(), chromedp.WaitReady("body.ready"))
	if got := listed(x); got != "Who is Ben?|New chat" {
		t.Errorf("the list is %s", got)
	}
}

// A conversation that goes on in two windows at once becomes two, and none is written over.
func TestConversationInTwoWindows(t *testing.T) {
	x := open(t, shared, "mode=chat", early(keeps("one")))
	got := eval[string](x, `
		const { Conversations } = await import("/page/conversations.js");
		const [a, b] = [0, 1].map(() => new Conversations(() => {}, () => {}));
		for (const [c, text] of [[a, "left"], [b, "right"], [a, "left again"]]) {
			c.all.find((c) => c.id === "c0").messages.push({ role: "user", content: text });
			await new Promise((r) => setTimeout(r, 2));
			c.keep(c.all.find((c) => c.id === "c0"));
		}
		const c = new Conversations(() => {}, () => {});
		return c.all.map((c) => c.messages.slice(2).map((m) => m.content).join(",")).sort().join("|")`)
	if !strings.Contains(got, "right") || !strings.Contains(got, "left,left again") {
		t.Errorf("what was said in two windows is %s", got)
	}
}

// A message that another conversation, another mode or a reload left without an answer comes back
// to its field, once, and what is being written stays.
func TestUnansweredMessage(t *testing.T) {
	x := open(t, shared, "mode=chat&seed=4&steps=120&length=120&sampler=info-gain&cache=0",
		early(`if (!localStorage["unmask-chats"]) `+keeps("one", "two")))
	field := func() string {
		return eval[string](x, `return document.getElementById("prompt").value.trim()`)
	}
	empty := func() { eval[bool](x, `document.getElementById("prompt").value = ""; return true`) }
	ask := func() {
		x.do(chromedp.SendKeys("#prompt", "Who is Tom?\r"))
		x.until(`document.getElementById("status").textContent === "opening"`)
	}
	ask()
	x.do(chromedp.SendKeys("#prompt", "And"))
	x.click("#modes [value=text]")
	x.click("#modes [value=chat]")
	if got := field(); got != "And" {
		t.Errorf("after another mode the field has %q", got)
	}
	empty()
	x.click("#chats li:last-child button")
	if got := field(); got != "" {
		t.Errorf("another conversation has %q", got)
	}
	x.click("#chats li:first-child button")
	if got := field(); got != "Who is Tom?" {
		t.Errorf("back in the conversation there is %q", got)
	}
	empty()
	ask()
	x.do(chromedp.Navigate(shared+"/?again#mode=chat&seed=4&steps=4&length=20"),
		chromedp.WaitReady("body.ready"))
	if got := field(); got != "Who is Tom?" {
		t.Errorf("after a reload there is %q", got)
	}
	x.click("#run")
	x.until("page.panels.chat.messages.length === 4")
	if got := eval[string](x, "return page.panels.chat.messages[2].content"); got != "Who is Tom?" {
		t.Errorf("sent is %q", got)
	}
}

// What was written over a message is still in its field where no answer came; a browser without
// room says so.
func TestEditThatFails(t *testing.T) {
	x := open(t, shared, "mode=chat&seed=4&steps=4&length=20", early(keeps("one")))
	x.click("#turns .mine .acts button")
	eval[bool](x, `document.getElementById("set-top-p").value = 5; return true`)
	x.do(chromedp.SendKeys("#turns textarea", " and two\r"))
	x.until(`document.querySelector(".error")`)
	if got := eval[string](x, `return document.querySelector("#turns textarea").value.trim()`); got != "one and two" {
		t.Errorf("the field has %q", got)
	}
	x.press(kb.Escape) // the drawer of the error
	eval[bool](x, `
		document.getElementById("set-top-p").value = "";
		for (let n = 1 << 22; n > 4; n >>= 1) try { localStorage["fill" + n] = "x".repeat(n); } catch { }
		document.querySelector("#turns textarea").focus();
		return true`)
	x.press("\r")
	x.until(`page.panels.chat.messages.length === 2 && page.panels.chat.messages[0].content === "one and two"`)
	if got := x.text("#notice-text"); !strings.Contains(got, "no room for more conversations") {
		t.Errorf("a full browser says %q", got)
	}
}

// A conversation that has no room goes on without its oldest messages, and says so where they end.
func TestConversationGoesOn(t *testing.T) {
	x := open(t, shared, "mode=chat&model=demo-chat&seed=4&steps=4&length=20", early(`
		const text = "Tom and the owl were friends. ".repeat(12);
		localStorage["unmask-chats"] = JSON.stringify([{ id: "c", changed: 1, system: "", branches: {}, messages:
			[0, 1, 2, 3].flatMap(() => [{ role: "user", content: text }, { role: "assistant", content: text }]) }])`))
	say(x, "Who is Tom?")
	left := eval[int](x, `
		const c = page.panels.chat;
		c.open(c.chat);
		return [...document.querySelectorAll("#turns > *")].findIndex((e) => e.matches(".left"))`)
	if sent := eval[int](x, "return page.panels.chat.chat.left"); left <= 0 || left != sent {
		t.Errorf("the line is above message %d, and %d are not sent", left, sent)
	}
}

// On a telephone list and settings are drawers, in which axe finds nothing; an error opens the one
// that it is in.
func TestDrawers(t *testing.T) {
	x := open(t, shared, "mode=chat&seed=4&steps=4&length=20", early(keeps("one", "two")),
		chromedp.EmulateViewport(390, 844))
	for _, drawer := range []string{"chat-list", "side"} {
		opened := `document.querySelector("#` + drawer + `:popover-open")`
		x.click("[popovertarget=" + drawer + "]:not(.close)")
		x.until("%s", opened)
		for _, v := range violations(x) {
			t.Error(drawer, v)
		}
		x.press(kb.Escape)
		x.until("!%s", opened)
	}
	x.click("#chat-open")
	x.click("#chats li:last-child button")
	if got := x.text("#chat-title"); got != "two" ||
		eval[bool](x, `return !!document.querySelector(":popover-open")`) {
		t.Errorf("%q is open, and so is the drawer", got)
	}
	eval[bool](x, `document.getElementById("set-top-p").value = 5; return true`)
	x.do(chromedp.SendKeys("#prompt", "Hello\r"))
	x.until(`document.querySelector("#side:popover-open .error")`)
	x.press(kb.Escape)
	x.click("#modes [value=text]")
	if !eval[bool](x, `return document.querySelector("#set-model").checkVisibility()`) {
		t.Error("the settings of texts are gone")
	}
}

// The head of a conversation names the model, a key begins a new one, and all of them can be saved.
func TestChatHead(t *testing.T) {
	x := open(t, shared, "mode=chat&seed=3&steps=8&length=24")
	if got := x.text("#chat-model"); got != "demo-chat" {
		t.Errorf("the head names %q, want the model", got)
	}
	say(x, "Hello!")
	if got := x.text("#chat-facts"); !strings.Contains(got, "tokens a second") {
		t.Errorf("the facts of an answer are %q, want its tokens a second", got)
	}
	x.do(chromedp.KeyEvent("o", chromedp.KeyModifiers(chromedp.ModifierCtrl, chromedp.ModifierShift)))
	x.until(`page.panels.chat.messages.length === 0`)
	say(x, "Thanks!")
	saved := eval[string](x, `
		const kept = new Promise((r) => { URL.createObjectURL = (b) => { r(b.text()); return "blob:x"; }; });
		document.getElementById("chat-save-all").click();
		return kept`)
	var list []struct{ Messages []struct{ Content string } }
	x.ok(json.Unmarshal([]byte(saved), &list))
	if len(list) != 2 || list[1].Messages[0].Content != "Hello!" {
		t.Errorf("what is saved is %s", saved)
	}
}
