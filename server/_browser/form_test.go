package browser

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// form opens the page with a form of the text chosen, and writes into its field.
func form(t *testing.T, kind, value string) *tab {
	x := open(t, shared, "mode=text&seed=5&length=32&prompt=Lily was a")
	choose(x, "#set-form", kind)
	x.do(chromedp.SendKeys("#set-"+kind, value))
	return x
}

// A text has the form that the settings choose, and so have its link and what is copied.
func TestForm(t *testing.T) {
	const schema = `{"type": "object", "properties": {"happy": {"type": "boolean", "description": "as \\w"}}, "required": ["happy"], "additionalProperties": false}`
	for kind, c := range map[string][2]string{
		"schema": {schema, `^Lily was a\{"happy": (true|false)\}\s*$`},
		"regex":  {` (brave|kind) (girl|cat)\.`, `^Lily was a (brave|kind) (girl|cat)\.\s*$`},
		"choice": {" girl\n boy, too\n", `^Lily was a( girl| boy, too)\s*$`},
	} {
		t.Run(kind, func(t *testing.T) {
			x := form(t, kind, c[0])
			x.generate()
			text := x.text("#text")
			if !regexp.MustCompile(c[1]).MatchString(text) {
				t.Errorf("the text is %q", text)
			}
			facts := x.text("#text-facts") // each choice has its probability
			if kind == "choice" && !regexp.MustCompile(`boy, too\d`).MatchString(facts) {
				t.Errorf("the facts are %q", facts)
			}
			line := copied(x, "text", "command")
			if got := shell(t, line); strings.TrimSpace(got) != strings.TrimSpace(text) {
				t.Errorf("%s prints %q, want %q", line, got, text)
			}
			line = copied(x, "text", "curl")
			var answer struct{ Choices []struct{ Text string } }
			x.ok(json.Unmarshal([]byte(shell(t, line)), &answer))
			if strings.TrimSpace(answer.Choices[0].Text) != strings.TrimSpace(text) {
				t.Errorf("%s answers %v, want %q", line, answer, text)
			}
			link := copied(x, "text", "link")
			y := open(t, shared, link[strings.Index(link, "#")+1:])
			y.finish()
			if got := y.text("#text"); got != text {
				t.Errorf("%s gives %q, want %q", link, got, text)
			}
		})
	}
}

// What is wrong with a form is said at its field, before anything runs.
func TestFormErrors(t *testing.T) {
	for _, c := range [][3]string{
		{"schema", `{"type": `, "This is not JSON"},
		{"schema", `{"unevaluatedItems": false}`, "schema is unevaluatedItems at #"},
		{"regex", `(`, "missing closing )"},
	} {
		x := form(t, c[0], c[1])
		x.click("#run")
		x.until(`document.activeElement.id === "set-%s"`, c[0])
		if got := x.text("#set-" + c[0] + "-error"); !strings.Contains(got, c[2]) {
			t.Errorf("%s says %q, want %q", c[1], got, c[2])
		}
		x.do(chromedp.SendKeys("#set-"+c[0], "x"))
		x.until(`!document.querySelector("[aria-invalid]")`)
	}
	x := open(t, shared, "mode=text&length=2&regex=[a-z]{60}")
	x.click("#run")
	x.until(`document.activeElement.id === "set-length"`)
	if got := x.text("#set-length-error"); !strings.Contains(got, "tokens to fill, want") {
		t.Errorf("the field says %q", got)
	}
}

// Settings without effect on the model or the sampler are hidden, and few classes are a list.
func TestSettingsThatFit(t *testing.T) {
	shown := func(x *tab) []string {
		return eval[[]string](x, `
			document.querySelector("#settings details").open = true;
			return [...document.querySelectorAll("#settings [id^=set-]:is(input, select)")]
				.filter((e) => e.offsetParent).map((e) => e.id.slice(4))`)
	}
	for fragment, want := range map[string]struct{ some, none string }{
		"mode=text":                       {"steps length cache", "class guidance refresh"},
		"mode=text&sampler=p2":            {"steps length", "class guidance cache refresh"},
		"mode=text&sampler=moment":        {"steps cache", "class guidance refresh"},
		"mode=text&reuse=dkv":             {"refresh", "block-size"},
		"mode=image":                      {"class guidance", "length guidance-schedule"},
		"mode=image&class=day&guidance=2": {"class guidance-schedule", "length"},
	} {
		x := open(t, shared, fragment)
		got := shown(x)
		for _, name := range strings.Fields(want.some) {
			if !slices.Contains(got, name) {
				t.Errorf("%s shows %v, want %s too", fragment, got, name)
			}
		}
		for _, name := range strings.Fields(want.none) {
			if slices.Contains(got, name) {
				t.Errorf("%s shows %s, which has no effect", fragment, name)
			}
		}
	}
	x := open(t, shared, "mode=image")
	got := eval[[]string](x, `
		return [...document.getElementById("set-class").options].map((o) => o.text)`)
	if !slices.Equal(got, []string{"any", "dawn", "day", "dusk", "night"}) {
		t.Errorf("the classes are %v", got)
	}
}
