// Package browser checks the live page in a browser: Debian's chromium-headless-shell, or another
// that UNMASK_BROWSER names. It is a module of its own, so that the main one has no word of it.
package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// patience is how long anything on the page may take on a busy machine.
const patience = 60 * time.Second

var (
	program string          // unmask, built for these tests
	shared  string          // URL of a server that all tests share
	window  context.Context // of the browser that all tests share
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	path := findBrowser()
	if path == "" {
		fmt.Println("skipped: there is no browser, want chromium-headless-shell or UNMASK_BROWSER")
		return 0
	}
	dir, err := os.MkdirTemp("", "unmask-browser")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "unmask")
	build := exec.Command("go", "build", "-o", program, "./cmd/unmask")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Printf("go build: %v\n%s", err, out)
		return 1
	}
	s, err := serve("127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer s.stop()
	shared = s.url

	ctx, cancel := chromedp.NewExecAllocator(context.Background(), chromedp.NoSandbox,
		chromedp.Headless, chromedp.ExecPath(path), chromedp.WindowSize(1280, 900))
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	if err := chromedp.Do(ctx); err != nil {
		fmt.Printf("the browser does not start: %v\n", err)
		return 1
	}
	window = ctx
	return m.Run()
}

// findBrowser returns the path of a browser, "" where there is none.
func findBrowser() string {
	for _, name := range []string{os.Getenv("UNMASK_BROWSER"), "chromium-headless-shell", "chromium",
		"google-chrome"} {
		if path, err := exec.LookPath(name); name != "" && err == nil {
			return path
		}
	}
	return ""
}

// server is a running unmask serve.
type server struct {
	url string
	cmd *exec.Cmd
}

// serve starts unmask serve on an address and waits until its models are loaded.
func serve(address string, flags ...string) (*server, error) {
	cmd := exec.Command(program, append([]string{"serve", "--listen", address, "--log", "none"},
		flags...)...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{cmd: cmd}
	lines := bufio.NewScanner(stderr)
	var said []string
	for s.url == "" && lines.Scan() {
		said = append(said, lines.Text())
		if i := strings.Index(lines.Text(), "http://"); i >= 0 {
			s.url = strings.Fields(lines.Text()[i:])[0]
		}
	}
	go func() {
		for lines.Scan() {
		}
	}()
	for deadline := time.Now().Add(patience); s.url != "" && time.Now().Before(deadline); {
		r, err := http.Get(s.url + "/readyz")
		if err == nil {
			_ = r.Body.Close()
			if r.StatusCode == 200 {
				return s, nil
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.stop()
	return nil, fmt.Errorf("unmask serve does not begin: %s", strings.Join(said, "; "))
}

// stop ends the server as a machine that fails would.
func (s *server) stop() {
	_ = s.cmd.Process.Signal(syscall.SIGKILL)
	_ = s.cmd.Wait()
}

// freeAddress returns an address at which nobody listens.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// tab is a tab of the browser with a profile of its own.
type tab struct {
	*testing.T
	ctx context.Context

	mu       sync.Mutex
	said     []string // on the console, and errors
	asked    []string // URLs
	expected []string // parts of what may be said
}

// open opens the page with settings in the fragment of its address and waits until it is ready.
func open(t *testing.T, url, fragment string, before ...chromedp.Action[chromedp.Void]) *tab {
	x := newTab(t)
	x.do(before...)
	x.do(chromedp.Navigate(url+"/#"+fragment), chromedp.WaitReady("body.ready"))
	return x
}

// newTab opens a tab with a store of its own.
func newTab(t *testing.T) *tab {
	return tabOf(t, window, chromedp.WithNewBrowserContext())
}

// beside opens another tab with the same store.
func (x *tab) beside(url, fragment string) *tab {
	y := tabOf(x.T, x.ctx)
	y.do(chromedp.Navigate(url+"/#"+fragment), chromedp.WaitReady("body.ready"))
	return y
}

func tabOf(t *testing.T, parent context.Context, options ...chromedp.ContextOption) *tab {
	x := &tab{T: t}
	ctx, cancel := chromedp.NewContext(parent, options...)
	t.Cleanup(cancel)
	x.ctx = ctx
	err := chromedp.Listen(ctx, func(event any) {
		x.mu.Lock()
		defer x.mu.Unlock()
		switch e := event.(type) {
		case *runtime.EventConsoleAPICalled:
			text, _ := json.Marshal(e.Args)
			x.said = append(x.said, string(text))
		case *runtime.EventExceptionThrown:
			text, _ := json.Marshal(e.ExceptionDetails)
			x.said = append(x.said, string(text))
		case *network.EventRequestWillBeSent:
			x.asked = append(x.asked, e.Request.URL)
		}
	})
	x.ok(err)
	return x
}

func (x *tab) ok(err error) {
	if err != nil {
		x.Helper()
		x.Fatal(err)
	}
}

// do runs actions, for so long as the tests have patience.
func (x *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	x.Helper()
	for _, a := range actions {
		ctx, cancel := context.WithTimeout(x.ctx, patience)
		err := chromedp.Do(ctx, a)
		cancel()
		x.ok(err)
	}
}

// eval returns what JavaScript returns: statements, in which await may stand.
func eval[T any](x *tab, script string, args ...any) T {
	x.Helper()
	ctx, cancel := context.WithTimeout(x.ctx, patience)
	defer cancel()
	script = "(async () => {" + fmt.Sprintf(script, args...) + "})()"
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
	x.ok(err)
	return v
}

// until waits until an expression is true.
func (x *tab) until(expression string, args ...any) {
	x.Helper()
	expression = fmt.Sprintf(expression, args...)
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		if eval[bool](x, "return !!(%s)", expression) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	x.Fatalf("it never is true: %s; status %q, notice %q", expression, x.text("#status"),
		x.text("#notice-text"))
}

// text returns the text of an element.
func (x *tab) text(selector string) string {
	x.Helper()
	return eval[string](x, "return document.querySelector(%q).textContent", selector)
}

// click clicks an element with the mouse.
func (x *tab) click(selector string) {
	x.Helper()
	x.do(chromedp.Click(selector, chromedp.NodeVisible))
}

// finish waits until a run is done and the timeline shows its end.
func (x *tab) finish() {
	x.Helper()
	x.until(`!document.body.classList.contains("busy") && !page.panels[page.mode].timeline.timer`)
}

// generate runs what the page is set to.
func (x *tab) generate() {
	x.Helper()
	x.click("#run")
	x.finish()
	if status := x.text("#status"); status != "done" {
		x.Fatalf("status is %q, notice is %q", status, x.text("#notice-text"))
	}
}

// media emulates what the reader has set in the system.
func media(features map[string]string) chromedp.Action[chromedp.Void] {
	var list []*emulation.MediaFeature
	for name, value := range features {
		list = append(list, &emulation.MediaFeature{Name: name, Value: value})
	}
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia,
			emulation.SetEmulatedMediaParams{Features: list})
		return err
	})
}

// early runs JavaScript before any of the page's.
func early(script string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
		_, err := chromedp.Call(ctx, page.AddScriptToEvaluateOnNewDocument,
			page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
		return err
	})
}

// heard returns what was said on the console.
func (x *tab) heard() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]string(nil), x.said...)
}

// requests returns the URLs that were asked for.
func (x *tab) requests() []string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]string(nil), x.asked...)
}

// command runs unmask and returns what it prints.
func command(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).Output()
	if err != nil {
		t.Fatalf("unmask %s: %v", strings.Join(args, " "), err)
	}
	return string(out)
}
