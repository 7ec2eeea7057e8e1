// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package look

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/migrate"
)

const (
	serverName = apiserver.ServerName
	// maxAtOnce bounds the requests in flight of all looks of one client (I6): each may hold an answer of several MiB.
	maxAtOnce = 16

	anyJSON      = "application/json"
	metadataJSON = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	// metadataListJSON is the same for a list.
	metadataListJSON = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
)

// client sends small GET requests to the address in the kubeconfig, or, with the same credentials, to a server's own
// address.
type client struct {
	timeout time.Duration
	config  *rest.Config
	base    *url.URL     // the address in the kubeconfig, including its path
	shared  *http.Client // reuses connections
	fresh   *http.Client // makes a new connection for every request
	own     *http.Client // verifies a server by serverName; nil if that is impossible
	// slots limits the requests in flight.
	slots chan struct{}
	// unverified says why a server cannot be told from an impostor, or is "" if certificates are verified.
	unverified string
}

func newClient(config *rest.Config, timeout time.Duration) (*client, error) {
	c := &client{timeout: timeout, config: bounded.Config(config), slots: make(chan struct{}, maxAtOnce)}
	c.config.Timeout = 0 // each request has its own timeout
	if c.config.UserAgent == "" {
		c.config.UserAgent = "kube-migrator"
	}
	base, _, err := rest.DefaultServerUrlFor(c.config)
	if err != nil {
		return nil, fmt.Errorf("read address in kubeconfig: %w", err)
	}
	c.base = base
	if c.shared, err = httpClient(rest.TransportFor(c.config)); err != nil {
		return nil, err
	}
	if c.fresh, err = httpClient(freshTransport(c.config)); err != nil {
		return nil, err
	}
	if c.unverified = apiserver.Unverified(c.config); c.unverified == "" {
		own := rest.CopyConfig(c.config)
		own.ServerName = serverName
		if c.own, err = httpClient(rest.TransportFor(own)); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// httpClient follows no redirect: the transport would send the credentials to any host that the redirect names.
func httpClient(transport http.RoundTripper, err error) (*http.Client, error) {
	if err != nil {
		return nil, fmt.Errorf("configure transport: %w", err)
	}
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, nil
}

// freshTransport makes a connection per request, so that a load balancer chooses a server each time.
func freshTransport(config *rest.Config) (http.RoundTripper, error) {
	if config.Transport != nil {
		return rest.TransportFor(config)
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, err
	}
	t := &http.Transport{TLSClientConfig: tlsConfig, Proxy: config.Proxy, DialContext: config.Dial,
		DisableKeepAlives: true}
	if t.Proxy == nil {
		t.Proxy = http.ProxyFromEnvironment
	}
	return rest.HTTPWrappersForConfig(config, t)
}

// get reads path from the address in the kubeconfig, on a reused connection. It also returns the time by the server's
// clock, or by this machine's clock if the answer carries none.
func (c *client) get(ctx context.Context, path string) ([]byte, time.Time, error) {
	if path == unfit {
		return nil, time.Time{}, errUnfit
	}
	return c.send(ctx, c.shared, c.address(path), anyJSON, c.timeout)
}

// getMetadata is get for only the metadata of one object.
func (c *client) getMetadata(ctx context.Context, path string) ([]byte, error) {
	if path == unfit {
		return nil, errUnfit
	}
	body, _, err := c.send(ctx, c.shared, c.address(path), metadataJSON, c.timeout)
	return body, err
}

// getFresh is get on a connection of its own.
func (c *client) getFresh(ctx context.Context, path string) ([]byte, error) {
	if path == unfit {
		return nil, errUnfit
	}
	body, _, err := c.send(ctx, c.fresh, c.address(path), anyJSON, c.timeout)
	return body, err
}

// errUnfit reports that a word from a server cannot be a part of a path. Nothing was sent.
var errUnfit = fmt.Errorf("%w: a group, version or name cannot be a part of a request path", migrate.ErrUntrustedAnswer)

func (c *client) address(path string) string {
	return c.base.Scheme + "://" + c.base.Host + strings.TrimSuffix(c.base.Path, "/") + path
}

func (c *client) send(ctx context.Context, h *http.Client, address, accept string,
	timeout time.Duration) ([]byte, time.Time, error) {
	return c.sendAs(ctx, h, address, accept, "", timeout)
}

// sendAs is send with a bearer token, or without one if token is "". Connections on which a token is sent must carry no
// other credentials.
func (c *client) sendAs(ctx context.Context, h *http.Client, address, accept, token string,
	timeout time.Duration) ([]byte, time.Time, error) {
	var (
		body []byte
		date time.Time
	)
	err := c.request(ctx, h, address, accept, token, timeout, func(resp *http.Response) (err error) {
		if body, err = io.ReadAll(resp.Body); err != nil {
			return fmt.Errorf("read answer of %s: %w", resp.Request.URL.Host, err)
		}
		if date, err = http.ParseTime(resp.Header.Get("Date")); err != nil {
			date = time.Now()
		}
		return nil
	})
	if err != nil {
		return nil, time.Time{}, err
	}
	return body, date, nil
}

// stream is send for an answer that read decodes while it arrives, up to where it returns.
func (c *client) stream(ctx context.Context, h *http.Client, address, accept string, timeout time.Duration,
	read func(io.Reader) error) error {
	return c.request(ctx, h, address, accept, "", timeout, func(resp *http.Response) error {
		err := read(resp.Body)
		if resp.ProtoMajor == 1 { // or the connection would end
			_, _ = io.Copy(io.Discard, resp.Body)
		}
		return err
	})
}

// request sends a request and passes on an answer that says OK. It ends at the limit of its kind: the transports are
// bounded.
func (c *client) request(ctx context.Context, h *http.Client, address, accept, token string, timeout time.Duration,
	read func(*http.Response) error) error {
	release, err := c.slot(ctx)
	if err != nil {
		return err
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Accept", accept)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := h.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return read(resp)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("read answer of %s: %w", req.URL.Host, err)
	}
	return statusError(resp.StatusCode, body)
}

// slot waits until one more request may be in flight. The timeout of the request starts afterwards.
func (c *client) slot(ctx context.Context) (release func(), err error) {
	select {
	case c.slots <- struct{}{}:
		return func() { <-c.slots }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// statusError returns the API server's own error, or one that it builds from the status code.
func statusError(code int, body []byte) error {
	var s metav1.Status
	if json.Unmarshal(body, &s) == nil && s.Kind == "Status" && s.Code != 0 {
		return &apierrors.StatusError{ErrStatus: s}
	}
	return apierrors.NewGenericServerResponse(code, "get", schema.GroupResource{}, "",
		strings.TrimSpace(string(body[:min(len(body), 200)])), 0, true)
}

// namesObject reports whether an error is about one object, and not about a path that no server serves.
func namesObject(err error) bool {
	s := apierrors.APIStatus(nil)
	if !errors.As(err, &s) {
		return false
	}
	details := s.Status().Details
	return details != nil && details.Name != ""
}

// statusOf returns the HTTP status of the server's answer, or 0 for other errors and for nil.
func statusOf(err error) int {
	if s := apierrors.APIStatus(nil); errors.As(err, &s) {
		return int(s.Status().Code)
	}
	return 0
}
