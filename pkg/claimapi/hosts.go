package claimapi

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/oncebox/oncebox/internal/aws/requestid"
)

var errOtherHost = errors.New("claimapi: the request is for another host")

// AllowHosts lets requests through whose Host is a loopback name (localhost, 127.0.0.0/8 or ::1) or one of hosts, with
// any port. It answers others with the status 421. Use it for a server that trusts every program on its machine: a web
// page can give its own name the address 127.0.0.1, and the browser then takes the server for a part of the page's site
// (DNS rebinding). The Host of such a request is the name of the page. In AWS, API Gateway checks the host.
func (h *Handler) AllowHosts(hosts []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.ToLower((&url.URL{Host: r.Host}).Hostname())
		if isLoopback(name) || slices.ContainsFunc(hosts, func(host string) bool { return strings.EqualFold(host, name) }) {
			next.ServeHTTP(w, r)
			return
		}
		id := RequestID(w, r)
		refused := h.refusal(errOtherHost, id)
		h.log.LogAttrs(r.Context(), slog.LevelWarn, "request", slog.Int("status", refused.status),
			slog.String("slug", refused.slug), slog.String(requestid.Key, id), slog.String("host", name))
		write(w, refused)
	})
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
