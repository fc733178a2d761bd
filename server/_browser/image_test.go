package browser

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// cell returns the middle of a cell of the grid, in pixels of the window.
func cell(x *tab, row, column int) (float64, float64) {
	x.Helper()
	at := eval[[]float64](x, `
		const c = document.querySelectorAll("#cells [role=gridcell]")[%d];
		c.scrollIntoView({ block: "center" });
		const b = c.getBoundingClientRect();
		return [b.x + b.width / 2, b.y + b.height / 2]`, row*16+column)
	return at[0], at[1]
}

// stroke presses the mouse in one cell and lets it go in another.
func stroke(x *tab, row, column, toRow, toColumn int) {
	x.Helper()
	cell(x, (row+toRow)/2, (column+toColumn)/2)
	px, py := at(x, row, column)
	qx, qy := at(x, toRow, toColumn)
	left := chromedp.ButtonType(input.MouseButtonLeft)
	x.do(chromedp.MouseEvent(input.DispatchMouseEventTypeMousePressed, px, py, left),
		chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, qx, qy, left),
		chromedp.MouseEvent(input.DispatchMouseEventTypeMouseReleased, qx, qy, left))
}

// at returns the middle of a cell where the page is scrolled to.
func at(x *tab, row, column int) (float64, float64) {
	x.Helper()
	at := eval[[]float64](x, `
		const b = document.querySelectorAll("#cells [role=gridcell]")[%d].getBoundingClientRect();
		return [b.x + b.width / 2, b.y + b.height / 2]`, row*16+column)
	return at[0], at[1]
}

// marked returns the cells that are painted.
func marked(x *tab) string {
	x.Helper()
	return eval[string](x, `
		return [...document.querySelectorAll("#cells .marked")].map((c) => c.at).join(" ")`)
}

// choose selects an option, as a reader does.
func choose(x *tab, selector, value string) {
	x.Helper()
	x.do(chromedp.SetValue(selector, value))
	eval[bool](x, `
		for (const type of ["input", "change"])
			document.querySelector(%q).dispatchEvent(new Event(type, { bubbles: true }));
		return true`, selector)
}

func rectangle(top, left, bottom, right int) (out string) {
	for y := top; y <= bottom; y++ {
		for z := left; z <= right; z++ {
			out += fmt.Sprintf(" %d", y*16+z)
		}
	}
	return out[min(1, len(out)):]
}

func TestPaint(t *testing.T) {
	x := open(t, shared, "mode=image&seed=5")
	x.generate()
	tool := func(name string) { choose(x, "#tool", name) }
	stroke(x, 3, 2, 3, 9)
	if got, want := marked(x), rectangle(3, 2, 3, 9); got != want {
		t.Errorf("the stroke marks %s, want %s", got, want)
	}
	tool("rectangle")
	stroke(x, 8, 11, 5, 9)
	both := rectangle(3, 2, 3, 9) + " " + rectangle(5, 9, 8, 11)
	if got := marked(x); got != both {
		t.Errorf("the rectangle marks %s, want %s", got, both)
	}
	tool("eraser")
	stroke(x, 3, 2, 3, 8)
	if got, want := marked(x), rectangle(3, 9, 3, 9)+" "+rectangle(5, 9, 8, 11); got != want {
		t.Errorf("the eraser leaves %s, want %s", got, want)
	}
	x.click("#undo")
	if got := marked(x); got != both {
		t.Errorf("undo gives %s, want %s", got, both)
	}
	x.click("#clear")
	if got := marked(x); got != "" {
		t.Errorf("%s are left", got)
	}
	x.click("#undo")
	if got := marked(x); got != both {
		t.Errorf("undo gives %s, want %s", got, both)
	}
}

// Cells that are not painted keep the codes that the picture's encoder gives them.
func TestInpaint(t *testing.T) {
	x := open(t, shared, "mode=image&seed=5")
	x.generate()
	codes := eval[[]int](x, `
		const form = new FormData();
		form.set("image", page.panels.image.source.blob);
		return (await (await fetch("/v1/images/encode", { method: "POST", body: form })).json()).codes`)
	choose(x, "#tool", "rectangle")
	stroke(x, 2, 3, 9, 12)
	x.click("#inpaint")
	x.finish()
	if got := x.text("#status"); got != "done" {
		t.Fatalf("status is %q, notice is %q", got, x.text("#notice-text"))
	}
	after := eval[[]int](x, "return page.panels.image.current.trace.tokens()")
	changed := 0
	for i, code := range after {
		row, column := i/16, i%16
		if row >= 2 && row <= 9 && column >= 3 && column <= 12 {
			if code != codes[i] {
				changed++
			}
		} else if code != codes[i] {
			t.Errorf("cell %d was kept, but has code %d, want %d", i, code, codes[i])
		}
	}
	if changed < 20 {
		t.Errorf("%d of 80 cells are new", changed)
	}
	if n := eval[int](x, `return document.querySelectorAll("#strip button").length`); n != 2 {
		t.Errorf("the strip has %d pictures, want 2", n)
	}
	x.click("#strip button:first-child")
	if seed := x.text("#image-facts dd"); seed != "5" {
		t.Errorf("the first picture's seed is %s", seed)
	}
}

// The picture on the way is decoded; what is masked there is checkered.
func TestPictureOpens(t *testing.T) {
	x := open(t, shared, "mode=image&seed=5&steps=8")
	x.generate()
	x.until(`document.getElementById("picture").complete`)
	first := eval[string](x, `return document.getElementById("picture").src`)
	eval[bool](x, "page.panels.image.timeline.set(4); return true")
	x.until(`document.getElementById("picture").src !== %q`, first)
	x.until(`document.querySelectorAll("#cells .fresh").length === 0`)
	open := eval[int](x, "return page.panels.image.current.trace.open[4]")
	if n := eval[int](x, `return document.querySelectorAll("#cells .masked").length`); n != 256-open {
		t.Errorf("%d cells are masked, want %d", n, 256-open)
	}
	choose(x, "#view", "sure")
	if n := eval[int](x, `return document.querySelectorAll("#cells .heat").length`); n != open {
		t.Errorf("%d cells show how sure they are, want %d", n, open)
	}
}

// The saved film is that of the command.
func TestFilm(t *testing.T) {
	x := open(t, shared, "mode=image&seed=5&steps=6")
	x.generate()
	eval[bool](x, `
		const real = URL.createObjectURL;
		URL.createObjectURL = (blob) => {
			if (!blob.type) window.saved = blob; // others are shown
			return real(blob);
		};
		return true`)
	x.click("#image-actions [aria-label='Save GIF']")
	x.until("window.saved")
	got := eval[string](x, `
		const bytes = new Uint8Array(await saved.arrayBuffer());
		return Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("")`)
	name := filepath.Join(t.TempDir(), "film.gif")
	command(t, "image", "-n", "1", "--seed", "5", "--steps", "6", "--gif", name, "--sheet",
		filepath.Join(t.TempDir(), "sheet.png"))
	want, err := os.ReadFile(name)
	x.ok(err)
	if got != hex.EncodeToString(want) {
		t.Errorf("the page's film has %d bytes, the command's %d", len(got)/2, len(want))
	}
}

// A picture that does not become ready has no actions and cannot be painted on; one of the strip
// can, also while another opens.
func TestHalfPicture(t *testing.T) {
	x := open(t, shared, "mode=image&seed=5&class=night")
	x.generate()
	stopped(x, "mode=image&seed=6&class=day&sampler=random&steps=250")
	stroke(x, 3, 2, 3, 9)
	seed, got := x.text("#image-facts dd"), x.text("#image-actions")+marked(x)
	if seed != "6" || got != "" {
		t.Errorf("beside the cancelled seed 6 are seed %s and %q", seed, got)
	}
	if eval[bool](x, `return !!document.querySelector("#strip [aria-pressed=true]")`) {
		t.Error("a picture of the strip is pressed, and another is shown")
	}
	for range 2 {
		x.click("#strip button")
		x.until(`!document.body.classList.contains("busy")`)
		x.click("#clear")
		stroke(x, 3, 2, 3, 9)
		seed, got := x.text("#image-facts dd"), marked(x)
		if seed != "5" || got != rectangle(3, 2, 3, 9) {
			t.Errorf("on seed %s %q is painted", seed, got)
		}
		if eval[bool](x, `return document.getElementById("inpaint").disabled`) {
			t.Error("painted cells cannot be made new")
		}
		x.click("#run")
		x.until(`document.getElementById("status").textContent === "opening"`)
		if !eval[bool](x, `return document.getElementById("inpaint").disabled`) {
			t.Error("cells painted before are to be made new in a picture that opens")
		}
	}
}

// A picture of the reader's is cut to the model's size and can be painted on.
func TestUpload(t *testing.T) {
	picture := image.NewRGBA(image.Rect(0, 0, 90, 60))
	for i := range picture.Pix {
		picture.Pix[i] = 255
	}
	picture.Set(3, 3, color.Black)
	name := filepath.Join(t.TempDir(), "own.png")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := png.Encode(f, picture); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	x := open(t, shared, "mode=image&seed=5&steps=4")
	x.generate()
	x.do(chromedp.SetUploadFiles("#file", []string{name}))
	x.until(`document.querySelectorAll("#strip button").length === 2`)
	if got := x.text("#image-facts") + x.text("#image-actions"); got != "" {
		t.Errorf("the picture made before has left %q", got)
	}
	size := eval[[]int](x, `
		const b = await createImageBitmap(page.panels.image.source.blob);
		return [b.width, b.height]`)
	if !slices.Equal(size, []int{64, 64}) {
		t.Errorf("the picture is %v pixels", size)
	}
	stroke(x, 4, 4, 8, 8)
	x.click("#inpaint")
	x.finish()
	var cells []int
	x.ok(json.Unmarshal([]byte(eval[string](x,
		"return JSON.stringify(page.panels.image.current.answer.unmask.cells)")), &cells))
	if len(cells) == 0 || x.text("#status") != "done" {
		t.Errorf("%d cells are new, status is %q", len(cells), x.text("#status"))
	}
}
