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
	Size     int64         `json:"size"` // bytes of the weights, about
	Digest   string        `json:"digest"`
	Details  ollamaDetails `json:"details"`
	Length   int           `json:"context_length"`
	Expires  *time.Time    `json:"expires_at,omitempty"`
	OnDevice *int64        `json:"size_vram,omitempty"`
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
	family := strings.ToLower(or(m.Info.Architecture, "unmask"))
	return ollamaModel{Name: m.name, Model: m.name, Modified: time.Unix(m.created, 0).UTC(),
		Size: int64(m.Info.Parameters) * m.bytes(), Digest: m.identity, Length: m.spec.Length(),
		Details: ollamaDetails{Format: "unmask", Family: family, Families: []string{family},
			Parameters:   fmt.Sprintf("%.1fM", float64(m.Info.Parameters)/1e6),
			Quantization: m.precision}}
}

// bytes returns those of a parameter, about.
func (m *servedModel) bytes() int64 {
	switch {
	case strings.HasSuffix(m.precision, "32"):
		return 4
	case strings.HasSuffix(m.precision, "16"):
		return 2
	}
	return 1
}

// ollamaTags answers GET /api/tags: the models of text.
func (s *Server) ollamaTags(w http.ResponseWriter, r *http.Request) {
	list := []ollamaModel{}
	for _, m := range s.all() {
		if m.Text != nil {
			list = append(list, m.ollama())
		}
	}
	writeJSON(w, encode(map[string]any{"models": list}))
}

// ollamaLoaded answers GET /api/ps. All models stay loaded.
func (s *Server) ollamaLoaded(w http.ResponseWriter, r *http.Request) {
	list := []ollamaModel{}
	for _, m := range s.all() {
		if m.Text == nil {
			continue
		}
		one := m.ollama()
		expires, device := one.Modified.AddDate(100, 0, 0), int64(0)
		if m.device != "cpu" {
			device = one.Size
		}
		one.Expires, one.OnDevice = &expires, &device
		list = append(list, one)
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
