package browser

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
)

// proxy stands between the browser and the shared server; before may answer in its place.
func proxy(t *testing.T, before func(w http.ResponseWriter, r *http.Request) bool) string {
	forward := forwarder(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !before(w, r) {
			forward.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// forwarder hands requests to the shared server as they come, and its answers as they are written.
func forwarder(t *testing.T) http.Handler {
	to, err := url.Parse(shared)
	if err != nil {
		t.Fatal(err)
	}
	return &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.Out.Header.Del("Origin") // the page's is the proxy, which the server does not know
		r.Out.Header.Del("Sec-Fetch-Site")
	}}
}

// Runs that go on for long enough to be disturbed: one that ends, and one that is to be cancelled.
const (
	long   = "mode=text&seed=3&steps=120&length=120&cache=0&sampler=info-gain&prompt="
	longer = "mode=text&seed=3&steps=250&length=250&cache=0&sampler=info-gain&prompt="
)

// metric returns the sum of a metric of a server over its labels.
func metric(t *testing.T, address, name string) (sum float64) {
	r, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, name) {
			var value float64
			if _, err := fmt.Sscan(line[strings.LastIndex(line, " ")+1:], &value); err != nil {
				t.Fatal(err)
			}
			sum += value
		}
	}
	return sum
}

func TestCancel(t *testing.T) {
	metrics := freeAddress(t)
	s, err := serve("127.0.0.1:0", "--metrics", metrics)
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	x := open(t, s.url, longer+"&other=info-gain(sets=7)",
		early(`localStorage["unmaskSeen-compare"] = 1`)) // else the mode plays something first
	cancelled := func(want float64) {
		x.click("#run")
		x.until(`document.getElementById("status").textContent === "opening"`)
		x.click("#cancel")
		x.until(`document.getElementById("status").textContent === "cancelled"`)
		for deadline := time.Now().Add(patience); metric(t, metrics, "unmask_cancelled_total") != want; {
			if time.Now().After(deadline) {
				t.Fatalf("%v requests were cancelled, want %v", metric(t, metrics, "unmask_cancelled_total"),
					want)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	cancelled(1)
	x.click("#modes [value=compare]") // two streams
	cancelled(3)
	if eval[bool](x, `return document.body.classList.contains("busy")`) {
		t.Error("the page is still busy")
	}
}

// stopped runs other settings and cancels them under way.
func stopped(x *tab, fragment string) {
	x.Helper()
	eval[bool](x, "location.hash = %q; return true", fragment)
	x.until(`document.getElementById("set-seed").value === new URLSearchParams(%q).get("seed")`, fragment)
	x.click("#run")
	x.until(`document.getElementById("status").textContent === "opening"`)
	x.click("#cancel")
	x.until(`document.getElementById("status").textContent === "cancelled"`)
}

// What is beside a cancelled run is of it and not of the run before; one that is refused leaves
// that run as it was.
func TestCancelled(t *testing.T) {
	x := open(t, shared, settings)
	x.generate()
	text, line := x.text("#text"), copied(x, "text", "command")
	eval[bool](x, "location.hash += %q; return true", "&top-p=9")
	x.until(`document.getElementById("set-top-p").value === "9"`)
	x.click("#run")
	x.until(`document.querySelector(".error")`)
	if got := x.text("#text"); got != text {
		t.Errorf("a refused run leaves %q, want %q", got, text)
	}
	if got := copied(x, "text", "command"); got != line {
		t.Errorf("a refused run leaves %q, want %q", got, line)
	}
	stopped(x, longer)
	if seed, got := x.text("#text-facts dd"), x.text("#text-actions"); seed != "3" || got != "" {
		t.Errorf("beside the cancelled seed 3 are seed %s and %q", seed, got)
	}

	x = open(t, shared, "mode=compare&seed=5&steps=4&length=20")
	x.generate()
	stopped(x, strings.Replace(longer, "text", "compare", 1)+"&other=info-gain(sets=7)")
	if got := eval[string](x, `
		return [...document.querySelectorAll("#pair .facts")].map((e) => e.textContent).join("")`); got != "" {
		t.Errorf("beside two cancelled samplers is %q", got)
	}
}

// A server that dies in the middle of a run, and comes back, gives the same bytes.
func TestRestart(t *testing.T) {
	address := freeAddress(t)
	s, err := serve(address)
	if err != nil {
		t.Fatal(err)
	}
	x := open(t, s.url, long)
	x.click("#run")
	x.until(`document.getElementById("status").textContent === "opening"`)
	s.stop()
	x.until(`!document.getElementById("notice").hidden`)
	if got := x.text("#notice-text"); !strings.Contains(got, "The connection was lost") {
		t.Errorf("the notice is %q", got)
	}
	s, err = serve(address)
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	x.click("#retry")
	x.finish()
	want := command(t, "text", "--seed", "3", "--steps", "120", "--length", "120",
		"--cache=0", "--sampler", "info-gain")
	if got := x.text("#text"); got+"\n" != want {
		t.Errorf("the page has %q, want %q", got, want)
	}
}

func TestBusy(t *testing.T) {
	var asked atomic.Int32
	url := proxy(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != "POST" || asked.Add(1) > 2 {
			return false
		}
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(429)
		fmt.Fprint(w, `{"error":{"message":"the queue is full","type":"rate_limit_error","code":"queue_full"}}`)
		return true
	})
	x := open(t, url, settings)
	eval[bool](x, `
		window.said = [];
		const status = document.getElementById("status");
		new MutationObserver(() => said.push(status.textContent)).observe(status, { childList: true, characterData: true, subtree: true });
		return true`)
	x.click("#run")
	x.finish()
	said := strings.Join(eval[[]string](x, "return said"), "\n")
	for _, want := range []string{"busy. Trying again in 2 s", "Trying again in 1 s"} {
		if !strings.Contains(said, want) {
			t.Errorf("the status was %q, want %q in it", said, want)
		}
	}
	if asked.Load() != 3 || !strings.Contains(x.text("#text"), "Once") {
		t.Errorf("after %d requests the text is %q", asked.Load(), x.text("#text"))
	}
	asked.Store(1000)
	x.click("#run")
	x.finish()
	asked.Store(-1000)
	x.click("#run")
	x.until(`/Trying again/.test(document.getElementById("status").textContent)`)
	x.click("#cancel")
	x.until(`document.getElementById("status").textContent === "cancelled"`)
}

// A server that ends says so, and is not taken for a busy one.
func TestDraining(t *testing.T) {
	url := proxy(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != "POST" {
			return false
		}
		w.Header().Set("Retry-After", "9")
		w.WriteHeader(503)
		fmt.Fprint(w, `{"error":{"message":"the server ends","type":"server_error","code":"shutting_down"}}`)
		return true
	})
	x := open(t, url, settings)
	x.click("#run")
	x.until(`document.getElementById("status").textContent.startsWith("The server is shutting down. Trying again")`)
}

func TestKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte("me:a-key-of-24-characters!!\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := serve("127.0.0.1:0", "--keys", file)
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	x := newTab(t)
	x.do(chromedp.Navigate(s.url + "/#" + settings))
	for _, key := range []string{"a-wrong-key-of-the-same-size", "a-key-of-24-characters!!"} {
		x.until(`document.getElementById("key").open && !document.getElementById("key-value").value`)
		x.do(chromedp.SendKeys("#key-value", key), chromedp.KeyEvent("\r"))
	}
	x.do(chromedp.WaitReady("body.ready"))
	x.generate()
	kept := eval[[]int](x, `return [Object.values(localStorage).filter((v) => v.includes("a-key-of")).length,
		document.cookie.length, sessionStorage.length]`)
	if fmt.Sprint(kept) != "[0 0 1]" {
		t.Errorf("the key is in local storage, cookies and session storage %v times", kept)
	}
	if link := eval[string](x, "return location.href"); strings.Contains(link, "key") {
		t.Errorf("the link is %s", link)
	}
	line := copied(x, "text", "curl")
	if !strings.Contains(line, "$UNMASK_KEY") || strings.Contains(line, "a-key-of") {
		t.Errorf("the request is %s", line)
	}
}

// Ten megabytes of events leave room in memory and time for the reader.
func TestLongStream(t *testing.T) {
	const length, bytes = 1024, 10 << 20
	url := proxy(t, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != "POST" {
			return false
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, `event: start`+"\n"+`data: {"trace":1,"model":"m","sampler":"s","seed":1,`+
			`"shape":[%d],"hole":"▯","known":[]}`+"\n\n", length)
		steps, sent := bytes/(256*70), 0
		for n := 1; n <= steps; n++ {
			var b strings.Builder
			fmt.Fprintf(&b, `event: step`+"\n"+`data: {"sample":0,"step":%d,"steps":%d,"opened":[`, n, steps)
			from := rand.IntN(length)
			for i := range 256 {
				if i > 0 {
					b.WriteString(",")
				}
				fmt.Fprintf(&b, `{"position":%d,"token":%d,"piece":" piece%d","p":0.%d}`, (from+i*3)%length,
					100+i, n%100, 1000000000000000+n)
			}
			fmt.Fprintf(&b, `],"done":%v}`+"\n\n", n == steps)
			k, _ := io.WriteString(w, b.String())
			sent += k
		}
		if sent < bytes {
			t.Errorf("%d bytes are sent", sent)
		}
		fmt.Fprint(w, "event: done\ndata: {\"choices\":[{\"text\":\"\"}],\"unmask\":{}}\n\n")
		return true
	})
	x := open(t, url, "mode=text&seed=1")
	_, err := chromedp.Call(x.ctx, performance.Enable, performance.EnableParams{
		TimeDomain: performance.EnableTimeDomainThreadTicks})
	x.ok(err)
	before := measure(x)
	eval[bool](x, "window.frames = 0; const f = () => { window.frames++; requestAnimationFrame(f); }; f(); return true")
	x.generate()
	after := measure(x)
	if heap := after["JSHeapUsedSize"]; heap > 100e6 {
		t.Errorf("the heap has %.0f bytes, want less than 100 MB", heap)
	}
	busy := after["TaskDuration"] - before["TaskDuration"]
	frames := eval[float64](x, "return window.frames")
	if busy/frames > 0.1 {
		t.Errorf("a frame takes %.3f s of work, want less than 0.1", busy/frames)
	}
	t.Logf("heap %.0f MB, %.0f frames of %.1f ms", after["JSHeapUsedSize"]/1e6, frames,
		1000*busy/frames)
}

// measure returns the browser's own figures of a tab, after what is not needed is freed.
func measure(x *tab) map[string]float64 {
	_, err := chromedp.Call(x.ctx, heapprofiler.CollectGarbage, cdp.Empty{})
	x.ok(err)
	list, err := chromedp.Call(x.ctx, performance.GetMetrics, cdp.Empty{})
	x.ok(err)
	out := map[string]float64{}
	for _, m := range list.Metrics {
		out[m.Name] = m.Value
	}
	return out
}

// At 50 KB a second the page is there in a few seconds and a run opens step by step.
func TestSlowNetwork(t *testing.T) {
	forward := forwarder(t)
	var sent atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		forward.ServeHTTP(&slow{ResponseWriter: w, sent: &sent}, r)
	}))
	t.Cleanup(s.Close)
	x := open(t, s.URL, settings)
	if took := sent.Load() / perSecond; took > 10 {
		t.Errorf("the page takes %d s for %d bytes", took, sent.Load())
	}
	x.generate()
	if !strings.Contains(x.text("#text"), "Once upon") {
		t.Errorf("the text is %q", x.text("#text"))
	}
	t.Logf("%d bytes are sent", sent.Load())
}

// perSecond are the bytes of a slow network.
const perSecond = 50_000

// slow sends perSecond bytes a second, over all connections.
type slow struct {
	http.ResponseWriter
	sent *atomic.Int64
}

func (s *slow) Write(p []byte) (int, error) {
	s.sent.Add(int64(len(p)))
	time.Sleep(time.Duration(len(p)) * time.Second / perSecond)
	return s.ResponseWriter.Write(p)
}

func (s *slow) Unwrap() http.ResponseWriter { return s.ResponseWriter }
