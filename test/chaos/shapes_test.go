// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build chaos

package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/test/chaos/plan"
)

// gadgets are a custom resource whose versions do not have the same fields: an object that is stored again under
// another schema may lose some.
var gadgets = testbed.Kind{
	Group: testbed.WidgetGroup, Version: "v1", Kind: "Gadget", Plural: "gadgets",
	Prefix: "/registry/" + testbed.WidgetGroup + "/gadgets/",
}

const (
	gadgetsCRD = "gadgets." + testbed.WidgetGroup
	crdsPath   = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	// stillGadgets is how many gadgets of each sort no writer touches.
	stillGadgets = 10
)

// shape is how the gadgets are stored.
type shape struct {
	storage  string              // the storage version
	unserved bool                // the storage version is not served
	webhook  bool                // a webhook converts
	fields   map[string][]string // those of spec besides color and size, by version
}

// everyField is a shape in which no object loses anything.
var everyField = shape{storage: "v1", fields: map[string][]string{"v1": {"weight", "flavor"}, "v2": {"weight", "flavor"}}}

// shapeOf returns the shape of a step: each version has a field that the other one lacks, or, in a narrower release,
// none of the two. Only in the latter does a webhook convert: between versions with fields of their own a rewrite trusts
// it to move the values (docs/adr/0026-fields-that-a-rewrite-would-drop.md), and this one moves none.
func shapeOf(s plan.Step) shape {
	narrow := s.Target&4 != 0
	o := shape{storage: "v1", unserved: s.Target&2 != 0, webhook: narrow && s.Edition&1 != 0, fields: map[string][]string{}}
	if s.Target&1 != 0 {
		o.storage = "v2"
	}
	if !narrow {
		o.fields = map[string][]string{"v1": {"weight"}, "v2": {"flavor"}}
	}
	return o
}

// spec returns that of the CustomResourceDefinition.
func (l *lab) spec(o shape) map[string]any {
	var versions []any
	for _, name := range []string{"v1", "v2"} {
		fields := map[string]any{"color": map[string]any{"type": "string"}, "size": map[string]any{"type": "integer"}}
		for _, field := range o.fields[name] {
			fields[field] = map[string]any{"type": "string"}
		}
		versions = append(versions, map[string]any{
			"name": name, "storage": name == o.storage, "served": name != o.storage || !o.unserved,
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
				"spec": map[string]any{"type": "object", "properties": fields},
			}}},
		})
	}
	conversion := map[string]any{"strategy": "None"}
	if o.webhook {
		conversion = map[string]any{"strategy": "Webhook", "webhook": map[string]any{
			"clientConfig":             map[string]any{"url": l.hookURL, "caBundle": l.cluster.CA()},
			"conversionReviewVersions": []string{"v1"},
		}}
	}
	return map[string]any{
		"group": gadgets.Group, "scope": "Namespaced", "versions": versions, "conversion": conversion,
		"names": map[string]any{"plural": gadgets.Plural, "singular": "gadget", "kind": gadgets.Kind,
			"listKind": "GadgetList"},
	}
}

// installGadgets creates the CustomResourceDefinition of the gadgets and waits until both servers serve it.
func (l *lab) installGadgets(ctx context.Context) error {
	body, err := json.Marshal(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": gadgetsCRD}, "spec": l.spec(everyField),
	})
	if err != nil {
		return err
	}
	for _, s := range l.servers {
		method, path := http.MethodGet, collection(gadgets, "default")
		if s.index == 0 {
			method, path = http.MethodPost, crdsPath
		}
		for status := 0; status/100 != 2; {
			var answer []byte
			if status, answer, err = s.Do(ctx, method, path, body); err != nil || status == http.StatusUnprocessableEntity {
				return fmt.Errorf("create CRD of gadgets: %d %s: %w", status, answer, err)
			}
			if status/100 != 2 && !wait(ctx, 50*time.Millisecond) {
				return ctx.Err()
			}
		}
	}
	return nil
}

// populateGadgets creates gadgets that no writer touches: some have a field that v1 will lack, some one that v2 will
// lack, and some none of them.
func (l *lab) populateGadgets(ctx context.Context) {
	for _, field := range []string{"weight", "flavor", ""} {
		for i := range stillGadgets {
			name := fmt.Sprintf("still-%s-%d", field, i)
			if field == "" {
				name = fmt.Sprintf("still-%d", i)
			}
			o := object(gadgets, name, "still")
			if field != "" {
				o["spec"].(map[string]any)[field] = "some"
			}
			l.intents.create(keyOf(gadgets, "default", name))
			l.insist(ctx, http.MethodPost, collection(gadgets, "default"), o)
		}
	}
}

// reshape changes the CustomResourceDefinition of the gadgets.
func (l *lab) reshape(o shape) {
	l.note("gadgets are stored in %s, served %t, by webhook %t, with the fields %v", o.storage, !o.unserved, o.webhook,
		o.fields)
	l.setReshaped(time.Now().Add(time.Hour)) // until it is known
	for wait(l.running, 100*time.Millisecond) {
		status, answer, err := l.ask(l.running, http.MethodGet, crdsPath+"/"+gadgetsCRD, nil)
		var d map[string]any
		if err != nil || status != http.StatusOK || json.Unmarshal(answer, &d) != nil {
			continue
		}
		d["spec"] = l.spec(o)
		status, answer, err = l.ask(l.running, http.MethodPut, crdsPath+"/"+gadgetsCRD, d)
		if err == nil && status == http.StatusOK {
			break
		}
		if status == http.StatusUnprocessableEntity {
			l.must("change the CRD of gadgets", fmt.Errorf("%s", answer))
			break
		}
	}
	l.setReshaped(time.Now())
}

func (l *lab) setReshaped(at time.Time) {
	l.judging.Lock()
	defer l.judging.Unlock()
	l.reshaped = at
}
