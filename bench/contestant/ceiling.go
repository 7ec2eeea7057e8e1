// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// generate is the ceiling: it sends the request that kube-migrator sends for each object, to names that it knows, and
// does nothing else. It is a process of its own, as the contestants are.
func generate(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("generate", flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "whom to talk to, as who")
	prefix := flags.String("prefix", "", "what names begin with")
	count := flags.Int("count", 0, "how many names")
	concurrency := flags.Int("concurrency", 1, "how many requests in flight, over one connection")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return fmt.Errorf("configure client: %w", err)
	}
	names := testbed.Bulk{Prefix: *prefix}
	var next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range *concurrency {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= *count {
					return nil
				}
				key := names.Key(i)
				if err := patch(ctx, client, config.Host, key[strings.LastIndexByte(key, '/')+1:]); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// patch sends the empty patch.
func patch(ctx context.Context, client *http.Client, host, name string) error {
	url := host + "/apis/" + testbed.WidgetGroup + "/v2/namespaces/default/widgets/" + name +
		"?fieldManager=kube-migrator&fieldValidation=Ignore"
	request, err := http.NewRequestWithContext(ctx, http.MethodPatch, url, strings.NewReader("{}"))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/merge-patch+json")
	request.Header.Set("Accept", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1")
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("patch %s: %w", name, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return fmt.Errorf("patch %s: %w", name, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("patch %s: %w", name, errors.New(response.Status+": "+string(body)))
	}
	return nil
}
