package tools

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// Whom a client trusts, and who it is, stand in stores: PEM, in a file or in the property itself, or PKCS #12. Java's default type is
// JKS, and its keytool has written PKCS #12 by that name since Java 9, which Java reads under either.

// storeMax bounds the bytes of a store.
const storeMax = 16 << 20

const invalidConfiguration = kafkaErrors + "InvalidConfigurationException"

// trusted returns whose signatures are trusted: the truststore's, nil for the system's.
func (c clientConfig) trusted() (*x509.CertPool, error) {
	location, text, typ := c["ssl.truststore.location"], c["ssl.truststore.certificates"], c.storeType("ssl.truststore.type")
	_, secret := c["ssl.truststore.password"]
	switch {
	case text != "" && typ != "PEM":
		return nil, throw(invalidConfiguration, "SSL trust store certs can be specified only for PEM, but trust store type is "+typ+".")
	case text != "" && location != "":
		return nil, throw(invalidConfiguration, "Both SSL trust store location and separate trust certificates are specified.")
	case secret && typ == "PEM":
		return nil, throw(invalidConfiguration, "SSL trust store password cannot be specified for PEM format.")
	case secret && location == "" && text == "":
		return nil, throw(invalidConfiguration, "SSL trust store is not specified, but trust store password is specified.")
	case location == "" && text == "":
		return nil, nil
	}
	certs, err := func() ([]*x509.Certificate, error) {
		if text != "" {
			return pemCertificates([]byte(text))
		}
		b, err := readStore(location)
		if err != nil {
			return nil, err
		}
		if typ == "PEM" {
			return pemCertificates(b)
		}
		return trustStore(b, location, c["ssl.truststore.password"])
	}()
	if err != nil {
		return nil, c.unreadable(location, typ, "truststore", err)
	}
	pool := x509.NewCertPool()
	for _, cert := range certs {
		pool.AddCert(cert)
	}
	return pool, nil
}

// ownCertificate returns who the client is: the keystore's key and certificates, nil without one.
func (c clientConfig) ownCertificate() (*tls.Certificate, error) {
	location, key, chain, typ := c["ssl.keystore.location"], c["ssl.keystore.key"], c["ssl.keystore.certificate.chain"], c.storeType("ssl.keystore.type")
	secret, hasSecret := c["ssl.keystore.password"]
	switch {
	case key != "" && typ != "PEM":
		return nil, throw(invalidConfiguration, "SSL private key can be specified only for PEM, but key store type is "+typ+".")
	case key != "" && location != "":
		return nil, throw(invalidConfiguration, "Both SSL key store location and separate private key are specified.")
	case key != "" && chain == "":
		return nil, throw(invalidConfiguration, "SSL private key is specified, but certificate chain is not specified.")
	case chain != "" && key == "":
		return nil, throw(invalidConfiguration, "SSL certificate chain is specified, but private key is not specified")
	case hasSecret && typ == "PEM":
		return nil, throw(invalidConfiguration, "SSL key store password cannot be specified with PEM format, only key password may be specified.")
	case location != "" && typ != "PEM" && !hasSecret:
		return nil, throw(invalidConfiguration, "SSL key store is specified, but key store password is not specified.")
	case hasSecret && location == "":
		return nil, throw(invalidConfiguration, "SSL key store is not specified, but key store password is specified.")
	case location == "" && key == "":
		return nil, nil
	}
	cert, err := func() (*tls.Certificate, error) {
		if key != "" {
			return pemIdentity([]byte(key), []byte(chain), c["ssl.key.password"])
		}
		b, err := readStore(location)
		if err != nil {
			return nil, err
		}
		if typ == "PEM" {
			return pemIdentity(b, b, c["ssl.key.password"])
		}
		return keyStore(b, location, secret)
	}()
	if err != nil {
		return nil, c.unreadable(location, typ, "keystore", err)
	}
	return cert, nil
}

func (c clientConfig) storeType(key string) string {
	if typ, ok := c[key]; ok {
		return strings.ToUpper(typ)
	}
	return "JKS"
}

func (c clientConfig) unreadable(location, typ, what string, err error) error {
	if location == "" {
		return throw(invalidConfiguration, "Invalid PEM "+what+" configs").because(err)
	}
	return throw(kafkaException, fmt.Sprintf("Failed to load SSL keystore %s of type %s", location, typ)).because(err)
}

func readStore(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, storeMax+1))
	if err == nil && len(b) > storeMax {
		err = fmt.Errorf("a store of more than %d bytes", storeMax)
	}
	return b, err
}

// pemBlock finds what pem.Decode finds, and also what stands in one line of a properties file, with blanks for the line breaks.
// The second group are headers.
var pemBlock = regexp.MustCompile(`-----BEGIN ([A-Z0-9 ]+)-----((?:\s*[^\r\n:]*:[^\r\n]*[\r\n]+)*)([A-Za-z0-9+/=\s]+)-----END ([A-Z0-9 ]+)-----`)

// pemBlocks calls each for the blocks in b whose label ends in suffix.
func pemBlocks(b []byte, suffix string, each func(label string, der []byte) error) error {
	for _, m := range pemBlock.FindAllSubmatch(b, -1) {
		label := string(m[1])
		if !strings.HasSuffix(label, suffix) || label != string(m[4]) {
			continue
		}
		der, err := base64.StdEncoding.DecodeString(string(bytes.Join(bytes.Fields(m[3]), nil)))
		if err == nil && bytes.Contains(m[2], []byte("ENCRYPTED")) {
			err = errOldEncryption
		}
		if err != nil {
			return fmt.Errorf("%s: %w", label, err)
		}
		if err := each(label, der); err != nil {
			return fmt.Errorf("%s: %w", label, err)
		}
	}
	return nil
}

func pemCertificates(b []byte) (certs []*x509.Certificate, err error) {
	err = pemBlocks(b, "CERTIFICATE", func(_ string, der []byte) error {
		cert, err := x509.ParseCertificate(der)
		certs = append(certs, cert)
		return err
	})
	if err == nil && len(certs) == 0 {
		err = throw(invalidConfiguration, "At least one certificate expected, but none found")
	}
	return certs, err
}

// pemIdentity reads a private key, which password decrypts if it is encrypted, and the certificates that go with it, its own first.
func pemIdentity(key, chain []byte, password string) (*tls.Certificate, error) {
	var keys []any
	err := pemBlocks(key, "PRIVATE KEY", func(label string, der []byte) error {
		k, err := privateKey(label, der, password)
		keys = append(keys, k)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case len(keys) == 0:
		return nil, throw(invalidConfiguration, "Private key not provided")
	case len(keys) > 1:
		return nil, throw(invalidConfiguration, fmt.Sprintf("Expected one private key, but found %d entries in PEM file", len(keys)))
	}
	certs, err := pemCertificates(chain)
	if err != nil {
		return nil, err
	}
	return identity(keys[0], certs)
}

// identity puts a key and its certificates together, if they belong together.
func identity(key any, certs []*x509.Certificate) (*tls.Certificate, error) {
	var public crypto.PublicKey
	switch k := key.(type) {
	case *rsa.PrivateKey:
		public = k.Public()
	case *ecdsa.PrivateKey:
		public = k.Public()
	case ed25519.PrivateKey:
		public = k.Public()
	default:
		return nil, fmt.Errorf("a private key of type %T cannot be used", key)
	}
	of, ok := certs[0].PublicKey.(interface{ Equal(crypto.PublicKey) bool })
	if !ok || !of.Equal(public) {
		return nil, errors.New("the private key is not the one of the first certificate")
	}
	cert := &tls.Certificate{PrivateKey: key, Leaf: certs[0]}
	for _, c := range certs {
		cert.Certificate = append(cert.Certificate, c.Raw)
	}
	return cert, nil
}
