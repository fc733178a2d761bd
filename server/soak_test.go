package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"unmask"
	"unmask/demo"
	"unmask/server"
)

// maxServerMemory is the figure of docs/serving.md: what a server takes at most beside its weights,
// --memory and --keep.
const maxServerMemory = 2 << 30

// soakServer is set in the environment of the process that serves for TestSoak.
const soakServer = "UNMASK_TEST_SOAK_SERVER"

// serveSoak serves all kinds of models until the standard input ends, and writes its URL. For each
// line that it reads it gives free memory back to the system, and writes a line.
func serveSoak() error {
	server.TuneProcess()
	s, err := server.New(server.Options{})
	if err != nil {
		return err
	}
	for _, name := range []string{"demo", "demo-image"} {
		if err := s.Add(server.Model{Name: name, Model: loaded()[name]}); err != nil {
			return err
		}
	}
	chat, err := unmask.LoadFS(demo.Chat(), "demo-chat", unmask.Options{Threads: 2})
	if err != nil {
		return err
	}
	if err := s.Add(server.Model{Name: "chat", Model: chat}); err != nil {
		return err
	}
	for _, name := range []string{"embed-bert-tiny", "omnivoice-tiny"} {
		m, err := unmask.Load(context.Background(), "../testdata/packs/"+name,
			unmask.Options{Threads: 2})
		if err != nil {
			return err
		}
		if err := s.Add(server.Model{Name: name, Model: m}); err != nil {
			return err
		}
	}

	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		listeners := server.Listeners{Address: "127.0.0.1:0", Drain: time.Second}
		done <- s.Run(ctx, ctx, listeners, func(url string) { fmt.Println(url) })
	}()
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		for range 2 { // pools of buffers forget one time later
			debug.FreeOSMemory()
		}
		fmt.Println("freed")
	}
	cancel()
	return <-done
}

// soaked is a server in a process of its own.
type soaked struct {
	url     string
	process *os.Process
	input   io.WriteCloser
	lines   *bufio.Scanner
}

// startSoaked starts a server that ends with the test.
func startSoaked(t *testing.T) *soaked {
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), soakServer+"=1")
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	require.NoError(t, err)
	output, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	s := &soaked{process: command.Process, input: input, lines: bufio.NewScanner(output)}
	t.Cleanup(func() {
		input.Close()
		require.NoError(t, command.Wait())
	})
	require.True(t, s.lines.Scan())
	s.url = s.lines.Text()
	return s
}

// memory returns a figure of the process in bytes: VmRSS, what is resident, or VmHWM, the most that
// ever was.
func (s *soaked) memory(t *testing.T, figure string) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.process.Pid))
	require.NoError(t, err)
	found := regexp.MustCompile(figure + `:\s+(\d+) kB`).FindSubmatch(status)
	require.NotNil(t, found, "%s", status)
	kilobytes, err := strconv.ParseInt(string(found[1]), 10, 64)
	require.NoError(t, err)
	return kilobytes << 10
}

// resident returns what is resident once free memory was given back to the system.
func (s *soaked) resident(t *testing.T) int64 {
	fmt.Fprintln(s.input)
	require.True(t, s.lines.Scan())
	return s.memory(t, "VmRSS")
}

// soakRequest is a request of TestSoak.
type soakRequest struct {
	path string
	kind string
	body []byte
}

// soakBodies are small requests of the routes that take no passes.
var soakBodies = map[string]string{
	"/v1/messages/count_tokens": `{"model":"chat",` + asking + `}`,
	"/api/show":                 `{"model":"demo"}`,
	"/v1/images/decode":         `{"codes":[0]}`,
	"/v1/tokenize":              `{"text":"A"}`,
	"/v1/detokenize":            `{"tokens":[1]}`,
	"/tokenize":                 `{"prompt":"A"}`,
	"/detokenize":               `{"tokens":[1]}`,
}

// smallSoak returns a small request of a route.
func smallSoak(t *testing.T, path string, seed int) soakRequest {
	body := soakBodies[path]
	if computing[path] != "" {
		body = fmt.Sprintf(computing[path], seed)
	}
	if body != "" {
		return soakRequest{path, "application/json", []byte(body)}
	}
	kind, data := form(t, "image", pngOf(t, landscape(t)), "prompt", "", "steps", 1, "seed", seed)
	return soakRequest{path, kind, data.Bytes()}
}

// largeField matches the field of a small request that a large one has more of.
var largeField = regexp.MustCompile(`"(content|prompt|input|text|input_prefix|state)":"` +
	`|"(tokens|codes)":\[|"model":"`)

// largeSoak returns the largest requests of a route, of several kinds: a long text or list, very
// many names, and very many numbers; or the largest picture and the longest form.
func largeSoak(t *testing.T, path string, seed int) (list []soakRequest) {
	small := smallSoak(t, path, seed)
	if small.kind != "application/json" {
		side := 5792 // whose square is just above 2^25 pixels; a little less is the largest
		huge := pngOf(t, image.NewGray(image.Rect(0, 0, side, side-2)))
		kind, data := form(t, "image", huge, "prompt", "", "steps", 1)
		noise := bytes.Repeat([]byte{byte(seed)}, 23<<20)
		long, longData := form(t, "image", noise, "prompt", "")
		words, wordsData := form(t, "image", pngOf(t, landscape(t)), "prompt",
			strings.Repeat("a ", 500_000))
		return []soakRequest{{path, kind, data.Bytes()}, {path, long, longData.Bytes()},
			{path, words, wordsData.Bytes()}}
	}

	limit := 1 << 20
	if strings.Contains(path, "embed") {
		limit = 24 << 20
	}
	room := limit - len(small.body) - 64
	place := largeField.FindIndex(small.body)
	require.NotNil(t, place, path)
	filling := "dog "
	if small.body[place[1]-1] == '[' {
		filling = "1, "
	}
	insert := func(at int, text string) soakRequest {
		body := string(small.body[:at]) + text + string(small.body[at:])
		require.LessOrEqual(t, len(body), limit)
		require.True(t, json.Valid([]byte(body)), path)
		return soakRequest{path, small.kind, []byte(body)}
	}

	var names strings.Builder
	for i := 0; names.Len() < room-32; i++ {
		fmt.Fprintf(&names, `"k%d%d":0,`, seed, i)
	}
	list = append(list, insert(place[1], strings.Repeat(filling, room/len(filling))),
		insert(1, names.String()), insert(1, `"extra":[`+strings.Repeat("0,", room/2-10)+"0],"))
	if limit > 1<<20 {
		texts := `["` + strings.Repeat(strings.Repeat("dog ", 2000)+`","`, 2047) + `a"]`
		list = append(list, soakRequest{path, small.kind, []byte(`{"input":` + texts + `}`)})
	}
	return list
}

// Memory of a server is bounded, whatever is asked: after 100 and after 200 requests, drawn by seed
// over all routes, with the largest bodies of each, it is the same but for 16 MiB, and it is never
// above the figure of docs/serving.md.
func TestSoak(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux says what is resident")
	}
	draw := rand.New(rand.NewPCG(71, 0))
	var paths []string
	for path := range computing {
		paths = append(paths, path)
	}
	paths = append(paths, immediate...)
	halves := make([][]soakRequest, 2)
	for half := range halves {
		for i, path := range paths {
			large := largeSoak(t, path, 10*half+i)
			draw.Shuffle(len(large), func(i, j int) { large[i], large[j] = large[j], large[i] })
			halves[half] = append(halves[half], large[:2]...)
		}
		for len(halves[half]) < 100 {
			path := paths[draw.IntN(len(paths))]
			halves[half] = append(halves[half], smallSoak(t, path, draw.IntN(1000)))
		}
		draw.Shuffle(100, func(i, j int) {
			halves[half][i], halves[half][j] = halves[half][j], halves[half][i]
		})
	}

	s := startSoaked(t)
	before := s.resident(t)
	var residents []int64
	for _, requests := range halves {
		sendSoak(t, s.url, requests)
		residents = append(residents, s.resident(t))
	}
	peak := s.memory(t, "VmHWM")
	t.Logf("MiB resident: %d before, %d and %d after; at most %d", before>>20, residents[0]>>20,
		residents[1]>>20, peak>>20)
	require.InDelta(t, residents[0], residents[1], 16<<20)
	require.Less(t, peak-before, int64(maxServerMemory))
}

// sendSoak sends requests, a few at once, each of which must have an answer that is no failure of
// the server.
func sendSoak(t *testing.T, url string, requests []soakRequest) {
	const clients = 8
	var wait sync.WaitGroup
	for client := range clients {
		wait.Go(func() {
			for i := client; i < len(requests); i += clients {
				q := requests[i]
				r, err := http.Post(url+q.path, q.kind, bytes.NewReader(q.body))
				if err != nil {
					t.Errorf("%s: %v", q.path, err)
					continue
				}
				data, err := io.ReadAll(r.Body)
				r.Body.Close()
				if err != nil || r.StatusCode >= 500 {
					t.Errorf("%s: %d, %v: %.200s", q.path, r.StatusCode, err, data)
				}
			}
		})
	}
	wait.Wait()
}
