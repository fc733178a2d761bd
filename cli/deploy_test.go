package cli

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// serveArgs reads the flags of unmask serve from a command line in a deployment recipe.
func serveArgs(t *testing.T, args []string) (drain time.Duration, values map[string]string) {
	require.Equal(t, "serve", args[0])
	cmd := newServe()
	require.NoError(t, cmd.ParseFlags(args[1:]), args)
	require.Empty(t, cmd.Flags().Args(), args)
	values = map[string]string{}
	for _, name := range []string{"listen", "keys", "metrics", "log", "drain"} {
		values[name] = cmd.Flags().Lookup(name).Value.String()
	}
	require.NotEmpty(t, values["keys"], "the API is open beyond the machine, want keys")
	require.NotEmpty(t, values["listen"])
	drain, err := time.ParseDuration(values["drain"])
	require.NoError(t, err)
	return drain, values
}

func TestDockerfile(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "deploy", "Dockerfile"))
	require.NoError(t, err)
	stages := strings.Split("\n"+string(text), "\nFROM ")
	last := stages[len(stages)-1]
	require.Equal(t, "scratch", strings.Fields(last)[0])
	lines := map[string]string{}
	for line := range strings.Lines(last) {
		if name, rest, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			lines[name] = rest
		}
	}
	user, _, _ := strings.Cut(lines["USER"], ":")
	id, err := strconv.Atoi(user)
	require.NoError(t, err, "USER is %s, want a number", lines["USER"])
	require.Positive(t, id)
	require.Equal(t, `["/unmask"]`, lines["ENTRYPOINT"])
	var args []string
	require.NoError(t, json.Unmarshal([]byte(lines["CMD"]), &args))
	_, values := serveArgs(t, args)
	for _, name := range []string{"listen", "metrics"} {
		_, port, _ := strings.Cut(values[name], ":")
		require.Contains(t, strings.Fields(lines["EXPOSE"]), port)
	}
	_, port, _ := strings.Cut(values["listen"], ":")
	require.Contains(t, lines["HEALTHCHECK"], `CMD ["/unmask", "doctor", "--ready", "http://127.0.0.1:`+
		port+`"]`)
	gomod, err := os.ReadFile(filepath.Join("..", "go.mod"))
	require.NoError(t, err)
	version := strings.Fields(strings.SplitN(string(gomod), "\ngo ", 2)[1])[0]
	require.Contains(t, stages[1], "golang:"+strings.Join(strings.Split(version, ".")[:2], "."))
}

func TestSystemdUnit(t *testing.T) {
	name := filepath.Join("..", "deploy", "unmask.service")
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	lines := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && line[0] != '#' {
			lines[key] = value
		}
	}
	args := strings.Fields(lines["ExecStart"])
	require.Equal(t, "/usr/local/bin/unmask", args[0])
	drain, _ := serveArgs(t, args[1:])
	stop, err := strconv.Atoi(lines["TimeoutStopSec"])
	require.NoError(t, err)
	require.Greater(t, float64(stop), drain.Seconds())
	for key, value := range map[string]string{"User": "unmask", "NoNewPrivileges": "yes",
		"ProtectSystem": "strict", "CapabilityBoundingSet": "", "ExecReload": "/bin/kill -HUP $MAINPID"} {
		require.Equal(t, value, lines[key], key)
	}
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		t.Skip("there is no systemd-analyze")
	}
	out, err := exec.Command("systemd-analyze", "verify", name).CombinedOutput()
	said := strings.TrimSpace(string(out))
	if !strings.Contains(said, "unmask is not executable: No such file") || strings.Contains(said, "\n") {
		require.NoError(t, err, said)
	}
}

// manifest has the fields of a Kubernetes manifest that the test reads.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Selector any
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Grace    int            `yaml:"terminationGracePeriodSeconds"`
				Security map[string]any `yaml:"securityContext"`
				Volumes  []struct{ Name string }
				Init     []container `yaml:"initContainers"`
				All      []container `yaml:"containers"`
			}
		}
		Ports []struct {
			Target string `yaml:"targetPort"`
		}
	}
}

type container struct {
	Name  string
	Args  []string
	Ports []struct {
		Name string
		Port int `yaml:"containerPort"`
	}
	Security struct {
		Escalation   *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnly     bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities struct{ Drop []string }
	} `yaml:"securityContext"`
	Mounts []struct{ Name string } `yaml:"volumeMounts"`
	Probes map[string]any          `yaml:",inline"` // and all other fields
}

func TestKubernetes(t *testing.T) {
	file, err := os.Open(filepath.Join("..", "deploy", "kubernetes", "serve.yaml"))
	require.NoError(t, err)
	defer file.Close()
	kinds := map[string]*manifest{}
	for in := yaml.NewDecoder(file); ; {
		m := &manifest{}
		if err := in.Decode(m); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		kinds[m.Kind] = m
	}
	require.Len(t, kinds, 4)
	pod := kinds["Deployment"].Spec.Template.Spec
	require.Equal(t, true, pod.Security["runAsNonRoot"])
	require.Len(t, pod.All, 1)
	serve := pod.All[0]
	drain, values := serveArgs(t, serve.Args)
	require.Greater(t, float64(pod.Grace), drain.Seconds())
	ports := map[string]int{}
	for _, p := range serve.Ports {
		ports[p.Name] = p.Port
	}
	require.Equal(t, "0.0.0.0:"+strconv.Itoa(ports["http"]), values["listen"])
	require.Equal(t, "0.0.0.0:"+strconv.Itoa(ports["metrics"]), values["metrics"])
	for name, path := range map[string]string{"startupProbe": "/readyz", "readinessProbe": "/readyz",
		"livenessProbe": "/healthz"} {
		get := serve.Probes[name].(map[string]any)["httpGet"].(map[string]any)
		require.Equal(t, map[string]any{"path": path, "port": "http"}, get, name)
	}
	var volumes []string
	for _, v := range pod.Volumes {
		volumes = append(volumes, v.Name)
	}
	for _, c := range append(pod.Init, pod.All...) {
		require.True(t, c.Security.ReadOnly, c.Name)
		require.False(t, *c.Security.Escalation, c.Name)
		require.Equal(t, []string{"ALL"}, c.Security.Capabilities.Drop, c.Name)
		for _, m := range c.Mounts {
			require.Contains(t, volumes, m.Name)
		}
	}
	require.Equal(t, "http", kinds["Service"].Spec.Ports[0].Target)
	require.Equal(t, kinds["Deployment"].Spec.Template.Metadata.Labels,
		map[string]string{"app": kinds["Service"].Metadata.Name})
}

// A container's health check is a command of the program itself: there is no other in the image.
func TestDoctorAsksWhetherAServerIsReady(t *testing.T) {
	code := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, "/readyz", r.URL.Path)
		w.WriteHeader(code)
		_, err := io.WriteString(w, `{"status": "draining"}`)
		require.NoError(t, err)
	}))
	defer server.Close()
	require.NoError(t, askReady(t.Context(), server.URL))
	require.NoError(t, askReady(t.Context(), server.URL+"/"))
	code = http.StatusServiceUnavailable
	require.ErrorContains(t, askReady(t.Context(), server.URL),
		`the server answers 503 Service Unavailable {"status": "draining"}`)
	require.ErrorContains(t, askReady(t.Context(), "http://a b"),
		"ready is \"http://a b\", want a URL")
}
