// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// gear is the object in either version.
type gear struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              gearSpec `json:"spec"`
	// StoredBy is the replica that stored the object. It is in etcd alone.
	StoredBy string `json:"storedBy,omitempty"`
}

// gearSpec has the field Teeth in v1, and ToothCount in v2.
type gearSpec struct {
	Teeth      *int `json:"teeth,omitempty"`
	ToothCount *int `json:"toothCount,omitempty"`
}

// as returns the gear in a version.
func (g gear) as(version string) gear {
	count := g.Spec.Teeth
	if count == nil {
		count = g.Spec.ToothCount
	}
	g.TypeMeta = metav1.TypeMeta{APIVersion: group + "/" + version, Kind: kind}
	g.Spec = gearSpec{Teeth: count}
	if version == "v2" {
		g.Spec = gearSpec{ToothCount: count}
	}
	return g
}

func (s *server) decode(raw []byte, revision int64) (g gear, err error) {
	if err = json.Unmarshal(raw, &g); err != nil {
		return g, err
	}
	if !slices.Contains(s.decodable, strings.TrimPrefix(g.APIVersion, group+"/")) {
		return g, fmt.Errorf("cannot decode %s", g.APIVersion)
	}
	g.ResourceVersion = strconv.FormatInt(revision, 10)
	return g, nil
}

// encode returns what is stored of a gear; without a replica, to compare two.
func (s *server) encode(g gear, by string) ([]byte, error) {
	g = g.as(s.encoding)
	g.ResourceVersion, g.StoredBy = "", by
	return json.Marshal(g)
}

// write stores what change makes of the object, unless the request ends before: its entry may no longer stand then.
// Where change returns nil the object is deleted. An object that is stored as it would be stays.
func (s *server) write(ctx context.Context, key string, change func(*gear) (*gear, error)) (written *gear, err error) {
	for ctx.Err() == nil {
		found, err := s.etcd.Get(ctx, key)
		if err != nil {
			return nil, err
		}
		var have *gear
		var raw []byte
		revision := int64(0)
		if len(found.Kvs) > 0 {
			raw, revision = found.Kvs[0].Value, found.Kvs[0].ModRevision
			decoded, err := s.decode(raw, revision)
			if err != nil {
				return nil, err
			}
			have = &decoded
		}
		next, err := change(have)
		if err != nil {
			return nil, err
		}
		operation := clientv3.OpDelete(key)
		if next != nil {
			encoded, err := s.encode(*next, s.id)
			if err != nil {
				return nil, err
			}
			if have != nil {
				same, err := s.encode(*next, have.StoredBy)
				if err != nil || bytes.Equal(same, raw) {
					return have, err
				}
			}
			operation = clientv3.OpPut(key, string(encoded))
		}
		wait(ctx, s.delay)
		done, err := s.etcd.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).
			Then(operation).Commit()
		if err != nil {
			return nil, err
		}
		if done.Succeeded {
			if next == nil {
				return have, nil
			}
			next.ResourceVersion = strconv.FormatInt(done.Header.Revision, 10)
			return next, nil
		}
	}
	return nil, ctx.Err()
}

// list reads one page.
func (s *server) list(ctx context.Context, below string, limit int64, token string) (gears []gear, meta metav1.ListMeta,
	err error) {
	from, revision := below, int64(0)
	if token != "" {
		if _, err := fmt.Sscanf(token, "%d:%s", &revision, &from); err != nil {
			return nil, meta, fmt.Errorf("bad continue token: %w", err)
		}
	}
	found, err := s.etcd.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(below)),
		clientv3.WithLimit(limit), clientv3.WithRev(revision))
	if err != nil {
		return nil, meta, err
	}
	if revision == 0 {
		revision = found.Header.Revision
	}
	meta.ResourceVersion = strconv.FormatInt(revision, 10)
	for _, kv := range found.Kvs {
		g, err := s.decode(kv.Value, kv.ModRevision)
		if err != nil {
			return nil, meta, err
		}
		gears = append(gears, g)
	}
	if found.More {
		remaining := found.Count - int64(len(gears))
		meta.RemainingItemCount = &remaining
		meta.Continue = fmt.Sprintf("%d:%s\x00", revision, found.Kvs[len(found.Kvs)-1].Key)
	}
	return gears, meta, nil
}
