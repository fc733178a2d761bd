package browser

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// A voice with random weights speaks: the sound is heard as it comes, and is the server's own, with
// the voice, the language and the speed that are set.
func TestSpeech(t *testing.T) {
	pack := filepath.Join("..", "..", "testdata", "packs", "omnivoice-tiny")
	voices := t.TempDir()
	data, err := os.ReadFile(filepath.Join(pack, "voice.pt"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(voices, "me.pt"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := serve("127.0.0.1:0", "--model", "voice="+pack, "--voices", voices)
	if err != nil {
		t.Fatal(err)
	}
	defer s.stop()
	x := open(t, s.url, "mode=speech&seed=7&steps=3&voice=me&language=de&speed=0.5&prompt=Good day.",
		early(`
			const start = AudioBufferSourceNode.prototype.start;
			window.played = 0;
			const named = URL.createObjectURL;
			URL.createObjectURL = (blob) => { window.sound = blob; return named.call(URL, blob); };
			AudioBufferSourceNode.prototype.start = function (at) { played += this.buffer.length; return start.call(this, at); }`))
	if got := x.text("#modes"); got != "Speech" {
		t.Errorf("a server of a voice offers %q", got)
	}
	x.generate()
	encoded := eval[string](x, `
		const bytes = new Uint8Array(await sound.arrayBuffer());
		return btoa(String.fromCharCode(...bytes))`)
	got, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	want := spoken(t, s.url, `{"input": "Good day.", "seed": 7, "steps": 3, "voice": "me", "language": "de",
		"speed": 0.5, "response_format": "pcm", "stream_format": "audio"}`)
	const header = 44
	if !bytes.Equal(got[header:], want) {
		t.Errorf("the page has %d bytes of sound, the server %d, or others", len(got)-header, len(want))
	}
	if n := eval[int](x, "return played"); 2*n != len(want) {
		t.Errorf("%d samples are played, want %d", n, len(want)/2)
	}
	x.until(`Math.abs(document.querySelector("#sounds audio").duration - %d / 48000) < 0.001`, len(want))
	if facts := x.text("#sounds .facts"); !strings.Contains(facts, "voiceme") ||
		!strings.Contains(facts, "seed7") {
		t.Errorf("the facts are %q", facts)
	}
	for _, v := range violations(x) {
		t.Error(v)
	}
	x.do(chromedp.EmulateViewport(390, 844), chromedp.SetValue("#set-language", "Englsh"))
	x.click("#run")
	x.until(`document.activeElement.id === "set-language"`)
	if got := x.text("#set-language-error"); !strings.Contains(got, "English") {
		t.Errorf("the field says %q", got)
	}
	if wide := eval[int](x, "return document.documentElement.scrollWidth - innerWidth"); wide > 0 {
		t.Errorf("the page is %d pixels too wide", wide)
	}
}

// spoken returns the bytes of an answer of speech.
func spoken(t *testing.T, url, body string) []byte {
	r, err := http.Post(url+"/v1/audio/speech", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var out bytes.Buffer
	if _, err := out.ReadFrom(r.Body); err != nil || r.StatusCode != 200 {
		t.Fatalf("status %d: %v %s", r.StatusCode, err, out.String())
	}
	return out.Bytes()
}
