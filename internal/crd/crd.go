// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package crd reads the parts of a CustomResourceDefinition that decide what is stored, and leaves its schemas,
// which are megabytes in some clusters, where they are.
//
// It owns the reading of CustomResourceDefinitions for every other package. It never writes one.
package crd

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-migrator/kube-migrator/internal/apipath"
	"github.com/kube-migrator/kube-migrator/internal/apiserver"
	"github.com/kube-migrator/kube-migrator/internal/bounded"
	"github.com/kube-migrator/kube-migrator/internal/pruning"
)

const path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

// pageSize bounds how many CRDs, with their schemas, the API server has to hold for one answer.
const pageSize = 20

// CRD is a CustomResourceDefinition without its schemas.
type CRD struct {
	Metadata struct {
		Name            string                      `json:"name"`
		UID             types.UID                   `json:"uid"`
		ResourceVersion string                      `json:"resourceVersion"`
		Generation      int64                       `json:"generation"`
		ManagedFields   []metav1.ManagedFieldsEntry `json:"managedFields"`
	} `json:"metadata"`
	Spec struct {
		Group string `json:"group"`
		Names struct {
			Plural     string   `json:"plural"`
			Singular   string   `json:"singular"`
			ShortNames []string `json:"shortNames"`
			Kind       string   `json:"kind"`
		} `json:"names"`
		Scope      string    `json:"scope"`
		Versions   []Version `json:"versions"`
		Conversion struct {
			Strategy string `json:"strategy"`
		} `json:"conversion"`
	} `json:"spec"`
	Status struct {
		StoredVersions []string    `json:"storedVersions"`
		Conditions     []Condition `json:"conditions"`
	} `json:"status"`
}

// ConvertsByWebhook reports whether the API server asks a webhook to convert objects between versions.
func (d *CRD) ConvertsByWebhook() bool {
	return d.Spec.Conversion.Strategy == "Webhook"
}

// UnmarshalJSON refuses lists with more elements than an API server takes, before they are decoded: an element of two
// bytes takes hundreds in memory (I6).
func (d *CRD) UnmarshalJSON(raw []byte) error {
	type list = bounded.List[json.RawMessage]
	var lists struct {
		Metadata struct {
			ManagedFields list `json:"managedFields"`
		} `json:"metadata"`
		Spec struct {
			Names struct {
				ShortNames list `json:"shortNames"`
			} `json:"names"`
			Versions list `json:"versions"`
		} `json:"spec"`
		Status struct {
			StoredVersions list `json:"storedVersions"`
			Conditions     list `json:"conditions"`
		} `json:"status"`
	}
	if err := json.Unmarshal(raw, &lists); err != nil {
		return err
	}
	type plain CRD
	return json.Unmarshal(raw, (*plain)(d))
}

// Version is one entry of spec.versions.
type Version struct {
	Name    string `json:"name"`
	Served  bool   `json:"served"`
	Storage bool   `json:"storage"`
}

// Condition is one entry of status.conditions.
type Condition struct {
	Type    string `json:"type"`
	Status  string `json:"status"`
	Message string `json:"message"`
}

// Name returns the name of the CRD of a resource.
func Name(r schema.GroupResource) string { return r.Resource + "." + r.Group }

// Get reads one CRD.
// Errors are those of the API server: apierrors.IsNotFound where the resource is not a custom one.
func Get(ctx context.Context, client rest.Interface, name string) (*CRD, error) {
	d := new(CRD)
	if err := Read(ctx, client, name, d); err != nil {
		return nil, err
	}
	return d, nil
}

// GetWithSchemas reads one CRD, and its schemas. Errors are those of Get.
func GetWithSchemas(ctx context.Context, client rest.Interface, name string) (*CRD, *pruning.CRD, error) {
	var raw json.RawMessage
	if err := Read(ctx, client, name, &raw); err != nil {
		return nil, nil, err
	}
	d := new(CRD)
	if err := json.Unmarshal(raw, d); err != nil {
		return nil, nil, fmt.Errorf("read CustomResourceDefinition %s: %w", name, err)
	}
	schemas, err := pruning.Parse(raw)
	return d, schemas, err
}

// Read decodes one CRD, with its schemas, into what the caller keeps of it. Errors are those of Get.
func Read(ctx context.Context, client rest.Interface, name string, into any) error {
	at, err := apipath.Join(path, name)
	if err != nil {
		return fmt.Errorf("read CustomResourceDefinition: %w", err)
	}
	return apiserver.Send(ctx, client.Get().AbsPath(at), into)
}

// Each calls f with every CRD of the cluster. A page is decoded while it arrives, one CRD at a time:
// with their schemas, a page of them may not fit into the memory we allow ourselves (I6).
func Each(ctx context.Context, client rest.Interface, f func(*CRD)) error {
	var pages bounded.Pages
	for token := ""; ; {
		var names []string
		body, err := client.Get().AbsPath(path).Param("limit", strconv.Itoa(pageSize)).Param("continue", token).Stream(ctx)
		if err != nil {
			return fmt.Errorf("list CustomResourceDefinitions: %w", err)
		}
		token, err = decodeList(body, func(d *CRD) {
			names = append(names, d.Metadata.Name)
			f(d)
		})
		body.Close()
		if err == nil {
			err = pages.Next(token, slices.Values(names))
		}
		if err != nil {
			return fmt.Errorf("decode CustomResourceDefinitions: %w", err)
		}
		if token == "" {
			return nil
		}
	}
}

// decodeList reads one page and returns its continue token.
func decodeList(page io.Reader, f func(*CRD)) (token string, err error) {
	d := json.NewDecoder(page)
	if start, err := d.Token(); err != nil {
		return "", err
	} else if start != json.Delim('{') {
		return "", fmt.Errorf("it begins with %v", start)
	}
	for d.More() {
		field, err := d.Token()
		if err != nil {
			return "", err
		}
		switch field {
		case "metadata":
			var metadata metav1.ListMeta
			if err := d.Decode(&metadata); err != nil {
				return "", err
			}
			token = metadata.Continue
		case "items":
			if err := decodeItems(d, f); err != nil {
				return "", err
			}
		default:
			var ignored json.RawMessage
			if err := d.Decode(&ignored); err != nil {
				return "", err
			}
		}
	}
	// The closing brace: a page that was cut off must not look like a short one.
	_, err = d.Token()
	return token, err
}

func decodeItems(d *json.Decoder, f func(*CRD)) error {
	start, err := d.Token()
	if err != nil || start == nil { // null
		return err
	}
	for d.More() {
		crd := new(CRD)
		if err := d.Decode(crd); err != nil {
			return err
		}
		f(crd)
	}
	_, err = d.Token() // ]
	return err
}

// StorageVersion returns the version that spec marks as the storage version, "" where it marks none.
func (d *CRD) StorageVersion() string {
	for _, v := range d.Spec.Versions {
		if v.Storage {
			return v.Name
		}
	}
	return ""
}

// VersionNames returns the names in spec.versions.
func (d *CRD) VersionNames() []string {
	names := make([]string, len(d.Spec.Versions))
	for i, v := range d.Spec.Versions {
		names[i] = v.Name
	}
	return names
}

// Served reports whether spec serves the version.
func (d *CRD) Served(version string) bool {
	for _, v := range d.Spec.Versions {
		if v.Name == version {
			return v.Served
		}
	}
	return false
}

// Writer is the field manager of kube-migrator's writes to CRDs.
const Writer = "kube-migrator"

// ClaimedBy returns the field manager that has written status.storedVersions last, or "" if that is kube-migrator, which
// had a proof, or an API server, which adds versions and is no manager of the field. (Old API servers made the creator of a
// CRD a manager, but not of the subresource.)
func (d *CRD) ClaimedBy() (manager string) {
	for _, e := range d.Metadata.ManagedFields {
		switch {
		case e.Subresource != "status" || e.FieldsV1 == nil || !strings.Contains(pruning.FieldsOf(e.FieldsV1), `"f:storedVersions"`):
		case e.Manager == Writer:
			return ""
		default:
			manager = e.Manager
		}
	}
	return manager
}

// Established reports whether the API server serves the resource; the message says why not.
func (d *CRD) Established() (bool, string) {
	for _, c := range d.Status.Conditions {
		if c.Type == "Terminating" && c.Status == "True" {
			return false, c.Message
		}
	}
	message := "its condition Established is missing"
	for _, c := range d.Status.Conditions {
		if c.Type == "Established" {
			if c.Status == "True" {
				return true, ""
			}
			message = c.Message
		}
	}
	return false, message
}

// SpecWritten returns the latest moment, by the API server's clock, at which the spec can have been written last,
// so no storage version has moved since. It is the newest time among the managers of spec.versions; ok is false
// where none is recorded, and then nothing is known.
func (d *CRD) SpecWritten() (latest time.Time, ok bool) {
	for _, m := range d.Metadata.ManagedFields {
		if m.Subresource != "" || m.FieldsV1 == nil || m.Time == nil {
			continue
		}
		if strings.Contains(pruning.FieldsOf(m.FieldsV1), `"f:versions"`) {
			ok = true
		}
		if m.Time.After(latest) {
			latest = m.Time.Time
		}
	}
	return latest, ok
}
