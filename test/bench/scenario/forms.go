// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
	"github.com/kube-migrator/kube-migrator/test/bench/contestant"
	"github.com/kube-migrator/kube-migrator/test/bench/lab"
	"github.com/kube-migrator/kube-migrator/test/bench/report"
)

// What a form must leave as it was (I3).
const (
	managedFieldsStayed = "managedFields stayed"
	generationStayed    = "generation stayed"
	contentStayed       = "content stayed"
)

// forms: what every form of request costs for each kind and size, and whether it leaves the objects as they were.
func forms() Scenario {
	return Scenario{
		Name: "forms", Title: "the cost of every form of request, by kind and size", Promised: migration(),
		run: func(ctx context.Context, b *Bench) error {
			l, err := b.lab(ctx, testbed.Options{}, lab.ScalableWidgets())
			if err != nil {
				return err
			}
			type group struct {
				kind         lab.Kind
				bytes, count int
			}
			groups := []group{
				{lab.ScalableWidgets(), 1 << 10, 1000}, {lab.ConfigMaps(), 200_000, 200}, {lab.Deployments(), 1 << 11, 1000},
				{lab.ScalableWidgets(), 200_000, 200}, {lab.ReplicaSets(), 1 << 11, 1000},
				{lab.StatefulSets(), 1 << 11, 1000},
			}
			for _, of := range groups[:b.scale(len(groups), 3)] {
				if err := formsOf(ctx, b, l, of.kind, of.bytes, b.scale(of.count, 20)); err != nil {
					return err
				}
			}
			b.Report.PlotBars("forms", "API server CPU per object by form of request", "ms", report.APIServerCPUMillis)
			return nil
		},
	}
}

// formsOf measures one kind. Its objects are gone afterwards, so that they are no burden to other kinds.
func formsOf(ctx context.Context, b *Bench, l *lab.Lab, k lab.Kind, bytes, count int) error {
	const inFlight = 8
	objects, err := l.NewObjects(ctx, k, bytes)
	if err != nil {
		return err
	}
	h := heat{name: fmt.Sprintf("%s of %d KB", k.Name, max(1, objects.Bytes/1000)), objects: objects, count: count,
		restarts: bytes > 100_000}
	b.set("requests in flight", fmt.Sprint(inFlight))
	all := contestant.FormsOf(k)
	if _, err := b.measure(ctx, l, h, contestant.CeilingOf(all[0], inFlight)); err != nil { // warms the server up
		return err
	}
	for round := 1; round <= b.rounds(1); round++ {
		for i := range all {
			form := all[(i+round-1)%len(all)]
			c := contestant.CeilingOf(form, inFlight)
			c.Name = form.Name
			before := map[int]map[string]any{}
			if _, err := objects.MakeOld(ctx, count); err != nil {
				return err
			}
			if err := show(ctx, objects, count, before); err != nil {
				return err
			}
			if err := b.once(ctx, l, h, c, round); err != nil {
				b.Report.Add(report.Measurement{Case: h.name, Contestant: c.Name, Round: round, Error: err.Error()})
				b.say("%s: %s failed: %v", h.name, c.Name, err)
				continue
			}
			after := map[int]map[string]any{}
			if err := show(ctx, objects, count, after); err != nil {
				return err
			}
			last := &b.Report.Measurements[len(b.Report.Measurements)-1]
			last.Checks, last.Examples = unchanged(before, after)
		}
	}
	return objects.Remove(ctx)
}

// show reads some of the objects.
func show(ctx context.Context, objects *lab.Objects, count int, into map[int]map[string]any) error {
	const samples = 20
	for i := 0; i < count; i += max(1, count/samples) {
		object, err := objects.Shown(ctx, i)
		if err != nil {
			return err
		}
		into[i] = object
	}
	return nil
}

// unchanged compares objects before and after, and gives an example of each difference.
func unchanged(before, after map[int]map[string]any) (checks map[string]bool, examples map[string]string) {
	checks, examples = map[string]bool{}, map[string]string{}
	for _, i := range slices.Sorted(maps.Keys(before)) {
		for check, part := range map[string]func(map[string]any) any{
			managedFieldsStayed: func(object map[string]any) any { return metadata(object)["managedFields"] },
			generationStayed:    func(object map[string]any) any { return metadata(object)["generation"] },
			contentStayed:       content,
		} {
			was, is := part(before[i]), part(after[i])
			stayed, checked := checks[check]
			if reflect.DeepEqual(was, is) {
				checks[check] = stayed || !checked
				continue
			}
			checks[check] = false
			if stayed || !checked {
				examples[check+": before"], examples[check+": after"] = short(was), short(is)
			}
		}
	}
	return checks, examples
}

// short is the beginning of a value in JSON.
func short(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	const most = 1500
	return string(raw[:min(len(raw), most)])
}

func metadata(object map[string]any) map[string]any { return object["metadata"].(map[string]any) }

// content is an object without managedFields and generation.
func content(object map[string]any) any {
	rest, metadata := maps.Clone(object), maps.Clone(metadata(object))
	delete(metadata, "managedFields")
	delete(metadata, "generation")
	rest["metadata"] = metadata
	return rest
}
