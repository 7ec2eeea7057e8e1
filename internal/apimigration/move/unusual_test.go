// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package move

import (
	"strings"
	"testing"

	"github.com/kube-migrator/kube-migrator/internal/apimigration/finding"
	"github.com/kube-migrator/kube-migrator/internal/apimigration/request"
)

// unusual is code that the fixtures have none of, and what a plan must make of it.
type unusual struct {
	files    map[string]string // besides the fixture's
	has      map[string]string // what a file of the result contains; "" if it must not be there
	remains  []string          // files that must be there, and not changed
	findings []string
	blockers []string
}

// checkUnusual plans one migration of a project with all of the code.
func checkUnusual(t *testing.T, asked request.Request, tests map[string]unusual) {
	t.Helper()
	dir := fixture(t, "kubebuilder")
	blocked := false
	for _, test := range tests {
		write(t, dir, test.files)
		blocked = blocked || test.blockers != nil
	}
	outcome, err := Make(t.Context(), dir, asked)
	if err != nil {
		t.Fatal(err)
	}
	text := func(list []finding.Finding) string {
		out := ""
		for _, finding := range list {
			out += finding.Where + ": " + finding.Text + "\n"
		}
		return out
	}
	findings, blockers := text(outcome.Plan.Findings), text(outcome.Plan.Blockers)
	if !blocked && blockers != "" {
		t.Errorf("blocked: %s", blockers)
	}
	before := filesOf(t, dir)
	after := outcome.files(before)
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for file, want := range test.has {
				if got, ok := after[file]; want == "" && ok || !strings.Contains(got, want) {
					t.Errorf("%s has no %q:\n%s", file, want, got)
				}
			}
			for _, file := range test.remains {
				if before[file] != after[file] {
					t.Errorf("%s has changed:\n%s", file, after[file])
				}
			}
			for _, want := range test.findings {
				if !strings.Contains(findings, want) {
					t.Errorf("no finding %q in:\n%s", want, findings)
				}
			}
			for _, want := range test.blockers {
				if !strings.Contains(blockers, want) {
					t.Errorf("no blocker %q in:\n%s", want, blockers)
				}
			}
		})
	}
}

func TestWhatOnlyLooksLikeANameOrARegistrationKeepsItsMeaning(t *testing.T) {
	t.Parallel()
	checkUnusual(t, memcachedRequest, map[string]unusual{
		"a word of a marker is an unexported name": {
			files: map[string]string{
				"api/v1/mode.go": "package v1\n\n// MemcachedMode says whether a Memcached is running.\n// " +
					"+kubebuilder:validation:Enum=pending;running\ntype MemcachedMode string\n",
				"api/v1/running.go": `package v1

// running is said of a medium.
const running Medium = "running"

// Runs reports whether it is running.
func (m *Memcached) Runs() bool { return m.Spec.Place.Medium == running }

// Runs reports whether it is running.
func (b *Backup) Runs() bool { return b.Spec.Place.Medium == running }
`,
			},
			has: map[string]string{
				"api/v1beta2/mode.go":            "is running.\n// +kubebuilder:validation:Enum=pending;running\n",
				"api/internal/shared/running.go": "// Running is said of a medium.\nconst Running ",
			},
		},
		"a type is deprecated already": {
			files: map[string]string{"api/v1/legacy.go": "package v1\n\n// MemcachedLegacy is old.\n//\n// " +
				"Deprecated: no one needs it.\ntype MemcachedLegacy struct{}\n"},
			has: map[string]string{"api/v1beta2/legacy.go": "// Deprecated: no one needs it.\ntype " +
				"MemcachedLegacy "},
			remains: []string{"api/v1/legacy.go"},
		},
		"registrations of every form": {
			files: map[string]string{"internal/controller/schemes.go": registrations},
			has: map[string]string{"internal/controller/schemes.go": `
func returned(scheme *runtime.Scheme) error {
	if err := cachev1beta2.AddToScheme(scheme); err != nil {
		return err
	}
	return cachev1.AddToScheme(scheme)
}

func assigned(scheme *runtime.Scheme) (err error) {
	err = cachev1.AddToScheme(scheme)
	if err == nil {
		err = cachev1beta2.AddToScheme(scheme)
	}
	return err
}

func within(scheme *runtime.Scheme) {
	func() {
		err := cachev1.AddToScheme(scheme)
		if err == nil {
			err = cachev1beta2.AddToScheme(scheme)
		}
		println(err)
	}()
}

func chosen(scheme *runtime.Scheme, n int) error {
	switch n {
	case 1:
		_ = cachev1.AddToScheme(scheme)
		_ = cachev1beta2.AddToScheme(scheme)
	default:
		if err := cachev1.AddToScheme(scheme); err != nil {
			return err
		}
		if err := cachev1beta2.AddToScheme(scheme); err != nil {
			return err
		}
	}
	return nil
}

func listed() (list []func(*runtime.Scheme) error) {
	list = append(list, cachev1.AddToScheme)
	list = append(list, cachev1beta2.AddToScheme)
	return list
}

func asked(scheme *runtime.Scheme) {
	if cachev1.AddToScheme(scheme) == nil {
		println("done")
	}
}
`},
			findings: []string{"internal/controller/schemes.go:41: registers the old version: register the new one " +
				"next to it"},
		},
		"the marker of an earlier type of the same group": {
			files: map[string]string{"api/v1/memcached_types.go": grouped},
			has: map[string]string{
				"api/v1/memcached_types.go": "\t// +kubebuilder:storageversion\n\tEarlier struct{}\n",
				"api/v1beta2/memcached_types.go": "\t// +kubebuilder:object:root=true\n\t// " +
					"+kubebuilder:storageversion\n\n\t// Memcached is the Schema for the memcacheds API\n\tMemcached " +
					"struct {\n",
			},
		},
		"a licence that speaks of v1": {
			files: map[string]string{"api/v1/memcached_licence.go": "// Licence v1.\n\n// Package v1 has kinds.\n// " +
				"+example:since=v1\npackage v1\n\n// MemcachedLicence is one.\ntype MemcachedLicence string\n"},
			has: map[string]string{"api/v1beta2/memcached_licence.go": "// Licence v1.\n\n// Package v1beta2 has " +
				"kinds.\n// +example:since=v1\npackage v1beta2\n"},
		},
	})
}

const registrations = `package controller

import (
	"k8s.io/apimachinery/pkg/runtime"

	cachev1 "github.com/test-org/cache-operator/api/v1"
)

func returned(scheme *runtime.Scheme) error { return cachev1.AddToScheme(scheme) }

func assigned(scheme *runtime.Scheme) (err error) {
	err = cachev1.AddToScheme(scheme)
	return err
}

func within(scheme *runtime.Scheme) {
	func() {
		err := cachev1.AddToScheme(scheme)
		println(err)
	}()
}

func chosen(scheme *runtime.Scheme, n int) error {
	switch n {
	case 1:
		_ = cachev1.AddToScheme(scheme)
	default:
		if err := cachev1.AddToScheme(scheme); err != nil {
			return err
		}
	}
	return nil
}

func listed() (list []func(*runtime.Scheme) error) {
	list = append(list, cachev1.AddToScheme)
	return list
}

func asked(scheme *runtime.Scheme) {
	if cachev1.AddToScheme(scheme) == nil {
		println("done")
	}
}
`

const grouped = `package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type (
	// Earlier is no kind.
	// +kubebuilder:storageversion
	Earlier struct{}

	// +kubebuilder:object:root=true

	// Memcached is the Schema for the memcacheds API
	Memcached struct {
		metav1.TypeMeta   ` + "`json:\",inline\"`" + `
		metav1.ObjectMeta ` + "`json:\"metadata,omitempty\"`" + `
		Spec              MemcachedSpec   ` + "`json:\"spec,omitempty\"`" + `
		Status            MemcachedStatus ` + "`json:\"status,omitempty\"`" + `
	}

	// +kubebuilder:object:root=true

	// MemcachedList contains a list of Memcached
	MemcachedList struct {
		metav1.TypeMeta ` + "`json:\",inline\"`" + `
		metav1.ListMeta ` + "`json:\"metadata,omitempty\"`" + `
		Items           []Memcached ` + "`json:\"items\"`" + `
	}
)

// MemcachedSpec defines the desired state of Memcached
type MemcachedSpec struct {
	// +optional
	Place Place ` + "`json:\"place,omitempty\"`" + `
}

// MemcachedStatus defines the observed state of Memcached
type MemcachedStatus struct {
	Conditions []metav1.Condition ` + "`json:\"conditions,omitempty\"`" + `
}

func init() {
	SchemeBuilder.Register(&Memcached{}, &MemcachedList{}, &Backup{}, &BackupList{})
}
`

func TestOnlyFilesWithNothingOfTheirOwnAreRemoved(t *testing.T) {
	t.Parallel()
	checkUnusual(t, options{request.SharedPackage, request.OldRemove,
		request.UnexportedInternal}.of(memcachedRequest), map[string]unusual{
		"a method of a type that is generated": {
			files: map[string]string{
				"api/v1/zz_generated.sizes.go": "// Code generated by a test. DO NOT EDIT.\n\npackage v1\n\n// Sized " +
					"has a size.\ntype Sized struct{}\n",
				"api/v1/sized.go": "package v1\n\n// MemcachedSize is one.\ntype MemcachedSize int\n\n// Size is " +
					"none.\nfunc (Sized) Size() int { return 0 }\n",
			},
			has: map[string]string{"api/v1/sized.go": "func (Sized) Size() int",
				"api/v1beta2/sized.go": "type MemcachedSize int"},
		},
		"comments above the code": {
			files: map[string]string{
				"api/v1/memcached_doc.go": "// Package v1 has kinds.\npackage v1\n\n// MemcachedDoc is one.\ntype " +
					"MemcachedDoc string\n",
				"api/v1/memcached_clause.go": "package v1\n\n// Free.\n\nimport \"time\"\n\n// MemcachedClause is " +
					"one.\ntype MemcachedClause time.Duration\n",
				"api/v1/memcached_marked.go": "// +example:marker\n\npackage v1\n\n// MemcachedMarked is one.\ntype " +
					"MemcachedMarked string\n",
				"api/v1/memcached_plain.go": "// Licence.\n\npackage v1\n\nimport \"time\"\n\n// MemcachedPlain is " +
					"one.\ntype MemcachedPlain time.Duration\n",
			},
			has: map[string]string{
				"api/v1/memcached_doc.go": "// Package v1 has kinds.", "api/v1/memcached_clause.go": "// Free.",
				"api/v1/memcached_marked.go": "// +example:marker", "api/v1/memcached_plain.go": "",
			},
		},
	})
}

func TestWhatCannotFollowIsReported(t *testing.T) {
	t.Parallel()
	checkUnusual(t, options{request.SharedPackage, request.OldWrap,
		request.UnexportedInternal}.of(memcachedRequest), map[string]unusual{
		"a declaration that embeds a file": {
			files: map[string]string{
				"api/v1/memcached.yaml": "a: b\n",
				"api/v1/memcached_embed.go": "package v1\n\nimport _ \"embed\"\n\n// MemcachedExample is " +
					"one.\n//\n//go:embed memcached.yaml\nvar MemcachedExample string\n",
			},
			blockers: []string{"api/v1/memcached_embed.go:8: MemcachedExample embeds files, which the new folder has none of"},
		},
		"a parameter that is called as the forwarder calls nameless ones": {
			files: map[string]string{"api/v1/memcached_new.go": "package v1\n\n// NewMemcachedSpec makes one.\nfunc " +
				"NewMemcachedSpec(_ int, p0 string) MemcachedSpec { return MemcachedSpec{Size: int32(len(p0))} }\n"},
			has: map[string]string{"api/v1/memcached_new.go": "func NewMemcachedSpec(p1 int, p0 string)"},
		},
		"a test with data": {
			files: map[string]string{
				"api/v1/testdata/one": "1\n",
				"api/v1/memcached_x_test.go": "package v1\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc TestSpec(t " +
					"*testing.T) {\n\t_, err := os.ReadFile(\"testdata/one\")\n\tt.Log(MemcachedSpec{}, err)\n}\n",
			},
			findings: []string{"api/v1/memcached_x_test.go: moves to api/v1beta2, but its testdata stays in api/v1: " +
				"move or copy what it reads"},
		},
	})
}

func TestAKindThatIsGeneratedIsRefused(t *testing.T) {
	t.Parallel()
	dir := fixture(t, "kubebuilder")
	const name = "api/v1/memcached_types.go"
	write(t, dir, map[string]string{name: "// Code generated by a test. DO NOT EDIT.\n\n" + filesOf(t, dir)[name]})
	_, err := Make(t.Context(), dir, memcachedRequest)
	wantProblem(t, err, "Memcached is declared in "+name+", which is generated")
}
