package browser

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// axe is axe-core 4.12.1 of Deque Systems, of the package axe-playwright-python 0.1.8. Its licence
// is in axe.LICENSE.
//
//go:embed testdata/axe.min.js
var axe string

// violations runs axe on what the page shows.
func violations(x *tab) []string {
	x.Helper()
	x.do(chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](axe+";true"))
		return err
	}))
	text := eval[string](x, `
		// Colours are those at the end of what fades in.
		await Promise.all(document.getAnimations().map((a) => a.finished.catch(() => {})));
		const r = await axe.run(document, { resultTypes: ["violations"] });
		return JSON.stringify(r.violations.map((v) => ({ id: v.id, help: v.help, nodes: v.nodes.slice(0, 3).map((n) => n.html.slice(0, 200) + " " + n.failureSummary) })))`)
	var list []struct {
		ID, Help string
		Nodes    []string
	}
	x.ok(json.Unmarshal([]byte(text), &list))
	var out []string
	for _, v := range list {
		out = append(out, fmt.Sprintf("%s: %s: %s", v.ID, v.Help, strings.Join(v.Nodes, "\n  ")))
	}
	return out
}

func TestAxe(t *testing.T) {
	for _, scheme := range []string{"light", "dark"} {
		for _, width := range []int64{1280, 390} {
			for mode, fragment := range map[string]string{"text": settings,
				"compare": "mode=compare&seed=5&steps=6&length=30&prompt=Once upon&sampler=moment",
				"image":   "mode=image&seed=5",
				"chat":    "mode=chat&seed=5&prompt=Tell me about Tom and an owl.",
				"decide":  "mode=decide&prompt=It is hot.",
				"form":    "mode=text&seed=5&length=24&regex= (brave|kind)\\."} {
				t.Run(fmt.Sprintf("%s/%s/%d", mode, scheme, width), func(t *testing.T) {
					x := open(t, shared, fragment, media(map[string]string{"prefers-color-scheme": scheme}),
						chromedp.EmulateViewport(width, 900))
					eval[bool](x, `
						document.querySelector("details").open = true;
						document.getElementById("ask").value = "Is it hot?";
						return true`)
					for _, v := range violations(x) {
						t.Error("before a run: ", v)
					}
					x.generate()
					for _, v := range violations(x) {
						t.Error(v)
					}
					eval[bool](x, `
						const t = page.panels[page.mode].timeline;
						t.set?.(Math.ceil(t.max / 2));
						document.getElementById("notice-text").textContent = "The connection was lost.";
						document.getElementById("notice").hidden = false;
						document.getElementById("text").querySelector(".open")?.click();
						return true`)
					for _, v := range violations(x) {
						t.Error("halfway: ", v)
					}
					x.do(chromedp.EmulateViewport(320, 900))
					if wide := eval[int](x, "return document.documentElement.scrollWidth - innerWidth"); wide > 0 {
						t.Errorf("the page is %d pixels too wide", wide)
					}
				})
			}
		}
	}
}

// press presses a key, where the focus is.
func (x *tab) press(keys ...string) {
	x.Helper()
	for _, k := range keys {
		x.do(chromedp.KeyEvent(k))
	}
}

// tabTo presses Tab until an element has the focus.
func (x *tab) tabTo(selector string) {
	x.Helper()
	for range 60 {
		x.press(kb.Tab)
		if eval[bool](x, "return !!document.activeElement?.matches(%q)", selector) {
			return
		}
	}
	x.Fatalf("Tab never comes to %s", selector)
}

// All of it by keyboard alone: prompt, run, scrub, make holes, fill again, paint cells.
func TestKeyboard(t *testing.T) {
	x := open(t, shared, "mode=text&seed=5&steps=8&length=30&prompt=")
	x.tabTo("#prompt")
	for _, c := range "Once upon" {
		x.press(string(c))
	}
	x.tabTo("#run")
	x.press(kb.Enter)
	x.finish()
	first := x.text("#text")
	if !strings.HasPrefix(first, "Once upon") {
		t.Fatalf("the text is %q", first)
	}
	x.tabTo("#text .p")
	if tip := x.text("#tip"); !strings.Contains(tip, "given") {
		t.Errorf("the words on the first piece are %q", tip)
	}
	outline := eval[string](x, "return getComputedStyle(document.activeElement).outlineStyle")
	if outline != "solid" {
		t.Errorf("the outline of the focus is %s", outline)
	}
	for range 10 {
		x.press(kb.ArrowRight)
	}
	if tip := x.text("#tip"); !strings.Contains(tip, "step ") || !strings.Contains(tip, " p ") {
		t.Errorf("the words on a piece are %q", tip)
	}
	x.press(" ", kb.ArrowRight, " ")
	if n := eval[int](x, `return document.querySelectorAll("#text [aria-selected=true]").length`); n != 2 {
		t.Errorf("%d pieces are marked, want 2", n)
	}
	x.press(kb.Escape)
	if eval[bool](x, `return !document.getElementById("tip").hidden`) {
		t.Error("Escape leaves the words on a piece")
	}
	x.tabTo("#fill-run")
	x.press(kb.Enter)
	x.finish()
	x.tabTo("#text-time input")
	x.press(kb.Home)
	if n := eval[int](x, `return document.querySelectorAll("#text .hole").length`); n != 2 {
		t.Errorf("at the start %d holes show, want 2", n)
	}
	x.press(kb.End)
	if n := eval[int](x, `return document.querySelectorAll("#text .hole").length`); n != 0 {
		t.Errorf("at the end %d holes show", n)
	}
	eval[bool](x, "document.activeElement.blur(); return true")
	x.press(kb.ArrowLeft)
	if v := eval[int](x, "return page.panels.text.timeline.goal - page.panels.text.timeline.value"); v != 1 {
		t.Errorf("an arrow moves by %d steps", v)
	}
	x.press(" ")
	x.until("page.panels.text.timeline.value === page.panels.text.timeline.goal")

	x.tabTo("#modes [value=image]")
	x.press(kb.Enter)
	x.tabTo("#run")
	x.press(kb.Enter)
	x.finish()
	x.tabTo("#cells [role=gridcell]")
	x.press(kb.ArrowDown, kb.ArrowRight, " ", kb.ArrowRight, " ")
	if got := eval[string](x, `return [...document.querySelectorAll("#cells .marked")].map((c) => c.getAttribute("aria-label")).join("; ")`); got !=
		"row 2, column 2; row 2, column 3" {
		t.Errorf("marked cells are %s", got)
	}
	x.tabTo("#inpaint")
}

func TestReducedMotion(t *testing.T) {
	x := open(t, shared, settings, media(map[string]string{"prefers-reduced-motion": "reduce"}))
	eval[bool](x, `
		window.most = 0;
		const f = () => { most = Math.max(most, document.getAnimations().length); requestAnimationFrame(f); };
		f();
		return true`)
	x.generate()
	if n := eval[int](x, "return most"); n != 0 {
		t.Errorf("%d animations run", n)
	}
	y := open(t, shared, settings)
	eval[bool](y, `
		window.most = 0;
		const f = () => { most = Math.max(most, document.getAnimations().length); requestAnimationFrame(f); };
		f();
		return true`)
	y.generate()
	if n := eval[int](y, "return most"); n == 0 {
		t.Error("no animation runs where motion is wanted: the test sees none")
	}
}

// What is told to screen readers changes every two seconds at most.
func TestLive(t *testing.T) {
	x := open(t, shared, "mode=text&seed=3&steps=100&length=100&prompt=")
	eval[bool](x, `
		window.told = [];
		new MutationObserver(() => told.push(performance.now())).observe(document.getElementById("live"), { childList: true, characterData: true, subtree: true });
		return true`)
	x.generate()
	x.until(`document.getElementById("live").textContent === "done"`)
	told := eval[[]float64](x, "return told")
	for i := 1; i < len(told); i++ {
		if told[i]-told[i-1] < 1900 {
			t.Errorf("two words come within %.0f ms", told[i]-told[i-1])
		}
	}
}

func TestTheme(t *testing.T) {
	x := open(t, shared, "", media(map[string]string{"prefers-color-scheme": "light"}))
	ground := "return getComputedStyle(document.body).backgroundColor"
	light := eval[string](x, "%s", ground)
	x.click("#theme")
	dark := eval[string](x, "%s", ground)
	if light == dark {
		t.Errorf("both grounds are %s", light)
	}
	x.do(chromedp.Reload(), chromedp.WaitReady("body.ready"))
	if got := eval[string](x, "%s", ground); got != dark {
		t.Errorf("after a reload the ground is %s, want %s", got, dark)
	}
}
