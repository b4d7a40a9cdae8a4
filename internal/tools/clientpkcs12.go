package tools

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"

	"software.sslmate.com/src/go-pkcs12"
)

// checkPKCS12 refuses what is no store in PKCS #12, but one of Java's own from before Java 9, or PEM: Java's default for key is JKS.
func checkPKCS12(b []byte, path, key string) error {
	for _, old := range []struct{ magic, name string }{{"\xfe\xed\xfe\xed", "JKS"}, {"\xce\xce\xce\xce", "JCEKS"}} {
		if bytes.HasPrefix(b, []byte(old.magic)) {
			return fmt.Errorf("this is a %s store of the old form; quire's tools read PEM and PKCS #12: keytool -importkeystore -srckeystore %s -destkeystore %s.p12 -deststoretype PKCS12 makes one of it", old.name, path, path)
		}
	}
	switch {
	case len(b) == 0:
		return errors.New("the file is empty")
	case bytes.Contains(b, []byte("-----BEGIN ")):
		return fmt.Errorf("this is PEM, and %s=PEM says so", key)
	}
	return nil
}

// trustStore returns the certificates of a truststore in PKCS #12.
func trustStore(b []byte, path, password string) (certs []*x509.Certificate, err error) {
	if err := checkPKCS12(b, path, "ssl.truststore.type"); err != nil {
		return nil, err
	}
	defer whole(&err)
	certs, err = pkcs12.DecodeTrustStore(b, password)
	if err != nil && !errors.Is(err, pkcs12.ErrIncorrectPassword) {
		// A store with keys, or with certificates that no tool of Java's marked as trusted, is none for the package.
		err = fmt.Errorf("%w; a truststore holds certificates that are marked as trusted, and nothing else: keytool -importcert makes one of a certificate, or use its PEM with ssl.truststore.type=PEM", err)
	}
	if err == nil && len(certs) == 0 {
		err = errors.New("it holds no certificate")
	}
	return certs, err
}

// keyStore returns the key of a keystore in PKCS #12, with its chain. Other certificates may be in it in any order: whom to trust often is.
func keyStore(b []byte, path, password string) (cert *tls.Certificate, err error) {
	if err := checkPKCS12(b, path, "ssl.keystore.type"); err != nil {
		return nil, err
	}
	defer whole(&err)
	private, first, others, err := pkcs12.DecodeChain(b, password)
	if err != nil {
		return nil, err
	}
	return identity(private, chainOf(private, append([]*x509.Certificate{first}, others...)))
}

// chainOf returns the certificate of a key and after each that of who signed it, as far as they are among certs. Without one of the key it
// returns certs.
func chainOf(private any, certs []*x509.Certificate) []*x509.Certificate {
	signer, ok := private.(crypto.Signer)
	if !ok {
		return certs
	}
	var chain []*x509.Certificate
	for i, cert := range certs {
		if of, ok := cert.PublicKey.(interface{ Equal(crypto.PublicKey) bool }); ok && of.Equal(signer.Public()) {
			chain = append(chain, cert)
			certs = append(certs[:i:i], certs[i+1:]...)
			break
		}
	}
	if chain == nil {
		return certs
	}
	for {
		last := chain[len(chain)-1]
		if bytes.Equal(last.RawIssuer, last.RawSubject) {
			return chain
		}
		i := 0
		for ; i < len(certs); i++ {
			if bytes.Equal(certs[i].RawSubject, last.RawIssuer) && last.CheckSignatureFrom(certs[i]) == nil {
				break
			}
		}
		if i == len(certs) {
			return chain
		}
		chain = append(chain, certs[i])
		certs = append(certs[:i:i], certs[i+1:]...)
	}
}
