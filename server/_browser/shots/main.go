// Shots takes the screenshots of docs: unmask serve runs at --url, PNG files are written to --out.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// shot is a picture of the page.
type shot struct {
	name          string
	width, height int64
	dark          bool
	fragment      string // of the address
	act           string // JavaScript that ends when there is something to see
}

// generate runs what the page is set to and waits for its end.
const generate = `document.getElementById("run").click(); await done();`

// inpaint makes a picture, paints a stroke onto it, and shows it half made anew.
const paint = generate + `page.panels.image.mask.assign([...Array(256).keys()].filter((i) => {
	const x = i % 16, y = i >> 4; return x > 3 && x < 12 && y > 3 && y < 9 }));`

var shots = []shot{
	{"text", 1280, 860, false, "mode=text&seed=7&steps=24&length=110&prompt=ROMEO:", generate + `page.panels.text.timeline.set(15);`},
	{"text-dark", 1280, 860, true, "mode=text&seed=7&steps=24&length=110&prompt=ROMEO:", generate},
	{"text-320", 320, 900, false, "mode=text&seed=7&steps=24&length=60&prompt=ROMEO:", generate},
	{"text-4k", 3840, 2160, false, "mode=text&seed=7&steps=24&prompt=ROMEO:", generate + `page.panels.text.timeline.set(15);`},
	{"holes", 1280, 860, false, "mode=text&seed=7&steps=24&length=80&prompt=ROMEO:", generate + `for (let i = 10; i < 20; i++) page.panels.text.view.mark(i, true);`},
	{"compare", 1280, 900, false, "mode=compare&seed=7&steps=16&length=70&prompt=ROMEO:&sampler=moment&other=random", generate},
	{"compare-dark", 1280, 900, true, "mode=compare&seed=7&steps=16&length=70&prompt=ROMEO:&sampler=moment&other=random", generate + `page.panels.compare.timeline.set(55)`},
	{"image", 1280, 900, false, "mode=image&seed=7", generate},
	{"image-half", 1280, 900, true, "mode=image&seed=7", generate + `page.panels.image.timeline.set(8); await new Promise(r => setTimeout(r, 800));`},
	{"paint", 1280, 900, false, "mode=image&seed=7", paint},
	{"image-320", 320, 1300, true, "mode=image&seed=7", paint},
	{"heat", 1280, 900, false, "mode=image&seed=7", generate + `document.querySelector("[value=sure]").click();`},
	{"chat", 1280, 860, false, "mode=chat&seed=7&length=40&steps=16", `document.getElementById("prompt").value="What news from Rome?";` + generate},
}

func main() {
	url := flag.String("url", "http://127.0.0.1:8080", "where unmask serve runs")
	out := flag.String("out", ".", "folder of the PNG files")
	only := flag.String("only", "", "names of the screenshots, with commas between; all of them without")
	flag.Parse()
	for _, s := range shots {
		if *only != "" && !strings.Contains(","+*only+",", ","+s.name+",") {
			continue
		}
		if err := take(s, *url, *out); err != nil {
			log.Fatalf("%s: %v", s.name, err)
		}
	}
}

// take writes one screenshot.
func take(s shot, url, out string) error {
	ctx, cancel := chromedp.NewExecAllocator(context.Background(), chromedp.NoSandbox, chromedp.Headless,
		chromedp.ExecPath("chromium-headless-shell"))
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx, chromedp.WithBrowserOption(chromedp.WithConsolef(func(f string, a ...any) { fmt.Printf("console: "+f+"\n", a...) })))
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	scheme := "light"
	if s.dark {
		scheme = "dark"
	}
	if _, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}}); err != nil {
		return err
	}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(s.width, s.height), chromedp.Navigate(url+"/#"+s.fragment),
		chromedp.WaitReady("body.ready")); err != nil {
		return err
	}
	script := `(async () => {
		const done = async () => {
			const sleep = (ms) => new Promise((r) => setTimeout(r, ms)), t = () => page.panels[page.mode].timeline;
			await sleep(300);
			while (document.body.classList.contains("busy") || t().timer) await sleep(50);
			await sleep(700);
		};
		` + s.act + `
		return document.documentElement.scrollWidth > innerWidth ? "it scrolls sideways: " + document.documentElement.scrollWidth : "";
	})()`
	wide, err := chromedp.Run(ctx, chromedp.Evaluate[string](script, chromedp.EvalAwaitPromise))
	if err != nil {
		return err
	}
	if wide != "" {
		fmt.Println(s.name, wide)
	}
	if err := chromedp.Do(ctx, chromedp.Sleep(300*time.Millisecond)); err != nil {
		return err
	}
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, s.name+".png"), png, 0o644)
}
