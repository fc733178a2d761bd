package browser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestPictures writes the pictures of docs/serving, and of other widths and colours, into the
// folder that UNMASK_PICTURES names.
func TestPictures(t *testing.T) {
	dir := os.Getenv("UNMASK_PICTURES")
	if dir == "" {
		t.Skip("UNMASK_PICTURES names no folder")
	}
	const text = "mode=text&seed=3&steps=24&length=90&prompt=Lily was a brave girl."
	const compare = "mode=compare&seed=3&steps=24&length=70&prompt=Lily was a brave girl.&" +
		"sampler=moment&other=halton"
	inpaint := func(x *tab) {
		choose(x, "#tool", "rectangle")
		stroke(x, 3, 4, 9, 12)
	}
	for name, p := range map[string]struct {
		fragment, scheme string
		width, height    int64
		after            func(*tab)
	}{
		"text":         {text, "light", 1200, 760, func(x *tab) { halfway(x, 2.0/3) }},
		"compare":      {compare, "light", 1200, 860, func(x *tab) { halfway(x, 0.8) }},
		"inpaint":      {"mode=image&seed=5", "dark", 1200, 860, inpaint},
		"text-dark":    {text, "dark", 1200, 760, func(x *tab) { halfway(x, 2.0/3) }},
		"text-narrow":  {text, "light", 320, 1500, nil},
		"image-narrow": {"mode=image&seed=5", "dark", 320, 1500, inpaint},
		"image-light":  {"mode=image&seed=5", "light", 1200, 860, func(x *tab) { halfway(x, 0.5) }},
		"text-4k":      {text, "light", 3840, 2160, nil},
		"compare-dark": {compare, "dark", 1200, 760, nil},
	} {
		t.Run(name, func(t *testing.T) {
			x := open(t, shared, p.fragment,
				media(map[string]string{"prefers-color-scheme": p.scheme}),
				chromedp.EmulateViewport(p.width, p.height))
			x.generate()
			if p.after != nil {
				p.after(x)
			}
			write(x, filepath.Join(dir, name+".png"))
		})
	}
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
	data, err := chromedp.Run(x.ctx, chromedp.CaptureScreenshot())
	x.ok(err)
	x.ok(os.WriteFile(name, data, 0o644))
}
