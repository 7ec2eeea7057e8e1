// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package wiring

import (
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/api-migrator/internal/project"
	"github.com/kube-migrator/kube-migrator/api-migrator/internal/tree"
)

const (
	kustomizationFile = "kustomization.yaml"
	injectAnnotation  = "cert-manager.io/inject-ca-from"
	apiextensionsV1   = "apiextensions.k8s.io/v1"
)

// addConversion adds spec.conversion and the CA to the CRD, by patches of config/crd.
func (w *wiring) addConversion() error {
	dir := path.Join(w.dir, "config", "crd")
	list := path.Join(dir, kustomizationFile)
	text, isThere, err := w.text(list)
	if err != nil {
		return err
	}
	if !isThere {
		w.Note(list, "does not exist: set spec.conversion of the CRD of %s to strategy Webhook, with the path /convert", w.Kind)
		return nil
	}
	crd, err := w.manifest(dir)
	if err != nil {
		return err
	}
	if crd == nil {
		w.Note(dir, "has no CRD of %s: write it with make manifests, and run convert scaffold again", w.Kind)
		return nil
	}
	patches, err := w.patches(dir, crd.Name)
	if err != nil {
		return err
	}
	base, err := w.declared(crd)
	if err != nil {
		return err
	}
	file := patches.conversion
	if one := cmp.Or(patches.none, base.none); one != "" {
		w.Note(one, "says conversion strategy None for %s, so API servers do not call the webhook: set strategy Webhook, with "+
			"the path /convert", crd.Name)
		return nil
	}
	if file == "" {
		if base.conversion != "" {
			return nil // the manifest itself says it, and it is generated or written by hand: so is its CA
		}
		file = w.patchName(text, "webhook_in_", crd.Plural)
		if err := w.create(path.Join(dir, file), conversionPatch(crd), "spec.conversion of "+crd.Name); err != nil {
			return err
		}
	} else if crd.API != apiextensionsV1 && !patches.prunes && !base.prunes {
		w.Note(path.Join(dir, file), "needs preserveUnknownFields: false in spec: in %s, API servers refuse a conversion webhook "+
			"without it", crd.API)
	}
	text, ok := withPatch(text, file, "crdkustomizewebhookpatch", w.plugin)
	if !ok {
		w.Note(list, "has no place for patches that kubebuilder knows: list %s in it", file)
	}
	if text, err = w.addInjection(text, dir, crd, patches.injection); err != nil {
		return err
	}
	if tree.Folder(w.project.Root).Exists(path.Join(dir, "kustomizeconfig.yaml")) {
		text = withConfiguration(text)
	}
	if err := w.set(list, text); err != nil {
		return err
	}
	return w.checkRest(dir, crd)
}

// manifest is the CRD below config/crd.
func (w *wiring) manifest(dir string) (*project.Manifest, error) {
	all, err := w.project.Manifests()
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if one.Group == w.Hub.Group && one.Kind == w.Kind && strings.HasPrefix(one.File, dir+"/") {
			return &one, nil
		}
	}
	return nil, nil
}

// patched is what the patches of a CRD say, or the CRD itself: the files that say so, relative to config/crd.
type patched struct {
	conversion string // a strategy that calls a webhook
	none       string // strategy None; the path from the project's root
	injection  string
	prunes     bool // preserveUnknownFields: false
}

// add takes over what one file says.
func (p *patched) add(one partial, name, full string) {
	switch strategy := one.Spec.Conversion.Strategy; strategy {
	case "":
	case "None":
		p.none = full
	default:
		p.conversion = name
	}
	if one.Metadata.Annotations[injectAnnotation] != "" {
		p.injection = name
	}
	if keeps := one.Spec.PreserveUnknownFields; keeps != nil && !*keeps {
		p.prunes = true
	}
}

// partial is the part of a CRD, or of a patch of one, that says how it is converted.
type partial struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name        string            `json:"name"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Conversion struct {
			Strategy string `json:"strategy"`
		} `json:"conversion"`
		PreserveUnknownFields *bool `json:"preserveUnknownFields"`
	} `json:"spec"`
}

func (w *wiring) patches(dir, name string) (patched, error) {
	var found patched
	files, err := filepath.Glob(filepath.Join(w.project.Root, filepath.FromSlash(dir), "patches", "*.yaml"))
	if err != nil {
		return found, fmt.Errorf("look for patches: %w", err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return found, fmt.Errorf("read patch: %w", err)
		}
		var one partial
		if yaml.Unmarshal(content, &one) != nil || one.Kind != "CustomResourceDefinition" || one.Metadata.Name != name {
			continue
		}
		short := path.Join("patches", filepath.Base(file))
		found.add(one, short, path.Join(dir, short))
	}
	return found, nil
}

// declared is what the manifest itself says.
func (w *wiring) declared(crd *project.Manifest) (found patched, err error) {
	text, _, err := w.text(crd.File)
	if err != nil {
		return found, err
	}
	for document := range strings.SplitSeq(text, "\n---") {
		var one partial
		if yaml.Unmarshal([]byte(document), &one) == nil && one.Metadata.Name == crd.Name {
			found.add(one, crd.File, crd.File)
		}
	}
	return found, nil
}

// patchName is the file of a patch: as the kustomization calls it in a comment, or else as kubebuilder does.
func (w *wiring) patchName(text, prefix, plural string) string {
	short, long := prefix+plural+".yaml", prefix+w.group()+"_"+plural+".yaml"
	name := short
	if w.multiGroup {
		name = long
	}
	for _, one := range []string{short, long} {
		if regexp.MustCompile(`(?m)patches/` + regexp.QuoteMeta(one) + `\s*$`).MatchString(text) {
			name = one
		}
	}
	return "patches/" + name
}

func conversionPatch(crd *project.Manifest) string {
	head := "# This patch has the API server call the conversion webhook for the CRD.\napiVersion: " + crd.API +
		"\nkind: CustomResourceDefinition\nmetadata:\n  name: " + crd.Name + "\nspec:\n"
	if crd.API != apiextensionsV1 {
		return head + `  # An API server that keeps unknown fields refuses to call a conversion webhook.
  preserveUnknownFields: false
  conversion:
    strategy: Webhook
    conversionReviewVersions:
    - v1
    - v1beta1
    webhookClientConfig:
      # cert-manager replaces this line feed, without which the API server would refuse the CRD.
      caBundle: Cg==
      service:
        namespace: system
        name: webhook-service
        path: /convert
`
	}
	return head + `  conversion:
    strategy: Webhook
    webhook:
      clientConfig:
        service:
          namespace: system
          name: webhook-service
          path: /convert
      conversionReviewVersions:
      - v1
`
}

// addInjection has cert-manager write its CA into the CRD.
func (w *wiring) addInjection(text, dir string, crd *project.Manifest, file string) (string, error) {
	const markerName = "crdkustomizecainjectionpatch"
	isOld := slices.ContainsFunc(strings.Split(text, "\n"), marker(markerName).MatchString)
	if file == "" && !isOld {
		return text, w.addReplacement(crd)
	}
	if file == "" {
		overall, _, err := w.text(path.Join(w.dir, "config", "default", kustomizationFile))
		if err != nil {
			return text, err
		}
		certificate := "CERTIFICATE_NAMESPACE/CERTIFICATE_NAME" // replaced as a whole, by replacements
		if regexp.MustCompile(`(?m)^#?\s*vars:`).MatchString(overall) || w.plugin == 2 {
			certificate = "$(CERTIFICATE_NAMESPACE)/$(CERTIFICATE_NAME)"
		}
		file = w.patchName(text, "cainjection_in_", crd.Plural)
		patch := "# This patch has cert-manager write its CA into the CRD.\napiVersion: " + crd.API +
			"\nkind: CustomResourceDefinition\nmetadata:\n  annotations:\n    " + injectAnnotation + ": " + certificate +
			"\n  name: " + crd.Name + "\n"
		if err := w.create(path.Join(dir, file), patch, "the annotation "+injectAnnotation+" of "+crd.Name); err != nil {
			return text, err
		}
	}
	text, ok := withPatch(text, file, markerName, w.plugin)
	if !ok {
		w.Note(path.Join(dir, kustomizationFile), "has no place for patches that kubebuilder knows: list %s in it", file)
	}
	return text, nil
}

// addReplacement is addInjection for layouts that replace the annotation in config/default.
func (w *wiring) addReplacement(crd *project.Manifest) error {
	list := path.Join(w.dir, "config", "default", kustomizationFile)
	text, _, err := w.text(list)
	if err != nil || isReplaced(text, crd.Name) {
		return err
	}
	isActive := regexp.MustCompile(`(?m)^replacements:\s*$`).MatchString(text) && isListed(text, "../certmanager")
	done := text
	for index, markerName := range []string{"crdkustomizecainjectionns", "crdkustomizecainjectionname"} {
		var ok bool
		done, ok = withTarget(done, markerName, index, crd.Name)
		isActive = isActive && ok
	}
	if !isActive || !isReplaced(done, crd.Name) { // or the comment was not YAML
		w.Note(list, "does not replace annotations with the certificate yet: uncomment the sections of cert-manager, and "+
			"the block for conversion webhooks with the CRD %s, so that cert-manager writes its CA into it", crd.Name)
		return nil
	}
	return w.set(list, done)
}

// isReplaced reports whether a kustomization replaces the annotation of a CRD, alone or with those of all others.
func isReplaced(text, name string) bool {
	var list struct {
		Replacements []struct {
			Targets []struct {
				Select struct{ Kind, Name string } `json:"select"`
			} `json:"targets"`
		} `json:"replacements"`
	}
	if yaml.Unmarshal([]byte(text), &list) != nil {
		return false
	}
	for _, one := range list.Replacements {
		for _, target := range one.Targets {
			if target.Select.Kind == "CustomResourceDefinition" && (target.Select.Name == "" || target.Select.Name == name) {
				return true
			}
		}
	}
	return false
}

// withTarget puts a CRD among the targets above a marker, and takes the block around it out of its comment.
func withTarget(text, markerName string, index int, name string) (string, bool) {
	lines := strings.Split(text, "\n")
	at := slices.IndexFunc(lines, marker(markerName).MatchString)
	if at < 0 {
		return text, false
	}
	source := regexp.MustCompile(`^#?\s*- source:`)
	begin := at - 1
	for begin >= 0 && !source.MatchString(lines[begin]) {
		begin--
	}
	if begin < 0 {
		return text, false
	}
	for i := begin; i < at; i++ {
		if rest, ok := strings.CutPrefix(lines[i], "#"); ok {
			lines[i] = rest
		}
	}
	target := fmt.Sprintf("     - select:\n         kind: CustomResourceDefinition\n         name: %s\n       fieldPaths:\n"+
		"         - .metadata.annotations.[%s]\n       options:\n         delimiter: '/'\n         index: %d\n"+
		"         create: true", name, injectAnnotation, index)
	return strings.Join(slices.Insert(lines, at, strings.Split(target, "\n")...), "\n"), true
}

// isListed reports whether a kustomization has an entry that is not in a comment.
func isListed(text, entry string) bool {
	return regexp.MustCompile(`(?m)^\s*- (path: )?` + regexp.QuoteMeta(entry) + `\s*$`).MatchString(text)
}

// checkRest notes what the patches refer to and is not there: the service, the certificate, and the names of both.
func (w *wiring) checkRest(dir string, crd *project.Manifest) error {
	where := "spec/conversion/webhook/clientConfig/service/name"
	if crd.API != apiextensionsV1 {
		where = "spec/conversion/webhookClientConfig/service/name"
	}
	config, _, err := w.text(path.Join(dir, "kustomizeconfig.yaml"))
	if err != nil {
		return err
	}
	if !strings.Contains(config, where) {
		w.Note(path.Join(dir, "kustomizeconfig.yaml"), "does not name %s: kustomize leaves the name of the service in the CRD "+
			"as it is then, without the prefix of config/default", where)
	}
	if !tree.Folder(w.project.Root).Exists(path.Join(w.dir, "config", "webhook", "service.yaml")) {
		w.Note(path.Join(w.dir, "config", "webhook"), "has no service.yaml: kubebuilder create webhook --group %s --version %s "+
			"--kind %s --conversion writes it, and config/certmanager", w.group(), w.Hub.Version, w.Kind)
	}
	list := path.Join(w.dir, "config", "default", kustomizationFile)
	text, isThere, err := w.text(list)
	if err != nil || !isThere {
		return err
	}
	var missing []string
	for _, entry := range []string{"../webhook", "../certmanager", "manager_webhook_patch.yaml"} {
		if !isListed(text, entry) {
			missing = append(missing, entry)
		}
	}
	if len(missing) > 0 {
		w.Note(list, "does not list %s: uncomment the sections [WEBHOOK] and [CERTMANAGER] before you deploy, or the API "+
			"server calls a webhook that is not there", strings.Join(missing, ", "))
	}
	return nil
}
