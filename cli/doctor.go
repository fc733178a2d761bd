package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"unmask/backend/cpu"
	"unmask/backend/cuda"
	"unmask/internal/buildinfo"
	"unmask/internal/diskspace"
	"unmask/internal/memory"
	"unmask/internal/processor"
	"unmask/internal/simd"
	"unmask/weights/hub"
)

// doctorFlags are the flags of unmask doctor.
type doctorFlags struct {
	json   bool
	listen string

	// ready is the URL of a server to ask, and then nothing else is looked at.
	ready string
}

// finding is one line of unmask doctor.
type finding struct {
	// Name is what was looked at.
	Name string `json:"name"`

	// Found is what is there.
	Found string `json:"found"`

	// Problem says what to do where something is wrong; "" where nothing is.
	Problem string `json:"problem,omitempty"`
}

// newDoctor returns the command unmask doctor.
func newDoctor() *cobra.Command {
	f := &doctorFlags{}
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Show what matters of this machine, and what is wrong",
		Long: `Show what matters of this machine, and what is wrong: processor and kernels, memory, GPU, the hub
and its cache, free disk space, and the port of unmask serve.

The exit status is 1 if something is wrong that keeps commands from running. A missing GPU or a hub that
cannot be reached is none: the built-in models and local files need neither.

With --ready it only asks a server of unmask whether it is ready: the health check of a container in which
there is no other program.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("ready") {
				return askReady(c.Context(), f.ready)
			}
			return f.run(c.Context())
		},
	}
	c.Flags().BoolVar(&f.json, "json", false, "print one JSON object a line")
	c.Flags().StringVar(&f.listen, "listen", "127.0.0.1:8080", "`ADDRESS` to try for unmask serve")
	c.Flags().StringVar(&f.ready, "ready", "", "`URL` of a server to ask, such as http://127.0.0.1:8080")
	return c
}

// run prints the findings, and returns an error if one of them is a problem.
func (f *doctorFlags) run(ctx context.Context) error {
	findings := []finding{
		{Name: "version", Found: buildinfo.Version()},
		findProcessor(),
		findMemory(),
		findGPU(),
	}
	findings = append(findings, findHub(ctx)...)
	findings = append(findings, findPort(f.listen))

	var problems []string
	for _, finding := range findings {
		if finding.Problem != "" {
			problems = append(problems, finding.Name)
		}
		if err := f.print(finding); err != nil {
			return err
		}
	}
	if len(problems) > 0 {
		return fmt.Errorf("something is wrong with: %s", strings.Join(problems, ", "))
	}
	return nil
}

// readyPatience is how long doctor --ready waits for a server, which answers this question at once.
const readyPatience = 5 * time.Second

// askReady prints that a server is ready, or returns an error that says what it is instead.
func askReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyPatience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		strings.TrimSuffix(url, "/")+"/readyz", nil)
	if err != nil {
		return usagef("ready is %q, want a URL such as http://127.0.0.1:8080", url)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, err := io.ReadAll(io.LimitReader(response.Body, 200))
		if err != nil {
			return err
		}
		return fmt.Errorf("the server answers %s %s", response.Status, bytes.TrimSpace(body))
	}
	_, err = fmt.Fprintln(stdout, "ready")
	return err
}

// print writes a finding as a line of text or of JSON.
func (f *doctorFlags) print(line finding) error {
	if f.json {
		return json.NewEncoder(stdout).Encode(line)
	}
	fmt.Fprintf(stdout, "%-11s %s\n", line.Name, line.Found)
	if line.Problem != "" {
		fmt.Fprintf(stdout, "%-11s %s\n", "", line.Problem)
	}
	return nil
}

// findProcessor says which kernels run here.
func findProcessor() finding {
	f := finding{Name: "processor", Found: fmt.Sprintf("%s, %d threads", processor.Name(),
		runtime.NumCPU())}
	if err := cpu.CheckISA(""); err != nil {
		f.Problem = err.Error()
		return f
	}
	var sets []string
	for _, level := range simd.Available() {
		sets = append(sets, fmt.Sprint(level))
	}
	f.Found += fmt.Sprintf("; kernels: %s (of %s)", simd.Default(), strings.Join(sets, ", "))
	return f
}

// lowMemory is less than what the built-in models need.
const lowMemory = 300 << 20

// findMemory says how much memory is free.
func findMemory() finding {
	free, ok := memory.Available()
	if !ok {
		return finding{Name: "memory", Found: "this system does not say how much is free"}
	}
	f := finding{Name: "memory", Found: fmt.Sprintf("%.1f GB free", float64(free)/1e9)}
	if free < lowMemory {
		f.Problem = "the built-in models need 0.3 GB: close other programs, or raise the limit"
	}
	return f
}

// findGPU says which GPUs --device can take, or why there is none.
func findGPU() finding {
	gpus, err := cuda.Devices()
	if err != nil {
		return finding{Name: "GPU", Found: fmt.Sprintf("none: %v", err)}
	}
	var names []string
	for _, gpu := range gpus {
		names = append(names, fmt.Sprintf("cuda:%d %s, %.1f GB", gpu.Index, gpu.Model,
			float64(gpu.Memory)/1e9))
	}
	if len(names) == 0 {
		return finding{Name: "GPU", Found: "none"}
	}
	return finding{Name: "GPU", Found: strings.Join(names, "; ")}
}

// findHub says where models come from, where they are kept, and how much room there is.
func findHub(ctx context.Context) []finding {
	client, err := hub.FromEnv()
	if err != nil {
		return []finding{{Name: "hub", Found: "its settings cannot be read", Problem: err.Error()}}
	}
	// A hub that does not answer is no problem: whoever has local files, or the built-in models, can
	// work without it. So what to do about it stands in Found.
	reach := finding{Name: "hub", Found: client.Endpoint + " can be reached"}
	switch err := reachHub(ctx, client); {
	case client.Offline:
		reach.Found = "not asked: HF_HUB_OFFLINE is set, so only what the cache has is used"
	case err != nil:
		reach.Found = fmt.Sprintf("%s cannot be reached (%v): set HF_ENDPOINT to a mirror or HTTPS_PROXY "+
			"to a proxy, or use local files", client.Endpoint, err)
	}
	if client.Token == "" {
		reach.Found += "; no token (HF_TOKEN)"
	}

	cache := finding{Name: "cache", Found: client.Cache}
	if snapshots, err := hub.List(); err != nil {
		cache.Problem = err.Error()
	} else {
		cache.Found += fmt.Sprintf(", %d models", len(snapshots))
	}
	disk := finding{Name: "disk", Found: "this system does not say how much is free"}
	if free, ok := diskspace.Free(client.Cache); ok {
		disk.Found = fmt.Sprintf("%.1f GB free where the cache is", float64(free)/1e9)
	}
	return []finding{reach, cache, disk}
}

// hubPatience is how long doctor waits for the hub: somebody looks at the screen.
const hubPatience = 5 * time.Second

// reachHub asks the hub for nothing, to see whether it answers.
func reachHub(ctx context.Context, client *hub.Client) error {
	if client.Offline {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, hubPatience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, client.Endpoint, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		if ctx.Err() != nil {
			return errors.New("no answer within 5 seconds")
		}
		return err
	}
	return response.Body.Close()
}

// findPort says whether unmask serve could listen.
func findPort(address string) finding {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return finding{Name: "port", Found: fmt.Sprintf("%s cannot be used: %v", address, err),
			Problem: "unmask serve needs another: --listen 127.0.0.1:0 takes a free one"}
	}
	_ = listener.Close() // it was only tried
	return finding{Name: "port", Found: address + " is free"}
}
