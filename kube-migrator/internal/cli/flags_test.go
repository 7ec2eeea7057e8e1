// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kube-migrator/kube-migrator/kube-migrator/internal/cli/exit"
)

// noOutput are the commands without -o, which have no data to write: a script for a shell, and processes of the
// cluster.
var noOutput = []string{"completion", "controller", "dashboard", "gate", "worker"}

// commands are all commands that users can give.
func commands(t *testing.T) []*cobra.Command {
	t.Helper()
	all := newRoot(&environment{name: "kube-migrator"}).Commands()
	if len(all) < 17 {
		t.Fatalf("there are %d commands, want all", len(all))
	}
	return all
}

// refused runs a command line that cannot be meant, and returns what its error says in the first line.
func refused(t *testing.T, command string, args ...string) string {
	t.Helper()
	var stdout, stderr strings.Builder
	code := Run(t.Context(), append([]string{"kube-migrator", command}, args...),
		Streams{In: strings.NewReader(""), Out: &stdout, Err: &stderr})
	first, second, _ := strings.Cut(stderr.String(), "\n")
	problem, isError := strings.CutPrefix(first, "error: ")
	if want := "Try: kube-migrator " + command + " --help\n"; code != exit.Error || stdout.Len() > 0 ||
		!isError || second != want {
		t.Errorf("%s %q: exit code %d, stdout %q, stderr %q, want two lines that end with %q", command, args, code,
			stdout.String(), stderr.String(), want)
	}
	return problem
}

func TestEveryCommandOffersOutputInTheSameForm(t *testing.T) {
	t.Parallel()
	for _, command := range commands(t) {
		flag := command.Flags().Lookup("output")
		if has := flag != nil; has == slices.Contains(noOutput, command.Name()) {
			t.Errorf("%s has --output: %t", command.Name(), has)
		}
		if flag == nil {
			continue
		}
		words, isList := strings.CutPrefix(flag.Usage, "Output format: ")
		offered := strings.FieldsFunc(words, func(r rune) bool { return r == ' ' || r == ',' })
		if flag.Shorthand != "o" || !isList || !slices.Contains(offered, "json") || !slices.Contains(offered, "yaml") ||
			offered[0] != flag.DefValue {
			t.Errorf("%s: -%s, %q, default %q: want -o with its formats, the default first, json and yaml among them",
				command.Name(), flag.Shorthand, flag.Usage, flag.DefValue)
		}
		for _, given := range []string{"-obogus", "--output=bogus"} {
			if got, want := refused(t, command.Name(),
				given), `unknown value "bogus" for --output: use `+words; got != want {
				t.Errorf("%s %s: %s\nwant %s", command.Name(), given, got, want)
			}
		}
	}
}

func TestAValueThatAFlagDoesNotTakeHasOnePhrasing(t *testing.T) {
	t.Parallel()
	seen := map[string]int{}
	for _, command := range commands(t) {
		command.Flags().VisitAll(func(flag *pflag.Flag) {
			var values []string
			kind := "unknown"
			switch flag.Value.Type() {
			case "int", "float", "duration", "quantity":
				kind, values = "invalid", []string{"-1", "-1s", "bogus", ""}
			case "word":
				values = []string{"bogus", ""}
			case "bool":
				kind, values = "invalid", []string{"bogus"}
			case "string", "stringSlice":
				return
			default:
				t.Errorf("%s --%s is of the type %s, which this test does not know", command.Name(),
					flag.Name, flag.Value.Type())
			}
			seen[flag.Value.Type()]++
			for _, value := range values {
				want := regexp.MustCompile(`^` + kind + ` value "` + value + `" for --` + flag.Name + `: use [^:;]+$`)
				if got := refused(t, command.Name(), "--"+flag.Name+"="+value); !want.MatchString(got) {
					t.Errorf("%s --%s=%s: %s\nwant %s", command.Name(), flag.Name, value, got, want)
				}
			}
		})
	}
	for _, kind := range []string{"int", "float", "duration", "quantity", "word", "bool"} {
		if seen[kind] == 0 {
			t.Errorf("no flag of the type %s was seen", kind)
		}
	}
}

func TestOneMistakeHasOnePhrasing(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	for line, want := range map[string]string{
		// one too great or too small
		"request --all --max-rate=100001":               `invalid value "100001" for --max-rate: use 0 to 100000 objects per second`,
		"install --max-in-flight=2000":                  `invalid value "2000" for --max-in-flight: use 0 to 1024 requests`,
		"install --replicas=0":                          `invalid value "0" for --replicas: use 1 or more replicas`,
		"install --replicas=9999999999":                 `invalid value "9999999999" for --replicas: use 1 or more replicas`,
		"install --timeout=0":                           `invalid value "0" for --timeout: use a duration of more than 0s, such as 30s or 5m`,
		"wait widgets --timeout=-1s":                    `invalid value "-1s" for --timeout: use a duration of 0s or more, such as 30s or 5m`,
		"controller --lease-duration=1s":                `invalid value "1s" for --lease-duration: use a duration of 2s or more, such as 30s or 5m`,
		"install --discovery-period=3ms":                `invalid value "3ms" for --discovery-period: use a duration of 1s or more, such as 30s or 5m`,
		"migrate --all --settle-time=5":                 `invalid value "5" for --settle-time: use a duration of 0s or more, such as 30s or 5m`,
		"plan --max-rate=NaN":                           `invalid value "NaN" for --max-rate: use 0 or more objects per second`,
		"plan --max-rate=+Inf":                          `invalid value "+Inf" for --max-rate: use 0 or more objects per second`,
		"migrate --all --page-size=1.5":                 `invalid value "1.5" for --page-size: use 0 or more objects`,
		"migrate --all --max-bandwidth=10MB":            `invalid value "10MB" for --max-bandwidth: use 0 to 1000000000000 bytes per second, such as 500k or 10Mi`,
		"install --max-bandwidth=2T":                    `invalid value "2T" for --max-bandwidth: use 0 to 1000000000000 bytes per second, such as 500k or 10Mi`,
		"install --image=?":                             `invalid value "?" for --image: use a reference such as registry.example.com/kube-migrator:v1.0.0`,
		"install --namespace=kube-system":               `invalid value "kube-system" for --namespace: use a namespace of its own, because that one holds the cluster's own workloads`,
		"check --target-version=newest":                 `invalid value "newest" for --target-version: use a release of Kubernetes, such as 1.36`,
		"upgrade-crd -f x --field-manager=":             `invalid value "" for --field-manager: use a name`,
		"install --forget-flags=force":                  `unknown value "force" for --forget-flags: use all or names of flags that install remembers`,
		"migrate --all --dry-run=yes":                   `unknown value "yes" for --dry-run: use none, client or server`,
		"retire x --min-evidence=hope":                  `unknown value "hope" for --min-evidence: use declared, observed, verified or sampled`,
		"completion ksh":                                `unknown value "ksh" for SHELL: use bash, zsh, fish or powershell`,
		"progress -w -o json":                           "--watch and --output=json cannot be used together",
		"progress -w -o html":                           "--watch and --output=html cannot be used together",
		"check --explain -o html":                       "--explain and --output=html cannot be used together",
		"audit --snapshot=a --stale -o html":            "--stale and --output=html cannot be used together",
		"audit --snapshot=a --stale -o prometheus":      "--stale and --output=prometheus cannot be used together",
		"install --export --dry-run=client":             "--export and --dry-run cannot be used together",
		"pause widgets --all":                           "RESOURCE and --all cannot be used together",
		"audit --snapshot=a --etcd-endpoints=":          "--snapshot and --etcd-endpoints cannot be used together",
		"audit --snapshot=a --cacert=b":                 "--snapshot and --cacert cannot be used together",
		"check --target-version=1.36 --target-server=a": "--target-version and --target-server cannot be used together",
		"check -f a --target-server=b":                  "--filename and --target-server cannot be used together",
		"check -f a widgets":                            "--filename and RESOURCE cannot be used together",
		"check -f a --exclude=b":                        "--filename and --exclude cannot be used together",
		"check widgets --include=b":                     "RESOURCE and --include cannot be used together",
		"retire x --version=v1 --rescue --remove":       "--rescue and --remove cannot be used together",
		"retire x --version=v1 --schema-from=a":         "--schema-from needs --rescue",
		"check --cacert=a":                              "--cacert needs --etcd-endpoints or --snapshot",
		"audit --etcd-endpoints=https://a --cert=b":     "--cert needs --key",
		"audit --etcd-endpoints=https://a --key=b":      "--key needs --cert",
		"retire x":            "--version is missing",
		"upgrade-crd":         "--filename is missing",
		"worker":              "--namespace is missing",
		"controller":          "--worker-image is missing",
		"audit":               "--etcd-endpoints or --snapshot is missing",
		"retire":              "CRD is missing",
		"wait":                "RESOURCE is missing",
		"migrate":             "RESOURCE, --include or --all is missing",
		"request":             "RESOURCE, --include or --all is missing",
		"cancel":              "RESOURCE or --all is missing",
		"completion":          "SHELL is missing",
		"retire x y":          `unexpected argument "y"`,
		"install widgets":     `unexpected argument "widgets"`,
		"upgrade-crd widgets": `unexpected argument "widgets"`,
		"worker widgets":      `unexpected argument "widgets"`,
		"controller widgets":  `unexpected argument "widgets"`,
		"completion bash zsh": `unexpected argument "zsh"`,
	} {
		words := strings.Fields(line)
		if got := refused(t, words[0], words[1:]...); got != want {
			t.Errorf("%s: %s\nwant %s", line, got, want)
		}
	}
}
