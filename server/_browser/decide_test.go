package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// A first visit asks three questions about a story, which the demo answers rightly.
func TestFirstQuestions(t *testing.T) {
	x := open(t, shared, "")
	x.until(`document.getElementById("status").textContent === "done"`)
	x.click("#modes [value=decide]")
	x.until(`document.querySelectorAll("#bars .card").length === 3`)
	first := eval[string](x, `return [...document.querySelectorAll("#bars dl")].map((l) => l.querySelector("dt").textContent).join(" ")`)
	if want := "The kite is red. It is a fox. The girl is called Lily."; first != want {
		t.Errorf("the most probable options are %q, want %q", first, want)
	}
	if list := violations(x); list != nil {
		t.Error(strings.Join(list, "\n"))
	}
}

// A question has a bar for each option, the most probable first, and what is wrong with it is said
// at its field.
func TestDecide(t *testing.T) {
	x := open(t, shared, "mode=decide&prompt=It is hot.")
	x.click("#run")
	x.until(`document.activeElement.id === "ask"`)
	if got := x.text("#ask-error"); got != "The question is missing." {
		t.Errorf("the field says %q", got)
	}
	// Over HTTP the question goes to the same model if none is named.
	if got := eval[string](x, "return page.model"); got != "demo-chat" {
		t.Errorf("the question goes to %q", got)
	}
	x.do(chromedp.SendKeys("#ask", "Which?"))
	x.click("#run")
	x.until(`document.querySelectorAll("#bars meter").length === 2`)
	if got := x.text("#bars"); !strings.Contains(got, "yes") || !strings.Contains(got, "no") {
		t.Errorf("bars are %q", got)
	}
	x.do(chromedp.SendKeys("#options", "hot: above 30\ncold\nmild"))
	x.click("#run")
	x.until(`document.querySelectorAll("#bars meter").length === 3`)
	sum := eval[float64](x, `return [...document.querySelectorAll("#bars meter")].reduce((s, m) => s + m.value, 0)`)
	sorted := eval[bool](x, `const p = [...document.querySelectorAll("#bars meter")].map((m) => m.value); return p[0] >= p[1] && p[1] >= p[2]`)
	if sum < 0.999 || sum > 1.001 || !sorted {
		t.Errorf("bars add to %v, sorted %v", sum, sorted)
	}
	if got := x.text("#bars .help"); !strings.Contains(got, "Asked by whole answers.") ||
		!strings.Contains(got, "the model answers in other words") {
		t.Errorf("the note says %q", got)
	}
	for _, hidden := range []string{"#sampler", "#settings details", "#set-steps"} {
		if eval[bool](x, `return document.querySelector("%s").checkVisibility()`, hidden) {
			t.Errorf("%s is shown, which a question does not use", hidden)
		}
	}
	x.click("#modes [value=text]")
	if !eval[bool](x, `return document.querySelector("#sampler").checkVisibility()`) {
		t.Error("the sampler is gone from texts")
	}
}
