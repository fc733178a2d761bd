package cli

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"unmask"
	"unmask/backend/open"
	"unmask/cli/flags"
	"unmask/cli/terminal"
	"unmask/decide"
	"unmask/internal/buildinfo"
	"unmask/param"
	"unmask/server"
	"unmask/server/page"
)

// serveFlags are those of unmask serve.
type serveFlags struct {
	deviceFlags
	models []string

	// kinds, calibrationFiles and calibrations are by the models' names.
	kinds            map[string]string
	calibrationFiles map[string]string
	calibrations     map[string]decide.Calibration

	listen   server.Listeners
	options  server.Options
	keys     string // a file's name
	noKeys   bool
	timeout  int // seconds
	memoryGB float64
	keepGB   float64
	log      string
	noPage   bool
}

// newServe returns the command unmask serve.
func newServe() *cobra.Command {
	f := serveFlags{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve models over HTTP: an OpenAI-style API and a web page",
		Args:  noArgs,
		Example: `  unmask serve                                  the demo models at http://127.0.0.1:8080
  unmask serve --model DIR --model small=org/name
  curl 127.0.0.1:8080/v1/completions --json '{"prompt": "Lily was a brave girl.", "seed": 1}'`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context()) },
	}
	s := cmd.Flags()
	s.StringArrayVarP(&f.models, "model", "m", []string{demoText, demoImage, demoChat},
		"`MODEL` to serve, or NAME=MODEL; may be repeated")
	s.StringToStringVar(&f.kinds, "as", nil, "`NAME=KIND`: read NAME's files as this kind of model, "+
		"whatever config.json says; may be repeated")
	s.StringToStringVar(&f.calibrationFiles, "calibration", nil, "`NAME=FILE`: the file of unmask decide --calibrate "+
		"with the temperatures of NAME's answers to typed questions; may be repeated")
	for _, name := range []string{"as", "calibration"} {
		s.Lookup(name).DefValue = "" // help would show an empty map
	}
	f.registerCompute(s)
	s.StringVar(&f.listen.Address, "listen", "127.0.0.1:8080", "`ADDRESS` of the API and the page")
	s.StringVar(&f.keys, "keys", "", "`FILE` of lines NAME:KEY, mode 0600, read again after SIGHUP; "+
		"requests then need a key")
	s.BoolVar(&f.noKeys, "no-keys", false, "accept requests from other machines without --keys")
	s.StringVar(&f.listen.Cert, "tls-cert", "", "`FILE` of a certificate in PEM, for HTTPS")
	s.StringVar(&f.listen.Key, "tls-key", "", "`FILE` of its key in PEM")
	s.StringArrayVar(&f.options.Hosts, "allow-host", nil,
		"host `NAME` that requests may use for this server; may be repeated")
	s.StringArrayVar(&f.options.Origins, "allow-origin", nil,
		"`ORIGIN` of other web pages that may send requests, such as https://example.org; may be repeated")
	flags.Int(s, &f.options.Queue, param.Param{
		Name:    "queue",
		Min:     1,
		Max:     4096,
		Default: "64",
		Help:    "requests that may wait in the queue",
	})
	flags.Int(s, &f.timeout, param.Param{
		Name:    "max-seconds",
		Min:     1,
		Max:     86400,
		Default: "600",
		Help:    "seconds that a request may take, including its wait",
	})
	flags.Float(s, &f.memoryGB, param.Param{
		Name:    "memory",
		Min:     0.01,
		Max:     1e5,
		Zero:    "a quarter of the machine's, at most 4",
		Default: "0",
		Help:    "GB of keys and values per model, 0 for a quarter of the machine's memory, at most 4",
	})
	addKeepFlag(s, &f.keepGB, "requests, per model")
	s.StringVar(&f.listen.Metrics, "metrics", "", "`ADDRESS` of /metrics, for Prometheus")
	flags.Duration(s, &f.listen.Drain, "drain", 30*time.Second,
		"time to finish running requests after SIGTERM")
	s.StringVar(&f.options.Voices, "voices", "", "`DIR` of voice files for /v1/audio/speech: .pt of "+
		"OmniVoice's program, .safetensors of unmask speech --save-voice")
	s.BoolVar(&f.noPage, "no-page", false, "do not serve the web page")
	s.StringVar(&f.log, "log", "text", "one line per request on standard error: text, json or none")
	return cmd
}

// addKeepFlag registers --keep, in GB.
func addKeepFlag(s *pflag.FlagSet, gb *float64, things string) {
	flags.Float(s, gb, param.Param{
		Name:    "keep",
		Min:     0,
		Max:     1e5,
		Default: "1",
		Help: "GB of keys and values of finished " + things + " to keep: those that begin alike need not " +
			"compute them again; 0 keeps none",
	})
}

// setLog sets where requests are logged.
func (f *serveFlags) setLog() error {
	switch f.log {
	case "text":
		f.options.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	case "json":
		f.options.Log = slog.New(slog.NewJSONHandler(os.Stderr, nil))
	case "none":
	default:
		return usagef("--log is %q, want text, json or none", f.log)
	}
	return nil
}

// checkFlags returns the models to serve and how they are loaded, or what is wrong with the flags.
func (f *serveFlags) checkFlags() (models []server.NamedModel, o unmask.Options, err error) {
	if err := f.setLog(); err != nil {
		return nil, o, err
	}
	o, err = f.deviceFlags.loadOptions()
	if err != nil {
		return nil, o, err
	}
	if err := f.checkAccess(); err != nil {
		return nil, o, err
	}
	models, err = server.ParseModels(f.models)
	if err != nil {
		return nil, o, usagef("%v", wrapError("--model", err))
	}
	for flag, names := range map[string]map[string]string{
		"as":          f.kinds,
		"calibration": f.calibrationFiles,
	} {
		for name := range names {
			if !slices.ContainsFunc(models, func(m server.NamedModel) bool { return m.Name == name }) {
				return nil, o, usagef("--%s: model is %.80q, want one of --model", flag, name)
			}
		}
	}
	f.calibrations = map[string]decide.Calibration{}
	for name, file := range f.calibrationFiles {
		f.calibrations[name], err = decide.ReadCalibration(file)
		if err != nil {
			return nil, o, wrapError("--calibration "+name, err)
		}
	}
	return models, o, nil
}

// run serves until a signal. The server answers while models load, so that a page can show that
// they do; an error in loading ends it.
func (f *serveFlags) run(ctx context.Context) error {
	models, o, err := f.checkFlags()
	if err != nil {
		return err
	}
	f.options.Timeout = time.Duration(f.timeout) * time.Second
	f.options.Memory = int64(f.memoryGB * 1e9)
	f.options.Keep = int64(f.keepGB * 1e9)
	if f.options.Keep == 0 {
		f.options.Keep = -1
	}
	f.options.Version = buildinfo.Version()
	f.options.Expect = len(f.models)
	f.options.Listen = f.listen.Address
	if !f.noPage {
		f.options.Page = page.Handler()
	}
	s, err := server.New(f.options)
	if err != nil {
		return usagef("--%v", err)
	}
	server.TuneProcess()
	terminal.AllowSlowShutdown(ctx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go f.reloadKeys(ctx, terminal.NotifyHangups(ctx))
	loaded := make(chan error, 1)
	err = s.Run(ctx, terminal.GracefulContext(ctx), f.listen, func(url string) {
		terminal.Logf("%s", f.greeting(url, models))
		go func() {
			err := f.loadModels(ctx, s, models, o)
			if err == nil {
				terminal.Logf("ready")
			}
			loaded <- err
			if err != nil {
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

// greeting says what is served where, and how to stop it.
func (f *serveFlags) greeting(url string, models []server.NamedModel) string {
	names := make([]string, len(models))
	for i, m := range models {
		names[i] = m.Name
	}
	what := "API and page"
	if f.noPage {
		what = "API"
	}
	return fmt.Sprintf("%s at %s with %s: loading; Ctrl-C stops", what, url,
		strings.Join(names, ", "))
}

// checkAccess returns an error for flags that would let everybody use the server.
func (f *serveFlags) checkAccess() (err error) {
	if err := server.CheckHostPort(f.listen.Address); err != nil {
		return usagef("%v", wrapError("--listen", err))
	}
	switch {
	case f.keys != "" && f.noKeys:
		return usagef("--keys and --no-keys together, want one of them")
	case (f.listen.Cert == "") != (f.listen.Key == ""):
		return usagef("--tls-cert or --tls-key is missing, want both or neither")
	case f.keys != "":
		f.options.Keys, err = server.LoadKeys(f.keys)
		if err != nil {
			return fmt.Errorf("--keys %s: %w", f.keys, err)
		}
	case !f.noKeys:
		if err := server.CheckAddress(f.listen.Address); err != nil {
			return usagef("%v", wrapError("--listen", err))
		}
	}
	return nil
}

// reloadKeys reads the keys again after each SIGHUP.
func (f *serveFlags) reloadKeys(ctx context.Context, hangups <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-hangups:
		}
		if f.options.Keys == nil {
			continue
		}
		if err := f.options.Keys.Reload(); err != nil {
			terminal.Logf("--keys %s: %v; the keys stay as they were", f.keys, err)
		} else {
			terminal.Logf("--keys %s: read again", f.keys)
		}
	}
}

// loadModels adds the models.
func (f *serveFlags) loadModels(ctx context.Context, s *server.Server, models []server.NamedModel,
	o unmask.Options) (err error) {
	o.Backend, err = open.Device(o.Device, o.Threads)
	if err != nil {
		return err
	}
	for _, n := range models {
		o.As = f.kinds[n.Name]
		m, err := unmask.Load(ctx, n.Model, o)
		if err != nil {
			return refuseModelName(err)
		}
		for _, note := range m.Info.Notes {
			terminal.Logf("note: %s: %s", n.Name, note)
		}
		if err := s.Add(server.Model{
			Name:        n.Name,
			Model:       m,
			Precision:   m.Precision,
			Calibration: f.calibrations[n.Name],
		}); err != nil {
			return usagef("%v", wrapError("--model", err))
		}
		if c, err := m.Chat(); err == nil {
			if err := c.TryRender(); err != nil {
				terminal.Logf("%s: the chat template fails on a question: %v", n.Name, err)
			}
		}
	}
	return nil
}
