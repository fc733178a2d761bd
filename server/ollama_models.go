package server

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

// ollamaModel is a served model as GET /api/tags and /api/ps have it.
type ollamaModel struct {
	Name     string        `json:"name"`
	Model    string        `json:"model"`
	Modified time.Time     `json:"modified_at"`
	Size     int64         `json:"size"` // bytes of the weights in float32
	Digest   string        `json:"digest"`
	Details  ollamaDetails `json:"details"`
	Length   int           `json:"context_length"`
	Expires  time.Time     `json:"expires_at"`
	OnDevice int64         `json:"size_vram"`
}

type ollamaDetails struct {
	Parent       string   `json:"parent_model"`
	Format       string   `json:"format"`
	Family       string   `json:"family"`
	Families     []string `json:"families"`
	Parameters   string   `json:"parameter_size"`
	Quantization string   `json:"quantization_level"`
}

func (m *servedModel) ollama() ollamaModel {
	family, made := strings.ToLower(or(m.Info.Architecture, "unmask")), time.Unix(m.created, 0).UTC()
	of := ollamaModel{Name: m.name, Model: m.name, Modified: made, Expires: made.AddDate(100, 0, 0),
		Size: 4 * int64(m.Info.Parameters), Digest: m.identity, Length: m.spec.Length(),
		Details: ollamaDetails{Format: "unmask", Family: family, Families: []string{family},
			Parameters:   fmt.Sprintf("%.1fM", float64(m.Info.Parameters)/1e6),
			Quantization: m.precision}}
	if m.device != "cpu" {
		of.OnDevice = of.Size
	}
	return of
}

// ollamaTags answers GET /api/tags and /api/ps: the models of text, which all stay loaded.
func (s *Server) ollamaTags(w http.ResponseWriter, r *http.Request) {
	list := []ollamaModel{}
	for _, m := range s.all() {
		if m.Text != nil {
			list = append(list, m.ollama())
		}
	}
	writeJSON(w, encode(map[string]any{"models": list}))
}

// ollamaShow answers POST /api/show.
func (s *Server) ollamaShow(f *fields) (any, *Fault) {
	f.rename("name", "model") // as older clients call it
	if name, ok := strings.CutSuffix(f.text("model"), ":latest"); ok {
		f.object["model"] = encode(name)
	}
	f.flag("verbose")
	m := s.model(f, wantsText)
	if fault := f.end(); fault != nil {
		return nil, fault
	}
	of := m.ollama()
	can := []string{"completion", "insert"} // holes may be anywhere
	if m.chat != nil {
		if _, calls := m.chat.CallForm(); calls {
			can = append(can, "tools")
		}
	}
	family := of.Details.Family
	return map[string]any{"modelfile": "", "template": "", "license": "", "capabilities": can,
		"parameters": "", "modified_at": of.Modified, "details": of.Details,
		"model_info": map[string]any{"general.architecture": family, "general.basename": m.name,
			"general.parameter_count": m.Info.Parameters, family + ".context_length": of.Length}}, nil
}

// ollamaVersioned answers GET /api/version.
func (s *Server) ollamaVersioned(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, encode(map[string]string{"version": ollamaVersion}))
}
