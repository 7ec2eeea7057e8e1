// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package contestant

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-migrator/kube-migrator/test/bench/lab"
)

// GenerateCommand is the first argument that makes the benchmark's own binary call Generate.
const GenerateCommand = "generate"

// CeilingOf is this program, sending nothing but requests of a form, so many at a time, over one connection.
func CeilingOf(form Form, concurrency int) Contestant {
	return Contestant{Name: Ceiling, Migrate: func(ctx context.Context, r Run) error {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		return Finish(ctx, r.Lab, r.Watch, self, GenerateCommand, "--kubeconfig="+r.Kubeconfig,
			"--form="+form.Name, "--path="+r.Objects.Path(), "--api-version="+r.Objects.APIVersion(),
			"--kind="+r.Objects.Kind.Kind, "--count="+strconv.Itoa(r.Count), "--concurrency="+strconv.Itoa(concurrency))
	}}
}

// generator sends requests of one form to objects whose names it knows.
type generator struct {
	client           *http.Client
	host, path       string
	form             Form
	apiVersion, kind string
	count, inFlight  int
}

// Generate is the ceiling's process.
func Generate(ctx context.Context, args []string) error {
	g := generator{}
	flags := flag.NewFlagSet(GenerateCommand, flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "the API server, and the user")
	form := flags.String("form", merge.Name, "form of the requests")
	flags.StringVar(&g.path, "path", "", "path of the collection")
	flags.StringVar(&g.apiVersion, "api-version", "", "apiVersion of the objects")
	flags.StringVar(&g.kind, "kind", "", "kind of the objects")
	flags.IntVar(&g.count, "count", 0, "how many objects")
	flags.IntVar(&g.inFlight, "concurrency", 1, "how many requests in flight")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if g.form, err = formNamed(*form); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	if g.client, err = rest.HTTPClientFor(config); err != nil {
		return fmt.Errorf("configure client: %w", err)
	}
	g.host = config.Host
	return g.run(ctx)
}

func (g *generator) run(ctx context.Context) error {
	bodies := make([][]byte, g.count)
	if g.form.reads {
		err := g.each(ctx, func(ctx context.Context, i int) (err error) {
			bodies[i], err = g.send(ctx, http.MethodGet, i, "", nil)
			return err
		})
		if err != nil {
			return err
		}
	}
	return g.each(ctx, func(ctx context.Context, i int) error {
		body := bodies[i]
		switch {
		case g.form.applies:
			body = fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"name":%q,"namespace":"default"}}`,
				g.apiVersion, g.kind, lab.ObjectName(i))
		case !g.form.reads:
			body = []byte(g.form.body)
		}
		_, err := g.send(ctx, g.form.method, i, g.form.subresource, body)
		bodies[i] = nil
		return err
	})
}

// each calls f for every object, many at a time.
func (g *generator) each(ctx context.Context, f func(ctx context.Context, i int) error) error {
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range g.inFlight {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= g.count {
					return nil
				}
				if err := f(ctx, i); err != nil {
					return fmt.Errorf("%s: %w", lab.ObjectName(i), err)
				}
			}
		})
	}
	return group.Wait()
}

// send sends one request. The answer to a write is reduced to metadata, as kube-migrator asks for.
func (g *generator) send(ctx context.Context, method string, i int, subresource string, body []byte) ([]byte, error) {
	url := g.host + g.path + "/" + lab.ObjectName(i) + subresource
	if method != http.MethodGet {
		url += "?fieldManager=kube-migrator&fieldValidation=Ignore"
	}
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if method != http.MethodGet {
		request.Header.Set("Content-Type", g.form.contentType)
		request.Header.Set("Accept", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	}
	response, err := g.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s: %s", g.form.Name, response.Status, answer)
	}
	return answer, nil
}
