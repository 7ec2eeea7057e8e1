// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/kube-migrator/kube-migrator/internal/bounded"
)

// ErrMalformed says that an answer is not what was asked for: it is not JSON, for example, because a proxy sent it.
var ErrMalformed = errors.New("malformed answer")

// ErrUntrusted says that an answer cannot be true: it names what no API server can have, or is about something else than
// what was asked for.
var ErrUntrusted = errors.New("untrusted answer")

// Send sends a request and decodes the JSON of its answer into a value; nil ignores the answer. The error is the API
// server's own (test with apierrors), a bounded.TooLargeError, an ErrMalformed, or that of a request without an answer.
func Send(ctx context.Context, request *rest.Request, into any) error {
	result := request.Do(klog.NewContext(ctx, klog.Logger{})) // client-go would log some of the errors that it returns
	raw, err := result.Raw()
	if tooLarge := (*bounded.TooLargeError)(nil); errors.As(err, &tooLarge) {
		return tooLarge // client-go advises to retry
	}
	if err != nil {
		return result.Error() // unlike err, it contains the API server's message
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	return nil
}
