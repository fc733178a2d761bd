package browser

import (
	"os"
	"path/filepath"
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
		"--length", join([]int{eval[int](x, "return page.panels.chat.current.trace.length")}))
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
