package cli

import (
	"context"
	"log/slog"
	"os"
	"path"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"unmask"
	"unmask/server"
	"unmask/terminal"
)

// serveFlags are those of unmask serve.
type serveFlags struct {
	deviceFlags
	models  []string
	listen  server.Listeners
	options server.Options
	timeout int
	log     string
}

func newServe() *cobra.Command {
	f := serveFlags{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve models over HTTP, in OpenAI's shapes, with a page",
		Args:  noArgs,
		Example: `  unmask serve                                  demo and demo-image at http://127.0.0.1:8080
  unmask serve --model DIR --model small=org/name
  curl 127.0.0.1:8080/v1/completions --json '{"prompt": "ROMEO:", "seed": 1}'`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	s := cmd.Flags()
	s.StringArrayVar(&f.models, "model", []string{demoText, demoImage},
		"`MODEL` to serve, or NAME=MODEL; may be repeated")
	f.registerCompute(s)
	s.StringVar(&f.listen.Address, "listen", "127.0.0.1:8080", "`ADDRESS` of the API and the page")
	s.StringVar(&f.listen.Metrics, "metrics", "", "`ADDRESS` of /metrics, for Prometheus")
	s.StringVar(&f.listen.Debug, "debug", "", "`ADDRESS` of /debug/pprof")
	s.DurationVar(&f.listen.Drain, "drain", 30*time.Second,
		"after SIGTERM, time for requests that have begun")
	s.StringVar(&f.log, "log", "text", "a line a request on standard error: text, json or none")
	return cmd
}

func (f *serveFlags) run(ctx context.Context) error {
	switch f.log {
	case "text":
		f.options.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	case "json":
		f.options.Log = slog.New(slog.NewJSONHandler(os.Stderr, nil))
	case "none":
	default:
		return usage("--log is %q, want text, json or none", f.log)
	}
	o, err := f.deviceFlags.options()
	if err != nil {
		return err
	}
	f.options.Version, f.options.Expect, f.options.Listen = version(), len(f.models), f.listen.Address
	s := server.New(f.options)
	stopped, cancel := terminal.UntilStopped(ctx)
	defer cancel()
	loaded := make(chan error, 1)
	err = s.Run(stopped, ctx, f.listen, func(url string) {
		terminal.Say("%s", url)
		go func() {
			err := f.load(stopped, s, o)
			if loaded <- err; err != nil {
				cancel()
			}
		}()
	})
	select {
	case failed := <-loaded:
		if failed != nil {
			return failed
		}
	default:
	}
	return err
}

// load adds the models.
func (f *serveFlags) load(ctx context.Context, s *server.Server, o unmask.Options) error {
	var err error
	if o.Backend, err = unmask.OpenDevice(o.Device, o.Threads); err != nil {
		return err
	}
	for _, arg := range f.models {
		name, model, given := strings.Cut(arg, "=")
		if !given || unmask.IsExact(arg) {
			name, model = strings.TrimSuffix(path.Base(arg), ".gguf"), arg
		}
		m, err := unmask.Load(ctx, model, o)
		if err != nil {
			return modelError(err)
		}
		if err := s.Add(server.Model{Name: name, Model: m, Precision: o.Precision}); err != nil {
			return usage("--model: %v", err)
		}
	}
	return nil
}
