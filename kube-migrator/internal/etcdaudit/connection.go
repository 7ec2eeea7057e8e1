// SPDX-FileCopyrightText: The kube-migrator Authors
// SPDX-License-Identifier: Apache-2.0

package etcdaudit

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// tls reads the certificates.
func (l Live) tls() (*tls.Config, error) {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if l.CAFile != "" {
		pem, err := os.ReadFile(l.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read CA certificate: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read CA certificate: %s holds no PEM certificate", l.CAFile)
		}
	}
	if l.CertFile == "" && l.KeyFile == "" {
		return config, nil
	}
	if l.CertFile == "" || l.KeyFile == "" {
		return nil, errors.New("a client certificate and its key come together, and one of them is missing")
	}
	pair, err := tls.LoadX509KeyPair(l.CertFile, l.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("read client certificate: %w", err)
	}
	config.Certificates = []tls.Certificate{pair}
	return config, nil
}

// diagnose makes one plain connection to find out what the etcd client does not report: why there is no answer.
func diagnose(ctx context.Context, config clientv3.Config) error {
	const patience = time.Second
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	endpoint, err := url.Parse(config.Endpoints[0])
	if err != nil {
		return err
	}
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", endpoint.Host)
	if err != nil {
		return err
	}
	defer conn.Close()
	if config.TLS == nil {
		// It only finds out whether the other side speaks TLS: no request follows.
		probe := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // see above
		if probe.HandshakeContext(ctx) == nil {
			return errors.New("it speaks TLS: use https:// and its certificates")
		}
		return nil
	}
	secure := config.TLS.Clone()
	secure.ServerName = endpoint.Hostname()
	client := tls.Client(conn, secure)
	if err := client.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS handshake: %w", err)
	}
	// A server refuses a client's certificate only after the handshake, in the first message that it sends.
	if err := client.SetReadDeadline(time.Now().Add(patience / 2)); err != nil {
		return err
	}
	var timeout net.Error
	if _, err := client.Read(make([]byte, 1)); err != nil && !(errors.As(err, &timeout) && timeout.Timeout()) {
		return fmt.Errorf("TLS handshake: %w", err)
	}
	return nil
}
