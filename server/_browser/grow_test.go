package browser

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// growing is the folder of a small model with DreamOn's two tokens, whose weights are random.
var growing = filepath.Join("..", "..", "testdata", "packs", "dreamon-tiny")

// hole is what pieces returns for a masked position.
const hole = "-"

// pieces returns what the text shows after step k, position by position.
func pieces(x *tab, k int) []string {
	return eval[[]string](x, `
		page.panels.text.timeline.move(0);
		page.panels.text.timeline.set(%d);
		return [...document.querySelectorAll("#text .p")].map((s) => s.matches(".hole") ? %q : s.textContent)`,
		k, hole)
}

// A hole of unknown length grows and shrinks on the page as in the trace, at every step and from
// whichever side one comes to it. Pieces of the finished text become holes at their own positions.
func TestGrowingText(t *testing.T) {
	s, err := serve("127.0.0.1:0", "--model", "grow="+growing)
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	const prompt = "30 31 32[?]90"
	grown, shrunk := false, false
	for _, seed := range []int{10, 1} {
		x := open(t, s.url, fmt.Sprintf("mode=text&model=grow&seed=%d&temperature=1.6&prompt=%s", seed,
			strings.ReplaceAll(prompt, " ", "+")))
		if got := x.text("#prompt-help"); !strings.Contains(got, "[?]") {
			t.Errorf("the help of the prompt is %q", got)
		}
		x.generate()
		first, steps := trace(x, s.url+"/v1/infill", fmt.Sprintf(`{"model":"grow","text":%q,"seed":%d,`+
			`"temperature":1.6,"stream":"events"}`, prompt, seed))
		now := slices.Repeat([]string{hole}, first.Shape[0])
		for _, p := range first.Known {
			now[p.Position] = p.Piece
		}
		states := [][]string{slices.Clone(now)}
		for _, s := range steps {
			for _, r := range s.Resized {
				now = slices.Replace(now, r.Position, r.Position+1, slices.Repeat([]string{hole}, r.Into)...)
				grown, shrunk = grown || r.Into == 2, shrunk || r.Into == 0
			}
			for _, p := range s.Opened {
				now[p.Position] = p.Piece
			}
			states = append(states, slices.Clone(now))
		}
		for i := range 2 * len(states) {
			k := min(i, 2*len(states)-1-i) // forwards, then backwards
			if got := pieces(x, k); !slices.Equal(got, states[k]) {
				t.Fatalf("seed %d: step %d of %d shows %q, want %q", seed, k, len(steps), got, states[k])
			}
		}
		pieces(x, len(steps))
		want := command(t, "text", "--model", growing, "--infill", prompt, "--seed", fmt.Sprint(seed),
			"--temperature", "1.6")
		if got := eval[string](x, "return page.panels.text.current.answer.choices[0].text"); got+"\n" != want {
			t.Errorf("seed %d: the answer is %q, the command's %q", seed, got, want)
		}
		refilled(x)
		for _, v := range violations(x) {
			t.Error(v)
		}
	}
	if !grown || !shrunk {
		t.Errorf("holes grow: %v, shrink: %v, want both", grown, shrunk)
	}
}

// refilled marks two pieces of the finished text and fills them again.
func refilled(x *tab) {
	x.Helper()
	before := eval[[]int](x, "return page.panels.text.current.trace.tokens()")
	x.click("#text .p:nth-child(2)")
	x.click("#text .p:nth-last-child(2)")
	x.click("#fill-run")
	x.finish()
	body := eval[struct{ Tokens []*int }](x, "return page.panels.text.current.body")
	if len(body.Tokens) != len(before) {
		x.Fatalf("%d tokens are sent, want %d", len(body.Tokens), len(before))
	}
	for i, token := range body.Tokens {
		marked := i == 1 || i == len(before)-2
		if marked != (token == nil) || !marked && *token != before[i] {
			x.Errorf("token %d of %d is sent as %v", i, len(before), token)
		}
	}
	after := eval[[]int](x, "return page.panels.text.current.trace.tokens()")
	n, m := len(before), len(after)
	if m < n-2 || after[0] != before[0] || after[m-1] != before[n-1] {
		x.Errorf("the text was %v and is %v", before, after)
	}
}

// Two samplers, one of which keeps the length of a hole, are compared side by side.
func TestGrowingCompare(t *testing.T) {
	s, err := serve("127.0.0.1:0", "--model", "grow="+growing)
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	x := open(t, s.url, "mode=compare&model=grow&seed=2&prompt=12+11[?]17+18&sampler=dreamon&other=random")
	x.generate()
	lengths := eval[[]int](x, `return page.panels.compare.sides.map((s) => s.run.trace.length)`)
	shown := eval[[]int](x, `return [...document.querySelectorAll("#pair .text")].map((t) => t.querySelectorAll(".p").length)`)
	if !slices.Equal(lengths, shown) || lengths[1] != 10 {
		t.Errorf("%v positions are shown of %v", shown, lengths)
	}
	eval[bool](x, "page.panels.compare.timeline.set(0); return true")
	if n := eval[int](x, `return document.querySelectorAll("#pair .text:first-of-type .hole").length`); n != 8 {
		t.Errorf("%d holes are shown at the start, want 8", n)
	}
}
