// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

// Package envtest takes etcd, kube-apiserver and kubectl from where programs that use controller-runtime have them: from
// the folder in KUBEBUILDER_ASSETS, or from the archives that controller-tools publishes for setup-envtest. It takes
// nothing of another release than it is asked for, and nothing whose checksum is not that of the index.
package envtest

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// Index lists the archives that controller-tools publishes.
const Index = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"

// assetsEnv names a folder with the programs, as setup-envtest prints it.
const assetsEnv = "KUBEBUILDER_ASSETS"

const (
	// maxIndex and maxArchive are some ten times what they have today, in bytes.
	maxIndex, maxArchive = 8 << 20, 2 << 30
	// downloadTimeout ends a download that stands still.
	downloadTimeout = 10 * time.Minute
	// dialTimeout is short: without internet, the programs are compiled.
	dialTimeout = 3 * time.Second
)

// Programs are those that an archive has.
var Programs = []string{"etcd", "kube-apiserver", "kubectl"}

// Assets returns the path of a program in KUBEBUILDER_ASSETS if the kube-apiserver there is of the release, and else
// why it is not: "" where the variable is not set.
func Assets(ctx context.Context, release, program string) (found, why string) {
	dir := os.Getenv(assetsEnv)
	if dir == "" || !slices.Contains(Programs, program) {
		return "", ""
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "kube-apiserver"), "--version").Output()
	if err != nil {
		return "", fmt.Sprintf("%s has no kube-apiserver that runs: %v", assetsEnv, err)
	}
	if got := strings.TrimPrefix(strings.TrimSpace(string(out)), "Kubernetes "); got != release {
		return "", fmt.Sprintf("%s has kube-apiserver %s", assetsEnv, got)
	}
	found = filepath.Join(dir, program)
	if _, err := os.Stat(found); err != nil {
		return "", fmt.Sprintf("%s has no %s", assetsEnv, program)
	}
	return found, ""
}

// Download writes the programs of a release into a folder, all or none. The index is at an address, such as Index.
func Download(ctx context.Context, index, release, dir string) error {
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{Timeout: dialTimeout}).DialContext, ResponseHeaderTimeout: 10 * dialTimeout}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	archive, err := find(ctx, client, index, release)
	if err != nil {
		return err
	}
	temporary, err := os.MkdirTemp(dir, "envtest-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temporary) //nolint:errcheck // the programs are elsewhere by then
	if err := archive.unpack(ctx, client, temporary); err != nil {
		return fmt.Errorf("download %s: %w", archive.SelfLink, err)
	}
	for _, program := range Programs {
		if err := os.Rename(filepath.Join(temporary, program), filepath.Join(dir, program)); err != nil {
			return err
		}
	}
	return nil
}

// archive is an entry of the index.
type archive struct {
	Hash     string `json:"hash"` // SHA-512, in hex
	SelfLink string `json:"selfLink"`
}

// find returns the archive of a release for this machine.
func find(ctx context.Context, client *http.Client, index, release string) (*archive, error) {
	body, err := get(ctx, client, index)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	raw, err := io.ReadAll(io.LimitReader(body, maxIndex))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", index, err)
	}
	var list struct {
		Releases map[string]map[string]archive `json:"releases"`
	}
	if err := yaml.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("read %s: %w", index, err)
	}
	name := fmt.Sprintf("envtest-%s-%s-%s.tar.gz", release, runtime.GOOS, runtime.GOARCH)
	found, ok := list.Releases[release][name]
	if !ok {
		return nil, fmt.Errorf("the index %s does not have %s", index, name)
	}
	return &found, nil
}

// unpack writes the programs of the archive into a folder, and fails unless the archive has its checksum.
func (a *archive) unpack(ctx context.Context, client *http.Client, dir string) error {
	body, err := get(ctx, client, a.SelfLink)
	if err != nil {
		return err
	}
	defer body.Close()
	sum := sha512.New()
	limited := &io.LimitedReader{R: body, N: maxArchive}
	content := io.TeeReader(limited, sum)
	unzipped, err := gzip.NewReader(content)
	if err != nil {
		return err
	}
	var written []string
	for files := tar.NewReader(unzipped); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		name := path.Base(header.Name)
		if header.Typeflag != tar.TypeReg || !slices.Contains(Programs, name) || slices.Contains(written, name) {
			continue
		}
		if err := write(filepath.Join(dir, name), io.LimitReader(files, header.Size)); err != nil {
			return err
		}
		written = append(written, name)
	}
	if _, err := io.Copy(io.Discard, content); err != nil { // the checksum is that of every byte
		return err
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != a.Hash {
		return fmt.Errorf("its SHA-512 is %s, and the index has %s", got, a.Hash)
	}
	if len(written) != len(Programs) {
		return fmt.Errorf("it has only %s of %s", strings.Join(written, ", "), strings.Join(Programs, ", "))
	}
	return nil
}

func write(name string, content io.Reader) error {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	return errors.Join(err, file.Close())
}

func get(ctx context.Context, client *http.Client, address string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		answer.Body.Close()
		return nil, fmt.Errorf("%s answers %s", address, answer.Status)
	}
	return answer.Body, nil
}
