// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package migrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/crd"
	"github.com/kube-migrator/kube-migrator/internal/pace"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
)

// preflight checks before the first write for everything that would end the sweep: missing permissions, a CRD that is
// not established, a conversion webhook that does not answer.
func (s *Sweep) preflight(ctx context.Context) error {
	s.enter(Preparing)
	starting, cancel := s.untilStopped(ctx)
	defer cancel()
	for _, verb := range []string{"get", "patch"} { // the first list shows whether that is permitted
		if err := s.permitted(starting, verb, ""); err != nil {
			return err
		}
	}
	var converted []string
	if s.isCustom() {
		var err error
		if converted, err = s.established(starting); err != nil {
			return err
		}
	}
	if err := s.findStatus(starting); err != nil {
		return err
	}
	first, err := s.first(starting)
	if err != nil || len(first.objects) == 0 {
		return err
	}
	return s.convertible(starting, first.objects[0], converted)
}

// first lists one object. During a sweep, the sweep waits for a conversion webhook that cannot be reached. Before the
// start it fails at once, because nothing has been done yet.
func (s *Sweep) first(starting untilStop) (p page, err error) {
	var unconverted error
	err = s.try(starting, func(ctx context.Context) (pace.Kind, error) {
		p, err = s.wire.list(ctx, s.wire.target.Resource.Version, 1, "", maxPageBytes)
		if err != nil && strings.Contains(err.Error(), conversionWebhook) {
			unconverted, err = err, nil
		}
		return pace.Other, err
	})
	s.sawResourceVersion(p.resourceVersion)
	if err == nil {
		err = unconverted
	}
	return p, s.explainList(err)
}

// convertible reads one object at each of the versions. Whatever version it is stored in, one of the others needs the
// conversion webhook. A list would not show that, because the API server answers it with objects that it converted
// earlier.
func (s *Sweep) convertible(starting untilStop, o object, versions []string) error {
	for _, version := range versions {
		at := &wire{client: s.wire.client, target: s.wire.target}
		at.target.Resource.Version = version
		if err := s.pacer.WaitWhilePaused(starting); err != nil {
			return err
		}
		_, err := at.get(starting, o)
		if err != nil && strings.Contains(err.Error(), conversionWebhook) {
			return s.notReady(err)
		}
		if starting.Err() != nil {
			return context.Cause(starting)
		}
	}
	return nil
}

// findStatus finds out whether the resource has a status subresource, if the options need it.
func (s *Sweep) findStatus(starting untilStop) error {
	if !s.options.RetryThroughStatus {
		return nil
	}
	resource := s.wire.target.Resource
	path, err := apipath.GroupVersion(resource.GroupVersion())
	if err != nil {
		return s.wire.untrusted(err)
	}
	var served struct {
		Resources []struct{ Name string }
	}
	err = s.try(starting, func(ctx context.Context) (pace.Kind, error) {
		return pace.Other, apiserver.Send(ctx, s.wire.client.Get().AbsPath(path).MaxRetries(0), &served)
	})
	if err != nil {
		return fmt.Errorf("read which subresources %s has: %w", resource.GroupResource(), err)
	}
	name := resource.Resource + "/" + statusSubresource
	for _, r := range served.Resources {
		if r.Name == name {
			s.hasStatus = true
			return s.permitted(starting, "patch", statusSubresource)
		}
	}
	return nil
}

// permitted asks the API server whether the account of the client may use a verb on all objects of the resource, or on
// a subresource of theirs.
func (s *Sweep) permitted(starting untilStop, verb, subresource string) error {
	resource := s.wire.target.Resource
	body, err := json.Marshal(authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: verb, Group: resource.Group, Version: resource.Version, Resource: resource.Resource,
			Subresource: subresource,
		}},
	})
	if err != nil {
		return fmt.Errorf("ask for permission: %w", err)
	}
	var review authorizationv1.SelfSubjectAccessReview
	err = s.try(starting, func(ctx context.Context) (pace.Kind, error) {
		request := s.wire.client.Post().AbsPath("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews").MaxRetries(0).
			SetHeader("Content-Type", "application/json").Body(body)
		return pace.Other, apiserver.Send(ctx, request, &review)
	})
	if err != nil {
		return fmt.Errorf("ask for permission to %s %s: %w", verb, resource.GroupResource(), err)
	}
	if !review.Status.Allowed {
		name := resource.GroupResource().String()
		if subresource != "" {
			name = schema.GroupResource{Group: resource.Group, Resource: resource.Resource + "/" + subresource}.String()
		}
		return fmt.Errorf("%w: cannot %s %s at the cluster scope", ErrForbidden, verb, name)
	}
	return nil
}

// established returns the served versions of a custom resource that is ready, if a webhook converts between them. The
// API server's own conversion cannot fail.
func (s *Sweep) established(starting untilStop) (converted []string, err error) {
	d := new(crd.CRD)
	pruned, err := s.readCRD(starting, d)
	if err != nil {
		return nil, err
	}
	if ok, why := d.Established(); !ok {
		return nil, fmt.Errorf("%w: CustomResourceDefinition %s is not established: %s", ErrNotReady,
			d.Metadata.Name, why)
	}
	s.patchAtStorageVersion(pruned)
	s.custom = pruned
	for _, v := range d.Spec.Versions {
		if v.Served && needsWebhook(d) {
			converted = append(converted, v.Name)
		}
	}
	return converted, nil
}

// needsWebhook reports whether objects may need the conversion webhook on their way into the storage version: those that
// are stored in another one, and all of them where the storage version is not served.
func needsWebhook(d *crd.CRD) bool {
	storage := d.StorageVersion()
	return d.ConvertsByWebhook() && (!d.Served(storage) || d.ClaimedBy() != "" ||
		slices.ContainsFunc(d.Status.StoredVersions, func(v string) bool { return v != storage }))
}

// notReady reports that what is wrong with the resource does not pass by itself, with what helps.
func (s *Sweep) notReady(err error) error {
	return fmt.Errorf("%w: %s: %w%s", ErrNotReady, s.wire.target.GroupResource(), err, s.remedy(err))
}

var (
	missingVersion = regexp.MustCompile(`from an invalid group/version: [^/ ]+/([a-z0-9]+)`)
	tooLarge       = regexp.MustCompile(`etcdserver: request is too large`)
	missingKey     = regexp.MustCompile(`not transformable|[Uu]nable to transform|no matching prefix found`)
)

// remedy says what helps against an error that no repetition helps against, as the end of a sentence. It is empty for
// other errors.
func (s *Sweep) remedy(err error) string {
	name, message := crd.Name(s.wire.target.GroupResource()), err.Error()
	switch version := missingVersion.FindStringSubmatch(message); {
	case classify(err) == unready, strings.Contains(message, conversionWebhook) && webhookGone.MatchString(message):
		return "; restore the webhook, or correct spec.conversion of the CustomResourceDefinition " + name
	case !isPermanent(err):
		return ""
	case version != nil:
		return fmt.Sprintf("; the CustomResourceDefinition %s does not have version %s any more, in which objects are stored: "+
			"kube-migrator retire %s --version=%s --rescue restores it", name, version[1], name, version[1])
	case tooLarge.MatchString(message):
		return "; the object exceeds the limit of etcd in its storage version: make it smaller"
	case missingKey.MatchString(message):
		return "; give the API servers the encryption key with which it was written, or delete it from etcd"
	}
	return "; restore the object from a backup, or delete it from etcd"
}

// gone explains that the API server does not know the path of the resource. For a custom resource, the CRD says whether
// the resource is gone, or only the version at which its objects are rewritten.
func (s *Sweep) gone(starting untilStop, err error) error {
	if !errors.Is(err, ErrResourceGone) || !s.isCustom() {
		return err
	}
	d, unread := s.readCRD(starting, new(json.RawMessage))
	if unread != nil {
		return err
	}
	if unserved := s.served(d); unserved != nil {
		return unserved
	}
	return err
}

// served returns an error if the CRD does not serve the version at which objects are rewritten. The next run uses another
// one.
func (s *Sweep) served(d *pruning.CRD) error {
	version := s.wire.target.Resource.Version
	if v := d.Version(version); v != nil && v.Served || len(d.Versions) == 0 {
		return nil
	}
	var others []string
	for _, v := range d.Versions {
		if v.Served {
			others = append(others, v.Name)
		}
	}
	return fmt.Errorf("%w: the CustomResourceDefinition %s does not serve version %s any more, at which objects were "+
		"rewritten; it serves [%s]", ErrNotReady, crd.Name(s.wire.target.GroupResource()), version, strings.Join(others, " "))
}
