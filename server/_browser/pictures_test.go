package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// The runs that are shown: some settings, and what is done after them.
const (
	aText   = "mode=text&seed=3&steps=24&length=90&prompt=Lily was a brave girl."
	aPair   = "mode=compare&seed=3&steps=24&length=70&prompt=Lily was a brave girl.&sampler=moment&other=halton"
	anImage = "mode=image&seed=5"
	aChat   = "mode=chat&seed=3"
	aTale   = "mode=chat&seed=3&steps=24&length=160" // one answer, that opens
	aPage   = "mode=chat&seed=4"                     // with an answer in Markdown
	aFault  = "mode=text&seed=3&steps=9999&top-p=0.9&prompt=Lily was a brave girl."
	aChoice = "mode=decide&prompt=Lily had a red kite. One day she met a fox."
	aForm   = "mode=text&seed=3&length=32&prompt=Lily was a&choice= girl%0A boy%0A brave little"
)

// TestPictures writes the pictures of docs/serving, and each mode at the widths of a telephone, a
// laptop and a large screen, light and dark, into the folder that UNMASK_PICTURES names.
func TestPictures(t *testing.T) {
	dir := os.Getenv("UNMASK_PICTURES")
	if dir == "" {
		t.Skip("UNMASK_PICTURES names no folder")
	}
	part := func(share float64) func(*tab) { return func(x *tab) { halfway(x, share) } }
	picture := func(name, fragment, scheme string, width, height int64, after func(*tab)) {
		t.Run(name, func(t *testing.T) {
			x := open(t, shared, fragment,
				media(map[string]string{"prefers-color-scheme": scheme}),
				chromedp.EmulateViewport(width, height))
			switch fragment {
			case aChat:
				say(x, "Tell me about Tom and an owl.")
				say(x, "Who did Tom meet?")
			case aTale:
				say(x, "Tell me about Tom and an owl.")
				eval[bool](x, `document.getElementById("prompt").value = ""; return true`)
			case aPage:
				eval[bool](x, `
					page.panels.chat.chat.messages = [{ role: "user", content: "How does it sort?" }, { role: "assistant", content: %q }];
					page.panels.chat.changed();
					page.panels.chat.render();
					return true`, "## Sorting\n\nA **quick** sort picks `a[0]`:\n\n1. *smaller* ones\n   - left\n"+
					"2. larger ones\n\n```python\ndef sort(a):  # by values\n    return a if len(a) < 2 else \"...\"\n"+
					"```\n\n> It is not stable.\n\n| case | time |\n|---|---|\n| best | n log n |\n| worst | n² |\n")
			case aChoice:
				x.do(chromedp.SendKeys("#ask", "What color is the kite?"),
					chromedp.SendKeys("#options", "The kite is red.\nThe kite is blue.\nThe kite is green."))
				x.generate()
			case aFault:
				x.click("#run")
				x.until(`document.querySelector(".error")`)
			default:
				x.generate()
			}
			if after != nil {
				after(x)
			}
			write(x, filepath.Join(dir, name+".png"))
		})
	}
	picture("text", aText, "light", 1200, 760, part(2.0/3))
	picture("compare", aPair, "light", 1200, 860, part(0.8))
	picture("inpaint", anImage, "dark", 1200, 860, painted)
	picture("chat", aTale, "light", 1200, 620, part(0.6))
	for _, width := range []int64{390, 1280, 1920} {
		for _, scheme := range []string{"light", "dark"} {
			height := map[int64]int64{390: 844, 1280: 900, 1920: 1080}[width]
			end := fmt.Sprintf("-%d-%s", width, scheme)
			picture("text"+end, aText, scheme, width, height, nil)
			picture("opening"+end, aText, scheme, width, height, part(0.5))
			picture("compare"+end, aPair, scheme, width, height, part(0.8))
			picture("image"+end, anImage, scheme, width, height, painted)
			picture("chat"+end, aChat, scheme, width, height, nil)
			picture("markdown"+end, aPage, scheme, width, height, nil)
			picture("decide"+end, aChoice, scheme, width, height, nil)
			picture("form"+end, aForm, scheme, width, height, nil)
			picture("fault"+end, aFault, scheme, width, height, nil)
		}
	}
}

// painted marks a part of the picture.
func painted(x *tab) {
	choose(x, "#tool", "rectangle")
	stroke(x, 3, 4, 9, 12)
}

// say sends a message and waits for the answer.
func say(x *tab, message string) {
	x.Helper()
	n := eval[int](x, "return page.panels.chat.messages.length")
	x.do(chromedp.SendKeys("#prompt", message+"\r"))
	x.until("page.panels.chat.messages.length === %d", n+2)
	x.finish()
}

// halfway shows a part of a run.
func halfway(x *tab, share float64) {
	eval[bool](x, `
		const t = page.panels[page.mode].timeline;
		t.set(Math.round(t.max * %g));
		document.activeElement.blur();
		await new Promise((r) => setTimeout(r, 1500));
		return true`, share)
}

// write writes what the tab shows.
func write(x *tab, name string) {
	x.Helper()
	eval[bool](x, "await Promise.all(document.getAnimations().map((a) => a.finished)); return true")
	data, err := chromedp.Run(x.ctx, chromedp.CaptureScreenshot())
	x.ok(err)
	x.ok(os.WriteFile(name, data, 0o644))
}
