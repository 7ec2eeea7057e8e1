// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package testbed

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// serverNames are the names that every serving certificate is valid for, with the loopback addresses.
var serverNames = []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
	"kubernetes.default.svc.cluster.local"}

// kubeletClient is the name of the pair that API servers show to kubelets.
const kubeletClient = "apiserver-kubelet-client"

// authority is a certificate authority that lives as long as the cluster.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	pem         []byte
}

func newAuthority(name string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	template := template(name)
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage |= x509.KeyUsageCertSign
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	return &authority{certificate: certificate, key: key, pem: encodePEM("CERTIFICATE", der)}, nil
}

func template(name string) *x509.Certificate {
	// never fails: crypto/rand ends the program instead
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 64))
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().AddDate(0, 0, -1), // also for a process whose clock is behind
		NotAfter:     time.Now().AddDate(1, 0, 0),
		KeyUsage:     x509.KeyUsageDigitalSignature,
	}
}

// pair is a certificate with its key.
type pair struct {
	certificatePEM, keyPEM []byte
}

// serving makes a certificate for a server that is reached at the addresses, or as one of the server names.
func (a *authority) serving(name string, addresses []net.IP, names ...string) (*pair, error) {
	t := template(name)
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	t.DNSNames = append(append(t.DNSNames, serverNames...), names...)
	t.IPAddresses = append([]net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, addresses...)
	return a.sign(t)
}

// ServingCertificate makes a certificate for a server of a test that is reached by a DNS name, such as an aggregated
// API server behind the Service "name.namespace.svc", and the certificate authority, in PEM, that signed it.
func ServingCertificate(name string) (certificate tls.Certificate, ca []byte, err error) {
	a, err := newAuthority("testbed-" + name)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	t := template(name)
	t.ExtKeyUsage, t.DNSNames = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, []string{name}
	p, err := a.sign(t)
	if err != nil {
		return tls.Certificate{}, nil, err
	}
	if certificate, err = tls.X509KeyPair(p.certificatePEM, p.keyPEM); err != nil {
		return tls.Certificate{}, nil, fmt.Errorf("make serving certificate: %w", err)
	}
	return certificate, a.pem, nil
}

// client makes the certificate of a client with its user and groups.
func (a *authority) client(name string, groups ...string) (*pair, error) {
	t := template(name)
	t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	t.Subject.Organization = groups
	return a.sign(t)
}

func (a *authority) sign(t *x509.Certificate) (*pair, error) {
	key, keyPEM, err := newKey()
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, t, a.certificate, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("sign certificate: %w", err)
	}
	return &pair{certificatePEM: encodePEM("CERTIFICATE", der), keyPEM: keyPEM}, nil
}

func newKey() (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, nil, fmt.Errorf("make key: %w", err)
	}
	return key, encodePEM("EC PRIVATE KEY", der), nil
}

func encodePEM(kind string, der []byte) []byte {
	var out bytes.Buffer
	_ = pem.Encode(&out, &pem.Block{Type: kind, Bytes: der}) // a buffer takes everything
	return out.Bytes()
}

// write puts the pair into a folder as <name>.crt and <name>.key.
func (p *pair) write(dir, name string) error {
	if err := os.WriteFile(filepath.Join(dir, name+".crt"), p.certificatePEM, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".key"), p.keyPEM, 0o600)
}

func (p *pair) tls() (tls.Certificate, error) { return tls.X509KeyPair(p.certificatePEM, p.keyPEM) }

// writeKeys fills the cluster's folder with everything that the servers' flags refer to.
func (c *Cluster) writeKeys(addresses []net.IP) error {
	var err error
	if c.ca, err = newAuthority("kube-migrator testbed"); err != nil {
		return err
	}
	proxyCA, err := newAuthority("kube-migrator testbed front proxy")
	if err != nil {
		return err
	}
	serving, err := c.ca.serving("kube-apiserver", addresses)
	if err != nil {
		return err
	}
	proxy, err := proxyCA.client("front-proxy-client")
	if err != nil {
		return err
	}
	kubelet, err := c.ca.client("kube-apiserver-kubelet-client", "system:masters")
	if err != nil {
		return err
	}
	_, serviceAccount, err := newKey()
	if err != nil {
		return err
	}
	if err := serving.write(c.dir, "apiserver"); err != nil {
		return err
	}
	if err := proxy.write(c.dir, "front-proxy"); err != nil {
		return err
	}
	if err := kubelet.write(c.dir, kubeletClient); err != nil {
		return err
	}
	for name, raw := range map[string][]byte{"ca.crt": c.ca.pem, "front-proxy-ca.crt": proxyCA.pem,
		"sa.key": serviceAccount} {
		if err := os.WriteFile(filepath.Join(c.dir, name), raw, 0o600); err != nil {
			return err
		}
	}
	return nil
}
