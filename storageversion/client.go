// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package storageversion

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/bounded"
)

// client sends JSON to the cluster's API server. It repeats nothing: a retry after a conflict begins with a new read.
type client struct {
	http    *http.Client
	base    *url.URL
	timeout time.Duration // of one request
}

func newClient(config *rest.Config, timeout time.Duration) (*client, error) {
	config = bounded.Config(config) // I6
	config.Timeout = 0
	if config.UserAgent == "" {
		config.UserAgent = "kube-migrator-storageversion"
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("read address of the API server: %w", err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, fmt.Errorf("configure transport: %w", err)
	}
	return &client{
		base:    base,
		timeout: timeout,
		http: &http.Client{
			Transport: transport,
			// The transport would add the credentials for whatever host a redirect names.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}, nil
}

// do sends one request, and decodes a successful answer. An answer of another status is a statusError.
func (c *client) do(ctx context.Context, method, path string, query url.Values, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var sent []byte
	if body != nil {
		var err error
		if sent, err = json.Marshal(body); err != nil {
			return err
		}
	}
	address := *c.base
	address.Path, address.RawPath = strings.TrimRight(address.Path, "/")+path, ""
	address.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, method, address.String(), bytes.NewReader(sent))
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("read answer to %s %s: %w", method, path, err)
	}
	if response.StatusCode/100 != 2 {
		failure := &statusError{code: response.StatusCode, request: method + " " + path}
		var status metav1.Status
		if json.Unmarshal(answer, &status) == nil {
			failure.message = status.Message
		}
		return failure
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("decode answer to %s %s: %w", method, path, err)
	}
	return nil
}

// statusError is an answer that is not a success.
type statusError struct {
	code             int
	request, message string
}

func (e *statusError) Error() string {
	return fmt.Sprintf("%s: %d %s: %s", e.request, e.code, http.StatusText(e.code), e.message)
}

// hasStatus reports whether an error is an answer with that HTTP status.
func hasStatus(err error, code int) bool {
	var status *statusError
	return errors.As(err, &status) && status.code == code
}
