package server

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"unmask/param"
)

// origins decides which hosts and origins a request may name. A page of another origin must not
// reach a server on loopback, neither by its own name in Host (DNS rebinding, as Ollama's
// CVE-2024-28224) nor by a form.
type origins struct {
	// hosts are the names that a request's Host may have, in lower case.
	hosts []string

	// isWildcard reports whether the server listens on all addresses of the machine.
	isWildcard bool

	// allowed are the origins of pages elsewhere that may ask.
	allowed []string

	cross *http.CrossOriginProtection
}

// newOrigins returns the check of the hosts and the origins that requests may name.
func newOrigins(o Options) (*origins, error) {
	g := &origins{
		hosts:   []string{"localhost", "127.0.0.1", "::1"},
		allowed: o.Origins,
		cross:   http.NewCrossOriginProtection(),
	}
	for _, host := range o.Hosts {
		g.hosts = append(g.hosts, strings.ToLower(bareHost(host)))
	}
	if host, _, err := net.SplitHostPort(o.Listen); err == nil {
		// A server on all addresses of the machine cannot know by which names it is reached.
		ip, err := netip.ParseAddr(host)
		g.isWildcard = host == "" || err == nil && ip.IsUnspecified()
		if !g.isWildcard {
			g.hosts = append(g.hosts, strings.ToLower(host))
		}
	}
	for _, origin := range o.Origins {
		if err := g.cross.AddTrustedOrigin(origin); err != nil {
			return nil, &param.Error{Name: "allow-origin", Found: param.Quote(origin),
				Want: "one such as https://example.org"}
		}
	}
	return g, nil
}

// bareHost returns a host without its port and brackets.
func bareHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

// check refuses a request for another host, or from another origin.
func (g *origins) check(r *http.Request) *Fault {
	host := strings.ToLower(bareHost(r.Host))
	isOurs := slices.Contains(g.hosts, host) || g.isWildcard && isLocalAddress(r, host)
	if !isOurs {
		return newFault(http.StatusForbidden, "host_not_allowed",
			"the host is not one of this server's, want %s", strings.Join(g.hosts, ", "))
	}
	if g.cross.Check(r) != nil {
		return newFault(http.StatusForbidden, "origin_not_allowed",
			"the request comes from a page of another origin")
	}
	return nil
}

// isLocalAddress reports whether host is the address that the connection was made to.
func isLocalAddress(r *http.Request, host string) bool {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false
	}
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return false
	}
	address, err := netip.ParseAddrPort(local.String())
	return err == nil && address.Addr().Unmap().WithZone("") == ip.Unmap().WithZone("")
}

// allowOrigin sets the headers that let a page of an allowed origin read the answer. It reports
// whether the request was a preflight, which it then has answered.
func (g *origins) allowOrigin(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if len(g.allowed) > 0 {
		w.Header().Add("Vary", "Origin")
	}
	if origin == "" || !slices.Contains(g.allowed, origin) {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers",
		"X-Request-Id, Retry-After, Unmask-Cache, Unmask-Note, Unmask-Seed, ETag")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST")
	// Clients have headers of their own, such as OpenAI's X-Stainless-Lang.
	if names := r.Header.Get("Access-Control-Request-Headers"); names != "" {
		h.Set("Access-Control-Allow-Headers", names)
	}
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}

// baseURL returns the address at which a request reached the server, such as https://example.org. A
// proxy that ends TLS says so in X-Forwarded-Proto.
func baseURL(r *http.Request) string {
	prefix, _, found := strings.Cut(r.RequestURI, r.URL.Path) // what http.StripPrefix took
	if !found || !strings.HasPrefix(prefix, "/") {
		prefix = ""
	}
	if r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https" {
		return "https://" + r.Host + prefix
	}
	return "http://" + r.Host + prefix
}
