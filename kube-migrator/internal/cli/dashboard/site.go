// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"bytes"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/page"
)

const (
	writeDeadline = 30 * time.Second // how long a client may take to read an answer or an update
	beatEvery     = 15 * time.Second // how often a client without news is sent a comment, which shows that it is gone
)

// site answers requests for the page and its events.
type site struct {
	board *board
	hosts map[string]bool
	token string
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	if status, why := s.refusal(r); status != 0 {
		if status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", "GET, HEAD")
		}
		http.Error(w, why, status)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/events") {
		s.events(w, r)
		return
	}
	s.page(w, r)
}

// protect forbids browsers everything that the page does not need.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", page.Policy("'self'")+"; frame-ancestors 'none'")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}

// refusal returns the status, and the reason, with which a request is refused; 0 for one that is answered. It is pure.
func (s *site) refusal(r *http.Request) (status int, why string) {
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	token, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case !s.hosts[r.Host]:
		return http.StatusForbidden, "the dashboard is not known by this name"
	case origin != "" && origin != "http://"+r.Host, site != "" && site != "none" && site != "same-origin":
		return http.StatusForbidden, "another site has caused this request: copy the URL into the address bar of the browser"
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return http.StatusMethodNotAllowed, "the dashboard can only be read"
	case subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1 || rest != "" && rest != "events" ||
		!strings.HasPrefix(r.URL.Path, "/"+token+"/"):
		return http.StatusNotFound, "open the URL that kube-migrator dashboard has printed"
	}
	return 0, ""
}

func (s *site) page(w http.ResponseWriter, r *http.Request) {
	view, err := s.board.latest(r.Context())
	if err != nil { // the client is gone, or the server ends
		return
	}
	var out bytes.Buffer
	if err := page.Live(&out, view); err != nil {
		http.Error(w, "the page cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Length", strconv.Itoa(out.Len()))
	s.write(w, r, out.Bytes())
}

// write writes a piece of an answer, and reports whether the client has taken it.
func (s *site) write(w http.ResponseWriter, r *http.Request, piece []byte) bool {
	control := http.NewResponseController(w)
	if control.SetWriteDeadline(time.Now().Add(writeDeadline)) != nil {
		return false
	}
	if r.Method == http.MethodHead {
		return true
	}
	if _, err := w.Write(piece); err != nil {
		return false
	}
	return control.Flush() == nil
}

// events sends the whole page and then what changes, until the client is gone.
func (s *site) events(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.Method == http.MethodHead {
		return
	}
	c := s.board.follow()
	if c == nil {
		w.Header().Set("Retry-After", "10")
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	defer s.board.leave(c)
	beat := time.NewTicker(beatEvery)
	defer beat.Stop()
	for {
		piece := []byte(": still there\n\n")
		select {
		case <-r.Context().Done():
			return
		case <-beat.C:
		case parts, follows := <-c.updates:
			if !follows {
				return
			}
			data, err := json.Marshal(parts) // without line feeds
			if err != nil {
				return
			}
			piece = append(append([]byte("data: "), data...), "\n\n"...)
		}
		if !s.write(w, r, piece) {
			return
		}
	}
}
