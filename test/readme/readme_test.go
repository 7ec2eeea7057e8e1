// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

//go:build readme

package readme

import (
	"cmp"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/kube-migrator/kube-migrator/internal/testbed"
)

// promises are what README.md says of its commands: a pattern of the command, and one of its output. The commands of a
// block run in the order of the text. A command that none of them matches fails the test.
var promises = []promise{
	{command: `^make demo$`, shows: `Proven: etcd held 3,024 objects in old versions`},
	{command: `^make test$`, elsewhere: "continuous integration runs it"},
	{command: `^make build$`},
	{command: `^ln -s .*/kubectl-migrator$`, then: "kubectl migrator version", shows: `^kube-migrator .* \(go1`},
	{command: `^ln -s .*/kubectl_complete-migrator$`, then: "kubectl __complete migrator pl",
		shows: `(?m)^plan\s`},
	{command: `^kube-migrator install --image`, elsewhere: "make test-node installs an image that exists"},
	{command: `^kube-migrator plan$`, exit: 2, shows: `widgets\.demo\.example\.com +v2 +v1,v2 .* yes`},
	{command: `^kube-migrator migrate --all$`, shows: `widgets\.demo\.example\.com \(v2\): every object is stored as v2`,
		then: "kube-migrator plan widgets", thenShows: `widgets\.demo\.example\.com +v2 +v2 .* no`},
	{command: `^make build-api-migrator$`},
	{command: `^api-migrator plan`, shows: `moves Widget from demo\.example\.com/v1 to demo\.example\.com/v2`},
	{command: `^api-migrator diff`, shows: `(?m)^\+\+\+ b/pkg/apis/operators/v2/widget_types\.go$`},
	{command: `^api-migrator apply`, shows: `files written, changed or removed`},
	{command: `^api-migrator stages`, then: "ls stages/*", shows: `a-add\.yaml`},
	{command: `^api-migrator crd upgrade --diff`},
	{command: `^api-migrator crd check`, before: "cp stages/*/a-add.yaml old.yaml; cp stages/*/b-store.yaml new.yaml",
		shows: `compatible +yes`},
	{command: `^api-migrator convert scaffold`, in: "conversion"},
}

type promise struct {
	command string
	// in is the operator's project in which api-migrator runs, where it is not guide; before prepares the files that the
	// command names.
	in, before string
	// exit is the exit code, and shows a pattern of what the command prints.
	exit  int
	shows string
	// then is a command that shows whether the first did what it should. Where thenShows is empty, shows is a pattern
	// of its output.
	then, thenShows string
	// elsewhere says who else runs the command, if this test does not.
	elsewhere string
}

func TestTheCommandsOfTheREADMEDoWhatItSays(t *testing.T) {
	u := newUser(t)
	kept := make(map[string]bool)
	for _, command := range commands(t) {
		p, ok := promised(command)
		if !ok {
			t.Fatalf("README.md has the command %q; say in this test what it promises", command)
		}
		kept[p.command] = true
		if p.elsewhere != "" {
			t.Logf("%s: %s", command, p.elsewhere)
			continue
		}
		begin := time.Now()
		folder := u.folder(command, p.in)
		if p.before != "" {
			u.in(folder, p.before, 0)
		}
		out := u.in(folder, command, p.exit)
		t.Logf("%s took %s", command, time.Since(begin).Round(time.Second))
		if p.thenShows == "" && p.then != "" {
			u.expect(p.then, p.shows, u.in(folder, p.then, 0))
			continue
		}
		u.expect(command, p.shows, out)
		if p.then != "" {
			u.expect(p.then, p.thenShows, u.in(folder, p.then, 0))
		}
	}
	for _, p := range promises {
		if !kept[p.command] {
			t.Errorf("README.md has no command %s", p.command)
		}
	}
}

// commands are the lines of the blocks of README.md, without their comments.
func commands(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	comment := regexp.MustCompile(` +# .*`)
	var all []string
	for i, part := range strings.Split(string(text), "\n```") {
		if i%2 == 0 {
			continue // prose
		}
		for line := range strings.Lines(strings.TrimPrefix(part, "\n")) {
			all = append(all, strings.TrimSpace(comment.ReplaceAllString(line, "")))
		}
	}
	return all
}

func promised(command string) (promise, bool) {
	for _, p := range promises {
		if regexp.MustCompile(p.command).MatchString(command) {
			return p, true
		}
	}
	return promise{}, false
}

// user is someone with an empty folder, and a cluster whose widgets are stored in an old version.
type user struct {
	*testing.T
	home, clone string
	cluster     *testbed.Cluster
	environment []string
}

func newUser(t *testing.T) *user {
	t.Helper()
	u := &user{T: t, home: t.TempDir()}
	u.clone = filepath.Join(u.home, "kube-migrator")
	u.cluster = testbed.New(t, testbed.Options{Isolated: true})
	kubeconfig, err := u.cluster.Kubeconfig()
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		u.cluster.InstallWidgets(t.Context(), testbed.Widgets{}),
		u.cluster.BulkCreate(t.Context(), testbed.Bulk{Count: 300}),
		u.cluster.MoveStorage(t.Context(), testbed.WidgetCRD, "v2"),
		os.MkdirAll(filepath.Join(u.home, ".local", "bin"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	path := []string{u.tools(), filepath.Join(u.home, ".local", "bin"), filepath.Join(u.clone, "bin")}
	u.environment = []string{"HOME=" + u.home, "KUBECONFIG=" + kubeconfig, "TERM=dumb",
		"PATH=" + strings.Join(path, string(filepath.ListSeparator))}
	caches := []string{"GOMODCACHE", "GOCACHE", "GOPROXY", "GOSUMDB", "GOFLAGS"}
	values, err := exec.CommandContext(t.Context(), "go", append([]string{"env"}, caches...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for i, value := range strings.Split(strings.TrimSuffix(string(values), "\n"), "\n") {
		u.environment = append(u.environment, caches[i]+"="+value)
	}
	// Where Kubernetes was built before, unless the user has built nothing yet.
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	built := filepath.Join(cache, "kube-migrator", "testbed")
	if os.Getenv("FRESH") != "" {
		built = filepath.Join(u.home, "testbed")
		u.environment = append(u.environment, "GOCACHE="+filepath.Join(u.home, "go-build"))
	}
	u.environment = append(u.environment, "KUBE_MIGRATOR_TESTBED="+built)
	u.in("", "git clone --quiet "+u.absolute("../..")+" "+u.clone, 0)
	return u
}

// tools is a folder with Go, git, make, kubectl and the usual programs of a Linux, and without a compiler for C.
func (u *user) tools() string {
	u.Helper()
	folder := u.TempDir()
	for name := range strings.FieldsSeq(`go git make bash sh env awk basename cat chmod cmp cp cut date dirname diff du
		expr false find grep gzip head id install ln ls mkdir mktemp mv nproc ps pwd readlink realpath rm rmdir sed seq
		sha256sum sleep sort stat tail tar tee test touch tr true uname uniq wc xargs ip mount unshare nsenter`) {
		path, err := exec.LookPath(name)
		if err != nil {
			continue // not on every Linux
		}
		// A program that looks for files in its own folder finds them: it follows the link.
		if err := os.Symlink(path, filepath.Join(folder, name)); err != nil {
			u.Fatal(err)
		}
	}
	kubectl, err := testbed.Binary(u.Context(), testbed.Newest, "kubectl", os.Stderr)
	if err != nil {
		u.Fatal(err)
	}
	if err := os.Symlink(kubectl, filepath.Join(folder, "kubectl")); err != nil {
		u.Fatal(err)
	}
	return folder
}

func (u *user) in(folder, command string, exit int) string {
	u.Helper()
	ctx, cancel := context.WithTimeout(u.Context(), 20*time.Minute)
	defer cancel()
	process := exec.CommandContext(ctx, "bash", "-c", command)
	if strings.HasPrefix(command, "kube") { // a cluster has a network of its own
		process = u.cluster.Command(ctx, "bash", "-c", command)
	}
	process.Dir, process.Env = folder, u.environment
	out, err := process.CombinedOutput()
	if code := process.ProcessState.ExitCode(); code != exit {
		u.Fatalf("%s: exit code %d (%v), want %d\n%s", command, code, err, exit, out)
	}
	return string(out)
}

func (u *user) expect(command, pattern, out string) {
	u.Helper()
	if !regexp.MustCompile(pattern).MatchString(out) {
		u.Errorf("%s prints nothing like %s:\n%s", command, pattern, out)
	}
}

// folder is where a user runs a command: the clone, or for api-migrator the project of an operator with the kind Widget,
// which git tracks.
func (u *user) folder(command, project string) string {
	u.Helper()
	if !strings.HasPrefix(command, "api-migrator") {
		return u.clone
	}
	project = cmp.Or(project, "guide")
	folder := filepath.Join(u.home, project)
	if _, err := os.Stat(folder); err == nil {
		return folder
	}
	if err := os.CopyFS(folder, os.DirFS(filepath.Join("../../api-migrator/internal/testdata", project))); err != nil {
		u.Fatal(err)
	}
	if project == "guide" {
		u.in(folder, `set -e
			grep -rlE 'CatalogSourceConfig|catalogsourceconfig|operators[.]example[.]com' . |
				xargs sed -i 's/CatalogSourceConfig/Widget/g; s/catalogsourceconfig/widget/g; s/operators[.]example[.]com/demo.example.com/g'
			find . -depth -name '*catalogsourceconfig*' -execdir bash -c 'mv $1 ${1//catalogsourceconfig/widget}' _ {} ';'`, 0)
	}
	u.in(folder, "git init --quiet . && git add . && git -c user.name=A -c user.email=a@example.com commit --quiet -m one", 0)
	return folder
}

func (u *user) absolute(path string) string {
	u.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		u.Fatal(err)
	}
	return path
}
