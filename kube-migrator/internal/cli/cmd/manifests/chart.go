// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/install"
)

// The words of a plan that stand for a value of the chart.
const (
	namespaceMark  = "release-namespace"
	imageMark      = "release-image"
	pullPolicyMark = "release-pull-policy"
	secretMark     = "release-secret"
	replicasMark   = 424242
	groupMark      = "included-group"
	resourceMark   = "included-resource"
	// templateMark precedes the name of the template in _helpers.tpl that renders a field.
	templateMark = "template-"
)

// modes are the values of the template kube-migrator.mode in _helpers.tpl: what decides which objects and rules an
// installation has.
var modes = []struct {
	name    string
	options install.Options
}{
	{"guarded", install.Options{Guard: true}},
	{"guarded-include", install.Options{Guard: true, Include: included}},
	{"unguarded", install.Options{}},
	{"unguarded-include", install.Options{Include: included}},
}

var included = []string{resourceMark + "." + groupMark}

// fileOf names the template that holds the objects of a kind. A chart does not create its namespace, because Helm keeps
// the release there.
var fileOf = map[string]string{
	"CustomResourceDefinition":         "crds.yaml",
	"Namespace":                        "",
	"ConfigMap":                        "controller.yaml",
	"PriorityLevelConfiguration":       "flowcontrol.yaml",
	"FlowSchema":                       "flowcontrol.yaml",
	"ValidatingAdmissionPolicy":        "guard.yaml",
	"ValidatingAdmissionPolicyBinding": "guard.yaml",
	"NetworkPolicy":                    "networkpolicy.yaml",
	"ServiceAccount":                   "rbac.yaml",
	"ClusterRole":                      "rbac.yaml",
	"Role":                             "rbac.yaml",
	"ClusterRoleBinding":               "rbac.yaml",
	"RoleBinding":                      "rbac.yaml",
	"PodDisruptionBudget":              "controller.yaml",
	"Deployment":                       "controller.yaml",
}

// variants are the templates of one object, each with the modes in which it applies.
type variants struct {
	file  string
	texts []string
	modes map[string][]string // by text
}

// chartTemplates returns the templates of the chart by file name.
func chartTemplates() (map[string]string, error) {
	var objects []*variants
	byName := map[string]*variants{}
	for _, m := range modes {
		plan, err := planOf(m.options)
		if err != nil {
			return nil, err
		}
		for _, o := range plan {
			file, known := fileOf[o.GetKind()]
			if !known {
				return nil, fmt.Errorf("no template is known for objects of the kind %s: add the kind to fileOf", o.GetKind())
			}
			if file == "" {
				continue
			}
			text, err := template(o)
			if err != nil {
				return nil, err
			}
			name := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
			v := byName[name]
			if v == nil {
				v = &variants{file: file, modes: map[string][]string{}}
				byName[name], objects = v, append(objects, v)
			}
			if v.modes[text] == nil {
				v.texts = append(v.texts, text)
			}
			v.modes[text] = append(v.modes[text], m.name)
		}
	}
	files := map[string]string{}
	for _, v := range objects {
		files[v.file] += v.render()
	}
	for file, body := range files {
		if file == fileOf["CustomResourceDefinition"] {
			body = "{{- if .Values.crds.enabled }}\n" + body + "{{- end }}\n"
		}
		head := "{{- /* Generated from kube-migrator/internal/install by make generate. Do not edit. */ -}}\n"
		if strings.Contains(body, "$mode") {
			head += "{{- $mode := include \"kube-migrator.mode\" . }}\n"
		}
		files[file] = head + body
	}
	return files, nil
}

// planOf returns the objects of an installation whose values are marks.
func planOf(o install.Options) ([]*unstructured.Unstructured, error) {
	o.Namespace, o.Image, o.ImagePullPolicy = namespaceMark, imageMark, pullPolicyMark
	o.Replicas, o.MetricsCertSecret = replicasMark, secretMark
	o = o.Complete()
	resources := install.Portable(o)
	if !o.All() {
		resources = []schema.GroupResource{{Group: groupMark, Resource: resourceMark}}
	}
	plan, err := install.Plan(o, resources, nil)
	if err != nil {
		return nil, err
	}
	return withoutEmptyRoles(plan), nil
}

// withoutEmptyRoles leaves out roles without rules and their bindings. install writes them to take back what an earlier
// installation has granted. Helm deletes what a release no longer contains, and may not write fields that the controller
// owns.
func withoutEmptyRoles(plan []*unstructured.Unstructured) []*unstructured.Unstructured {
	empty := map[string]bool{}
	for _, o := range plan {
		if rules, found, _ := unstructured.NestedSlice(o.Object, "rules"); found && len(rules) == 0 {
			empty[o.GetName()] = true
		}
	}
	return slices.DeleteFunc(plan, func(o *unstructured.Unstructured) bool {
		role, isBinding, _ := unstructured.NestedString(o.Object, "roleRef", "name")
		return isBinding && empty[role] || o.GetKind() == "ClusterRole" && empty[o.GetName()]
	})
}

// render returns the document of an object, with conditions around what depends on the mode.
func (v *variants) render() string {
	parts := make([][]string, len(v.texts))
	var present []string
	for i, text := range v.texts {
		parts[i] = pieces(text)
		present = append(present, v.modes[text]...)
	}
	before, after := common(parts)
	var document strings.Builder
	document.WriteString("---\n" + strings.Join(parts[0][:before], ""))
	if len(parts) > 1 {
		keyword := "if"
		for i, text := range v.texts {
			document.WriteString(condition(keyword, v.modes[text]) + strings.Join(parts[i][before:len(parts[i])-after], ""))
			keyword = "else if"
		}
		document.WriteString(endAction + strings.Join(parts[0][len(parts[0])-after:], ""))
	}
	if len(present) == len(modes) {
		return document.String()
	}
	return condition("if", present) + document.String() + endAction
}

const endAction = "{{- end }}\n"

func condition(keyword string, of []string) string {
	return fmt.Sprintf("{{- %s has $mode (list \"%s\") }}\n", keyword, strings.Join(of, "\" \""))
}

// pieces splits a document before each line that is not indented, such as that of a rule. What an action repeats is one
// piece with the action.
func pieces(text string) []string {
	var all []string
	open := 0
	for line := range strings.Lines(text) {
		if open == 0 && !strings.HasPrefix(line, " ") {
			all = append(all, "")
		}
		all[len(all)-1] += line
		switch action := strings.TrimSpace(line); {
		case strings.HasPrefix(action, "{{- range "), strings.HasPrefix(action, "{{- if "):
			open++
		case action == strings.TrimSpace(endAction):
			open--
		}
	}
	return all
}

// common returns how many pieces all documents have in common before those that differ, and after them.
func common(documents [][]string) (before, after int) {
	same := func(at func(document []string) int) bool {
		return !slices.ContainsFunc(documents, func(d []string) bool {
			return len(d) <= before+after || d[at(d)] != documents[0][at(documents[0])]
		})
	}
	for same(func([]string) int { return before }) {
		before++
	}
	for same(func(d []string) int { return len(d) - 1 - after }) {
		after++
	}
	return before, after
}

var (
	namespaceValue = regexp.MustCompile(`(?m)^(\s*(?:- |[\w.-]+: )+)` + namespaceMark + `$`)
	imageValue     = regexp.MustCompile(`(?m)^(\s*image: )` + imageMark + `$`)
	templateValue  = regexp.MustCompile(`(?m)^( *)(- )?(\w+): ` + templateMark + `(\w+)$`)
)

// template returns the template of an object whose values are marks.
func template(o *unstructured.Unstructured) (string, error) {
	o = o.DeepCopy()
	switch o.GetKind() {
	case "NetworkPolicy":
		spec := o.Object["spec"].(map[string]any)
		spec["ingress"], spec["egress"] = templateMark+"ingress", templateMark+"egress"
	case "Deployment":
		containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		containers[0].(map[string]any)["args"] = templateMark + "arguments"
		if err := unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers"); err != nil {
			return "", fmt.Errorf("replace the arguments: %w", err)
		}
	}
	raw, err := yaml.Marshal(o.Object)
	if err != nil {
		return "", fmt.Errorf("write %s %s: %w", o.GetKind(), o.GetName(), err)
	}
	text := string(raw)
	if strings.Contains(text, "{{") {
		return "", fmt.Errorf("%s %s holds {{, which would begin an action of a template", o.GetKind(), o.GetName())
	}
	switch o.GetKind() {
	case "CustomResourceDefinition":
		text = strings.Replace(text, "  annotations:\n", "  annotations:\n    {{- if .Values.crds.keep }}\n"+
			"    helm.sh/resource-policy: keep\n    {{- end }}\n", 1)
	case "Deployment":
		text = onlyWith(text, "volumes", ".Values.metrics.certSecret")
		text = onlyWith(text, "volumeMounts", ".Values.metrics.certSecret")
	case "ClusterRole":
		text = perIncludedGroup(text)
	}
	text = templateValue.ReplaceAllStringFunc(text, func(line string) string {
		m := templateValue.FindStringSubmatch(line)
		depth := len(m[1]) + len(m[2])
		return fmt.Sprintf("%s%s%s:\n%s{{- include \"kube-migrator.%s\" . | trim | nindent %d }}", m[1], m[2], m[3],
			strings.Repeat(" ", depth), m[4], depth)
	})
	text = namespaceValue.ReplaceAllString(text, "$1{{ .Release.Namespace | quote }}")
	text = imageValue.ReplaceAllString(text, `$1{{ include "kube-migrator.image" . | quote }}`)
	return strings.NewReplacer(
		"managed-by: "+install.Name, "managed-by: {{ .Release.Service }}",
		namespaceMark, "{{ .Release.Namespace }}",
		imageMark, `{{ include "kube-migrator.image" . }}`,
		pullPolicyMark, "{{ .Values.imagePullPolicy }}",
		secretMark, "{{ .Values.metrics.certSecret | quote }}",
		fmt.Sprint(replicasMark), "{{ .Values.replicas }}",
	).Replace(text), nil
}

// onlyWith lets a template render a field only if a value is set.
func onlyWith(text, field, value string) string {
	lines := strings.SplitAfter(text, "\n")
	begin := slices.IndexFunc(lines, func(line string) bool { return strings.TrimLeft(line, " ") == field+":\n" })
	if begin < 0 {
		return text
	}
	indent := lines[begin][:strings.Index(lines[begin], field)]
	end := begin + 1
	for end < len(lines) && (strings.HasPrefix(lines[end], indent+" ") || strings.HasPrefix(lines[end], indent+"- ")) {
		end++
	}
	lines = slices.Insert(lines, end, indent+"{{- end }}\n")
	lines = slices.Insert(lines, begin, indent+"{{- if "+value+" }}\n")
	return strings.Join(lines, "")
}

// perIncludedGroup repeats the rules about the included resources, which RBAC wants to have by group.
func perIncludedGroup(text string) string {
	const begin = "- apiGroups:\n  - " + groupMark + "\n"
	before, rest, found := strings.Cut(text, begin)
	if !found {
		return text
	}
	rule, rest, more := strings.Cut(rest, "\n- ")
	if more {
		rest = "- " + rest
	} else {
		rule = strings.TrimSuffix(rule, "\n")
	}
	rule = strings.Replace(rule, "  - "+resourceMark, "  {{- toYaml .names | nindent 2 }}", 1)
	return before + "{{- range include \"kube-migrator.included\" . | fromYamlArray }}\n- apiGroups:\n  - {{ .group | quote }}\n" +
		rule + "\n{{- end }}\n" + perIncludedGroup(rest)
}
