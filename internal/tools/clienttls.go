package tools

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Values of security.protocol.
const (
	plaintext     = "PLAINTEXT"
	encrypted     = "SSL"
	saslPlaintext = "SASL_PLAINTEXT"
	saslEncrypted = "SASL_SSL"
)

// securityProtocol returns how brokers are spoken to: whether encrypted, and whether the client logs in.
func (c clientConfig) securityProtocol() (encrypts, logsIn bool, err error) {
	name := c["security.protocol"]
	if _, ok := c["security.protocol"]; !ok {
		name = plaintext
	}
	switch strings.ToUpper(name) {
	case plaintext:
	case encrypted:
		encrypts = true
	case saslPlaintext:
		logsIn = true
	case saslEncrypted:
		encrypts, logsIn = true, true
	default:
		err = configError("security.protocol", name, "String must be one of (case insensitive): "+strings.Join([]string{plaintext, saslPlaintext, saslEncrypted, encrypted}, ", "))
	}
	return encrypts, logsIn, err
}

// dialer returns how to connect to a broker. Its connections are encrypted if security.protocol says so; a handshake that fails is Java's
// SslAuthenticationException, which is not tried again.
func (c clientConfig) dialer() (dialFunc, error) {
	encrypts, _, err := c.securityProtocol()
	if err != nil {
		return nil, err
	}
	dial, err := c.netDialer()
	if err != nil {
		return nil, err
	}
	if !encrypts {
		return dial, nil
	}
	settings, err := c.tls()
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			host = address
		}
		own := settings.Clone()
		own.ServerName = host
		if own.InsecureSkipVerify { // the name alone is not looked at
			own.VerifyConnection = verifyChain(own.RootCAs)
		}
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		secure := tls.Client(conn, own)
		if err := secure.HandshakeContext(ctx); err != nil {
			_ = conn.Close()
			if ctx.Err() != nil {
				return nil, &net.OpError{Op: "dial", Net: network, Err: err}
			}
			return nil, handshakeFailure(err)
		}
		return secureConn{secure}, nil
	}, nil
}

// A secureConn is an encrypted connection. In TLS 1.3 a broker tells what it has against the client's certificate when the client
// takes the handshake to be over: whoever reads first gets to know.
type secureConn struct {
	*tls.Conn
}

func (c secureConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if alert, ok := errors.AsType[*net.OpError](err); ok && alert.Op == "remote error" {
		err = handshakeFailure(alert)
	}
	return n, err
}

const (
	sslAuthentication  = kafkaErrors + "SslAuthenticationException"
	saslAuthentication = kafkaErrors + "SaslAuthenticationException"
)

func handshakeFailure(err error) error {
	_, otherTongue := errors.AsType[tls.RecordHeaderError](err)
	if otherTongue || errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) {
		err = fmt.Errorf("%w: the broker ended the handshake, or speaks no TLS at this port; is security.protocol what this listener speaks?", err)
	}
	return throw(sslAuthentication, "SSL handshake failed").because(err)
}

func isHandshakeFailure(err error) bool {
	e, ok := errors.AsType[*javaError](err)
	return ok && e.class == sslAuthentication
}

// verifyChain verifies who signed the broker's certificate, and not whose it is.
func verifyChain(roots *x509.CertPool) func(tls.ConnectionState) error {
	return func(s tls.ConnectionState) error {
		between := x509.NewCertPool()
		for _, cert := range s.PeerCertificates[1:] {
			between.AddCert(cert)
		}
		_, err := s.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, Intermediates: between})
		return err
	}
}

// tlsVersions are the values of ssl.enabled.protocols, those without a number being versions that nobody should speak any more.
var tlsVersions = map[string]uint16{"TLSv1.3": tls.VersionTLS13, "TLSv1.2": tls.VersionTLS12, "TLSv1.1": 0, "TLSv1": 0}

// tls reads the ssl.* properties.
func (c clientConfig) tls() (*tls.Config, error) {
	settings := &tls.Config{}
	enabled, ok := c["ssl.enabled.protocols"]
	if !ok {
		enabled = "TLSv1.2,TLSv1.3"
	}
	for _, name := range splitList(enabled) {
		version, known := tlsVersions[name]
		switch {
		case !known:
			return nil, throw(illegalArgument, "Unsupported protocol: "+name)
		case version == 0:
			continue
		}
		if settings.MinVersion == 0 || version < settings.MinVersion {
			settings.MinVersion = version
		}
		settings.MaxVersion = max(settings.MaxVersion, version)
	}
	if settings.MaxVersion == 0 {
		return nil, configError("ssl.enabled.protocols", enabled, "quire's tools speak TLSv1.2 and TLSv1.3")
	}
	suites, err := c.cipherSuites()
	if err != nil {
		return nil, err
	}
	settings.CipherSuites = suites
	switch name := c["ssl.endpoint.identification.algorithm"]; {
	case strings.EqualFold(name, "https"):
	case name != "":
		return nil, configError("ssl.endpoint.identification.algorithm", name, "String must be https or empty")
	default:
		_, set := c["ssl.endpoint.identification.algorithm"]
		settings.InsecureSkipVerify = set // and see dialer
	}
	if settings.RootCAs, err = c.trusted(); err != nil {
		return nil, err
	}
	own, err := c.ownCertificate()
	if err != nil {
		return nil, err
	}
	if own != nil {
		settings.Certificates = []tls.Certificate{*own}
	}
	return settings, nil
}

// cipherSuites are those of ssl.cipher.suites for TLS 1.2, nil for Go's own choice. TLS 1.3's are all spoken in any case.
func (c clientConfig) cipherSuites() (ids []uint16, err error) {
	for _, name := range splitList(c["ssl.cipher.suites"]) {
		n := slices.IndexFunc(tls.CipherSuites(), func(s *tls.CipherSuite) bool { return s.Name == name })
		if n < 0 {
			return nil, throw(illegalArgument, fmt.Sprintf("Unsupported CipherSuite: %s", name))
		}
		ids = append(ids, tls.CipherSuites()[n].ID)
	}
	return ids, nil
}

// splitList splits a property that is a list.
func splitList(text string) (items []string) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}
