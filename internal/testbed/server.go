// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"k8s.io/client-go/rest"
)

// Server is one kube-apiserver of a cluster. Its methods may not be called concurrently.
type Server struct {
	cluster *Cluster
	index   int
	options ServerOptions
	address string
	port    int
	held    *reservation // nil where the cluster is isolated
	process *process
}

// Edition is how an API server runs before or after an upgrade or a downgrade (see RestartWith).
type Edition struct {
	// Release of kube-apiserver. Default: that of the cluster.
	Release Release
	// Flags are the server's own.
	Flags []string
	// Stores is the apiVersion in which the server writes the resource that the test is about.
	Stores string
}

// BeforeUpgrade is an API server of 1.36, whose upgrade moves the storage version of PolicyBindings.
func BeforeUpgrade(flags ...string) Edition {
	return Edition{Release: V136, Flags: flags, Stores: "admissionregistration.k8s.io/v1beta1"}
}

// AfterUpgrade is the same API server after its upgrade to 1.37.
func AfterUpgrade(flags ...string) Edition {
	return Edition{Release: V137, Flags: flags, Stores: "admissionregistration.k8s.io/v1"}
}

// Options returns the options of a server that runs in this edition, with further flags before its own.
func (e Edition) Options(flags ...string) ServerOptions {
	return ServerOptions{Release: e.Release, Flags: slices.Concat(flags, e.Flags)}
}

// securePort is where API servers listen in a network namespace of the cluster's own, each on its own address.
const securePort = 6443

// URL returns the address of the server, such as https://127.0.0.1:34567.
func (s *Server) URL() string { return "https://" + s.Host() }

// Host returns address and port of the server.
func (s *Server) Host() string { return net.JoinHostPort(s.address, strconv.Itoa(s.port)) }

// Address returns the IP address that the server listens on.
func (s *Server) Address() string { return s.address }

// Release returns the Kubernetes release that the server runs.
func (s *Server) Release() Release { return s.options.Release }

// Log returns the path of the log.
func (s *Server) Log() string { return filepath.Join(s.cluster.dir, s.name()+".log") }

// Running tells whether the process lives.
func (s *Server) Running() bool { return s.process.running() }

// PID returns the process ID, or 0 before the first start.
func (s *Server) PID() int {
	if s.process == nil {
		return 0
	}
	return s.process.cmd.Process.Pid
}

// Usage returns the resources that the process has used since its last start.
func (s *Server) Usage() (Usage, error) { return s.process.usage() }

// Config returns a configuration of a client that is an administrator, talks to this server and has no rate limit.
func (s *Server) Config() *rest.Config { return s.cluster.config(s.URL(), Admin) }

// ConfigAs is Config for one of Options.Users.
func (s *Server) ConfigAs(user string) *rest.Config { return s.cluster.config(s.URL(), user) }

// Kubeconfig returns the path of an administrator's kubeconfig for this server.
func (s *Server) Kubeconfig() (string, error) { return s.cluster.KubeconfigFor(s.URL(), Admin) }

// Start starts the server after Kill or Stop and waits until it is ready.
func (s *Server) Start(ctx context.Context) error {
	if s.Running() {
		return fmt.Errorf("start %s: it runs already", s.name())
	}
	binary, err := Binary(ctx, s.options.Release, s.options.command(), s.cluster.options.Progress)
	if err != nil {
		return err
	}
	var env []string
	if s.options.Clock != nil {
		env = append(env, s.options.Clock.Env())
	}
	flags := mergeFlags(s.baseFlags(), s.nodeFlags(), s.cluster.options.Flags, s.options.Flags)
	process, err := launchWith(env, s.cluster.ns, s.options.Hostname, s.name(), s.Log(), binary, flags...)
	if err != nil {
		return err
	}
	s.process = process
	return process.await(ctx, s.cluster.options.ReadyTimeout, s.ready)
}

// Kill ends the server as a crash would (SIGKILL).
func (s *Server) Kill() { s.process.kill() }

// Stop ends the server in an orderly way.
func (s *Server) Stop(ctx context.Context) error { return s.process.terminate(ctx) }

// Signal sends a signal and does not wait for its effect: SIGTERM begins an orderly end, SIGSTOP suspends,
// SIGCONT resumes.
func (s *Server) Signal(signal syscall.Signal) error {
	if !s.Running() {
		return fmt.Errorf("send %v to %s: it does not run", signal, s.name())
	}
	return s.process.cmd.Process.Signal(signal)
}

// Restart stops the server in an orderly way, starts it with the same flags and waits until it is ready.
func (s *Server) Restart(ctx context.Context) error { return s.RestartWith(ctx, s.options) }

// RestartWith restarts the server with other options of its own: an upgrade, a downgrade or a change of flags.
// The flags replace those that the server had of its own; a release, host name or clock that is not given is left as it
// was.
func (s *Server) RestartWith(ctx context.Context, options ServerOptions) error {
	if err := s.Stop(ctx); err != nil {
		return err
	}
	if options.Release == "" {
		options.Release = s.options.Release
	}
	if options.Hostname == "" {
		options.Hostname = s.options.Hostname
	}
	if options.Clock == nil {
		options.Clock = s.options.Clock
	}
	s.options = options
	return s.Start(ctx)
}

// Holder returns the holderIdentity of the Lease of the server's host, as the server itself answers, or "" if the host
// has no Lease. Only the servers of an isolated cluster have a host each.
func (s *Server) Holder(ctx context.Context) (string, error) {
	status, answer, err := s.Do(ctx, http.MethodGet, "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"+
		"?labelSelector=kubernetes.io/hostname="+s.options.Hostname, nil)
	if err != nil {
		return "", err
	}
	if status != http.StatusOK {
		return "", fmt.Errorf("ask %s for Leases: %d", s.name(), status)
	}
	var leases struct {
		Items []struct {
			Spec struct {
				HolderIdentity string `json:"holderIdentity"`
			} `json:"spec"`
		} `json:"items"`
	}
	if err := json.Unmarshal(answer, &leases); err != nil {
		return "", fmt.Errorf("decode Leases of %s: %w", s.options.Hostname, err)
	}
	switch len(leases.Items) {
	case 0:
		return "", nil
	case 1:
		return leases.Items[0].Spec.HolderIdentity, nil
	default:
		return "", fmt.Errorf("%s has %d Leases", s.options.Hostname, len(leases.Items))
	}
}

func (s *Server) name() string { return "kube-apiserver-" + strconv.Itoa(s.index) }

func (s *Server) baseFlags() []string {
	file := func(name string) string { return filepath.Join(s.cluster.dir, name) }
	flags := []string{
		"--etcd-servers=" + s.cluster.Etcd.Endpoint(),
		"--bind-address=" + s.address, "--advertise-address=" + s.address, "--secure-port=" + strconv.Itoa(s.port),
		"--permit-port-sharing=true",
		"--tls-cert-file=" + file("apiserver.crt"), "--tls-private-key-file=" + file("apiserver.key"),
		"--client-ca-file=" + file("ca.crt"), "--token-auth-file=" + file("tokens.csv"), "--authorization-mode=RBAC",
		"--service-account-key-file=" + file("sa.key"), "--service-account-signing-key-file=" + file("sa.key"),
		"--service-account-issuer=https://kubernetes.default.svc", "--disable-admission-plugins=ServiceAccount",
		"--requestheader-client-ca-file=" + file("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + file("front-proxy.crt"), "--proxy-client-key-file=" + file("front-proxy.key"),
		"--service-cluster-ip-range=" + serviceRange,
	}
	if own := s.cluster.OwnEtcd; own != nil {
		for _, resource := range s.cluster.options.OwnEtcd {
			flags = append(flags, "--etcd-servers-overrides="+resource+"#"+own.Endpoint())
		}
	}
	if s.cluster.ns == nil {
		// Loopback addresses are refused in the EndpointSlice default/kubernetes.
		flags = append(flags, "--endpoint-reconciler-type=none")
	}
	if s.cluster.options.EncryptionConfig != "" {
		flags = append(flags, "--encryption-provider-config="+file(encryptionFile))
	}
	return flags
}

// nodeFlags are the flags with which a server serves the pods of a node, and asks its kubelet for their logs.
func (s *Server) nodeFlags() []string {
	if !s.cluster.options.Node {
		return nil
	}
	certificate := filepath.Join(s.cluster.dir, kubeletClient)
	return []string{
		"--disable-admission-plugins-", "--kubelet-preferred-address-types=InternalIP",
		"--kubelet-client-certificate=" + certificate + ".crt", "--kubelet-client-key=" + certificate + ".key",
	}
}

func (s *Server) ready(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL()+"/readyz", nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+s.cluster.tokens[Admin])
	response, err := s.cluster.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return errors.New("/readyz: " + response.Status + "\n" + string(body))
	}
	return nil
}

// mergeFlags joins lists of flags. A flag in a later list takes the place of those of the same name in earlier ones;
// within one list a flag may be repeated. "--name-" removes a flag of the earlier lists.
func mergeFlags(lists ...[]string) []string {
	var merged []string
	for _, list := range lists {
		for _, flag := range list {
			name := strings.TrimSuffix(flagName(flag), "-")
			merged = slices.DeleteFunc(merged, func(earlier string) bool { return flagName(earlier) == name })
		}
		for _, flag := range list {
			if !strings.HasSuffix(flagName(flag), "-") {
				merged = append(merged, flag)
			}
		}
	}
	return merged
}

func flagName(flag string) string {
	name, _, _ := strings.Cut(flag, "=")
	return name
}

// encryptionFile holds the encryption configuration, in the cluster's folder.
const encryptionFile = "encryption.yaml"

// EncryptionConfig returns a configuration for Options.EncryptionConfig that encrypts resources with AES-CBC: writes
// use the first key, reads try all, and what is not encrypted can be read. A key follows from its name.
func EncryptionConfig(resources []string, keyNames ...string) string {
	type key struct {
		Name   string `json:"name"`
		Secret string `json:"secret"`
	}
	var keys []key
	for _, name := range keyNames {
		secret := sha256.Sum256([]byte(name))
		keys = append(keys, key{Name: name, Secret: base64.StdEncoding.EncodeToString(secret[:])})
	}
	providers := []any{map[string]any{"identity": struct{}{}}}
	if len(keys) > 0 {
		providers = append([]any{map[string]any{"aescbc": map[string]any{"keys": keys}}}, providers...)
	}
	raw, err := json.Marshal(map[string]any{
		"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
		"resources": []any{map[string]any{"resources": resources, "providers": providers}},
	})
	if err != nil {
		panic(err) // strings only
	}
	return string(raw)
}

// SetEncryptionConfig replaces the encryption configuration. Servers follow when they are restarted. Only for clusters
// that were started with one.
func (c *Cluster) SetEncryptionConfig(config string) error {
	if c.options.EncryptionConfig == "" {
		return errors.New("set encryption configuration: the cluster was started without one")
	}
	return os.WriteFile(filepath.Join(c.dir, encryptionFile), []byte(config), 0o600)
}
