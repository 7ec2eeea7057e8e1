// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build readme

package consumer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// program stands for a program that has controller-runtime and takes the library.
const program = `package main

import (
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/kube-migrator/kube-migrator/agreement"
	"github.com/kube-migrator/kube-migrator/api/v1alpha1"
	"github.com/kube-migrator/kube-migrator/migrate"
	"github.com/kube-migrator/kube-migrator/migrate/operator"
	"github.com/kube-migrator/kube-migrator/storageversion"
)

var (
	_ = ctrl.NewManager
	_ = agreement.Of
	_ = v1alpha1.AddToScheme
	_ = migrate.Find
	_ = migrate.New
	_ = operator.Migration{}
	_ = storageversion.NewPublisher
)

func main() {}
`

func TestModulesComeFromAProxy(t *testing.T) {
	proxy, cache := publish(t), t.TempDir()
	downloaded := strings.TrimSpace(run(t, ".", nil, "go", "env", "GOMODCACHE"))
	proxies := strings.TrimSpace(run(t, ".", nil, "go", "env", "GOPROXY"))
	env := []string{"GOWORK=off", "GOFLAGS=-modcacherw -trimpath -tags=grpcnotrace", "GOMODCACHE=" + cache,
		"GONOSUMDB=" + ours, "GOTOOLCHAIN=local",
		"GOPROXY=file://" + proxy + ",file://" + downloaded + "/cache/download," + proxies}

	for name, versions := range map[string]struct{ language, runtime, kubernetes string }{
		"the oldest versions": {"1.24.0", "v0.21.0", "v0.33.0"},
		"the newest versions": {"1.26.0", "v0.25.2", "v0.37.2"},
	} {
		t.Run("a program stays at "+name, func(t *testing.T) {
			dir := t.TempDir()
			before := "module example.com/operator\n\ngo " + versions.language + "\n\nrequire (\n" +
				"\tsigs.k8s.io/controller-runtime " + versions.runtime + "\n\tk8s.io/client-go " + versions.kubernetes + "\n" +
				"\tk8s.io/apimachinery " + versions.kubernetes + "\n\tk8s.io/api " + versions.kubernetes + "\n)\n"
			for file, content := range map[string]string{"go.mod": before, "main.go": program} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			run(t, dir, env, "go", "mod", "edit", "-require="+ours+"@"+version)
			run(t, dir, env, "go", "mod", "tidy")
			after, err := os.ReadFile(filepath.Join(dir, "go.mod"))
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"\ngo " + versions.language + "\n", "sigs.k8s.io/controller-runtime " + versions.runtime + "\n",
				"k8s.io/client-go " + versions.kubernetes, "k8s.io/apimachinery " + versions.kubernetes, ours + " " + version} {
				if !strings.Contains(string(after), want) {
					t.Errorf("go.mod lacks %q after go mod tidy:\n%s", want, after)
				}
			}
			run(t, dir, env, "go", "vet", ".")
		})
	}
	t.Run("programs are installed by their names", func(t *testing.T) {
		bin := t.TempDir()
		for name, args := range map[string][]string{"kube-migrator": {"version"}, "api-migrator": {"--help"}} {
			run(t, bin, append(env, "GOBIN="+bin, "CGO_ENABLED=0"), "go", "install", ours+"/"+name+"@"+version)
			out := run(t, bin, nil, filepath.Join(bin, name), args...)
			if name == "kube-migrator" && !strings.Contains(out, version) {
				t.Errorf("kube-migrator says that it is %s, want %s", out, version)
			}
		}
	})
}
