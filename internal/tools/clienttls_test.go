package tools_test

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/youmark/pkcs8"
	"software.sslmate.com/src/go-pkcs12"

	"github.com/quire-log/quire/internal/tools"
	"github.com/quire-log/quire/quiretest"
)

// An authority signs certificates.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(t *testing.T, name string) *authority {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{key: key}
	a.cert = a.sign(t, key, &x509.Certificate{Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// sign makes a certificate for a key; the first is the authority's own.
func (a *authority) sign(t *testing.T, key crypto.Signer, template *x509.Certificate) *x509.Certificate {
	t.Helper()
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent := a.cert
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// issue makes a key and a certificate for an address or a client.
func (a *authority) issue(t *testing.T, template *x509.Certificate) (*ecdsa.PrivateKey, *x509.Certificate) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key, a.sign(t, key, template)
}

func pemOf(label string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: label, Bytes: der}))
}

// tlsFront has TLS before a broker. The broker's own address, which its metadata names, is reached by whoever does not encrypt; so the
// front answers for it: the node listens elsewhere and advertises the front.
func tlsFront(t *testing.T, settings *tls.Config) (address string) {
	t.Helper()
	front, err := tls.Listen("tcp", "127.0.0.1:0", settings)
	if err != nil {
		t.Fatal(err)
	}
	node := quiretest.Start(t, quiretest.With("advertised.listeners", "PLAINTEXT://"+front.Addr().String()))
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = front.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			outer, err := front.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer outer.Close()
				inner, err := net.Dial("tcp", node.Addr())
				if err != nil {
					t.Error(err)
					return
				}
				defer inner.Close()
				all.Go(func() {
					_, _ = io.Copy(outer, inner)
					_ = outer.Close()
				})
				_, _ = io.Copy(inner, outer)
			})
		}
	})
	return front.Addr().String()
}

// The tools' properties of TLS: whom they trust and who they are, in each form of store, and what is said when it does not fit.
func TestClientTLS(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, content []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	ca, other := newAuthority(t, "ca"), newAuthority(t, "other")
	serve := func(names ...string) *tls.Config {
		template := &x509.Certificate{DNSNames: names, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
		if names == nil {
			template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
		}
		key, cert := ca.issue(t, template)
		pool := x509.NewCertPool()
		pool.AddCert(ca.cert)
		return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{cert.Raw}, PrivateKey: key}}, ClientCAs: pool}
	}
	open := tlsFront(t, serve())
	elsewhere := tlsFront(t, serve("elsewhere.example"))
	mutual := serve()
	mutual.ClientAuth = tls.RequireAndVerifyClientCert
	closed := tlsFront(t, mutual)

	key, cert := ca.issue(t, &x509.Certificate{Subject: pkix.Name{CommonName: "client"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	stranger, _ := other.issue(t, &x509.Certificate{})
	plainKey, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	strangeKey, err := x509.MarshalPKCS8PrivateKey(stranger)
	if err != nil {
		t.Fatal(err)
	}
	lockedKey, err := pkcs8.MarshalPrivateKey(key, []byte("key-secret"), nil)
	if err != nil {
		t.Fatal(err)
	}
	trust12, err := pkcs12.Modern.EncodeTrustStore([]*x509.Certificate{ca.cert}, "store-secret")
	if err != nil {
		t.Fatal(err)
	}
	key12, err := pkcs12.Modern.Encode(key, cert, nil, "store-secret")
	if err != nil {
		t.Fatal(err)
	}
	reversed12, err := pkcs12.Modern.Encode(key, ca.cert, []*x509.Certificate{cert}, "store-secret")
	if err != nil {
		t.Fatal(err)
	}
	caPEM, certPEM, keyPEM, lockedPEM := pemOf("CERTIFICATE", ca.cert.Raw), pemOf("CERTIFICATE", cert.Raw), pemOf("PRIVATE KEY", plainKey), pemOf("ENCRYPTED PRIVATE KEY", lockedKey)
	line := func(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", " ") }
	trust := "ssl.truststore.type=PEM\nssl.truststore.location=" + write("ca.pem", []byte(caPEM)) + "\n"
	jks := write("old.jks", []byte{0xfe, 0xed, 0xfe, 0xed, 0, 0, 0, 2})

	for _, test := range []struct {
		name, address, properties string
		fails                     string // "": it works
	}{
		{"truststore in PEM", open, trust, ""},
		{"certificates in one line", open, "ssl.truststore.type=PEM\nssl.truststore.certificates=" + line(caPEM), ""},
		{"truststore in PKCS12", open, "ssl.truststore.type=PKCS12\nssl.truststore.password=store-secret\nssl.truststore.location=" + write("ca.p12", trust12), ""},
		{"what keytool calls JKS", open, "ssl.truststore.password=store-secret\nssl.truststore.location=" + write("ca.jks", trust12), ""},
		{"TLS 1.2, a cipher suite", open, trust + "ssl.enabled.protocols=TLSv1.2\nssl.cipher.suites=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", ""},
		{"keystore in PEM", closed, trust + "ssl.keystore.type=PEM\nssl.keystore.location=" + write("client.pem", []byte(keyPEM+certPEM)), ""},
		{"encrypted key in PEM", closed, trust + "ssl.keystore.type=PEM\nssl.key.password=key-secret\nssl.keystore.location=" + write("locked.pem", []byte(certPEM+lockedPEM)), ""},
		{"key and chain in properties", closed, trust + "ssl.keystore.type=PEM\nssl.keystore.key=" + line(keyPEM) + "\nssl.keystore.certificate.chain=" + line(certPEM), ""},
		{"keystore in PKCS12", closed, trust + "ssl.keystore.password=store-secret\nssl.keystore.location=" + write("client.p12", key12), ""},
		{"keystore in PKCS12, an authority first", closed, trust + "ssl.keystore.password=store-secret\nssl.keystore.location=" + write("reversed.p12", reversed12), ""},
		{"another host's certificate, which does not matter", elsewhere, trust + "ssl.endpoint.identification.algorithm=", ""},

		{"another host's certificate", elsewhere, trust, "failed authentication due to: SSL handshake failed"},
		{"an authority that is not trusted", open, "ssl.truststore.type=PEM\nssl.truststore.certificates=" + line(pemOf("CERTIFICATE", other.cert.Raw)), "SslAuthenticationException: SSL handshake failed"},
		{"not trusted, without a look at the name", open, "ssl.endpoint.identification.algorithm=\nssl.truststore.type=PEM\nssl.truststore.certificates=" + line(pemOf("CERTIFICATE", other.cert.Raw)), "SslAuthenticationException: SSL handshake failed"},
		{"nobody the system trusts", open, "", "SslAuthenticationException: SSL handshake failed"},
		{"no certificate where one is asked for", closed, trust, "SSL handshake failed"},
		{"a listener without TLS", quiretest.Start(t).Addr(), trust, "is security.protocol what this listener speaks?"},
		{"a store in the old form", open, "ssl.truststore.location=" + jks, "keytool -importkeystore -srckeystore " + jks + " -destkeystore " + jks + ".p12 -deststoretype PKCS12"},
		{"PEM where the type says nothing", open, "ssl.truststore.location=" + dir + "/ca.pem", "this is PEM, and ssl.truststore.type=PEM says so"},
		{"an empty store", open, "ssl.truststore.location=" + write("empty.p12", nil), "the file is empty"},
		{"a keystore to trust", open, "ssl.truststore.password=store-secret\nssl.truststore.location=" + dir + "/client.p12", "keytool -importcert"},
		{"a store that is not there", open, "ssl.truststore.type=PEM\nssl.truststore.location=" + dir + "/none", "Failed to load SSL keystore " + dir + "/none of type PEM"},
		{"a wrong password", open, "ssl.truststore.password=wrong\nssl.truststore.location=" + dir + "/ca.p12", "Failed to load SSL keystore " + dir + "/ca.p12 of type JKS"},
		{"a wrong key password", closed, trust + "ssl.keystore.type=PEM\nssl.key.password=wrong\nssl.keystore.location=" + dir + "/locked.pem", "Failed to load SSL keystore"},
		{"another's key", closed, trust + "ssl.keystore.type=PEM\nssl.keystore.key=" + line(pemOf("PRIVATE KEY", strangeKey)) + "\nssl.keystore.certificate.chain=" + line(certPEM), "the private key is not the one of the first certificate"},
		{"a key without a chain", open, trust + "ssl.keystore.type=PEM\nssl.keystore.key=" + line(keyPEM), "SSL private key is specified, but certificate chain is not specified."},
		{"a password for PEM", open, trust + "ssl.truststore.password=x", "SSL trust store password cannot be specified for PEM format."},
		{"certificates in PKCS12", open, "ssl.truststore.certificates=" + line(caPEM), "SSL trust store certs can be specified only for PEM, but trust store type is JKS."},
		{"no certificate in the store", open, "ssl.truststore.type=PEM\nssl.truststore.location=" + write("empty.pem", nil), "At least one certificate expected, but none found"},
		{"old versions alone", open, trust + "ssl.enabled.protocols=TLSv1.1", "quire's tools speak TLSv1.2 and TLSv1.3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := write("client.properties", []byte("security.protocol=SSL\n"+test.properties))
			var out tools.LockedBuffer // what is dialled may fail as the tool prints
			code := tools.Main([]string{"kafka-topics", "--bootstrap-server", test.address, "--command-config", config, "--list"}, strings.NewReader(""), &out, &out)
			if test.fails == "" {
				if code != 0 {
					t.Errorf("code %d\n%s", code, out.String())
				}
				return
			}
			if code == 0 || !strings.Contains(out.String(), test.fails) {
				t.Errorf("code %d, without %q:\n%s", code, test.fails, out.String())
			}
		})
	}

	// Producers and consumers end, too; the console's, which tell of it, with exit code 0.
	config := write("client.properties", []byte("security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates="+line(pemOf("CERTIFICATE", other.cert.Raw))+"\n"))
	for _, args := range []string{
		"kafka-console-producer --topic t", "kafka-console-consumer --topic t --from-beginning", "kafka-console-consumer --topic t --group g",
		"kafka-get-offsets --topic t", "kafka-producer-perf-test --topic t --num-records 2 --record-size 10 --throughput -1",
		"kafka-consumer-perf-test --topic t --num-records 2", "kafka-consumer-perf-test --topic t --group g --num-records 2",
	} {
		argv := append(strings.Fields(args), "--bootstrap-server", open, "--command-config", config)
		var out tools.LockedBuffer
		if code := tools.Main(argv, strings.NewReader("a\n"), &out, &out); (code == 0) != strings.HasPrefix(args, "kafka-console") || !strings.Contains(out.String(), "SSL handshake failed") {
			t.Errorf("%s: code %d\n%s", args, code, out.String())
		}
	}

	// What is produced, compressed so that the producer's own connection is under it, is consumed; all over TLS.
	config = write("client.properties", []byte("security.protocol=SSL\n"+trust))
	var out bytes.Buffer
	if code := tools.Main([]string{"kafka-console-producer", "--bootstrap-server", open, "--command-config", config, "--topic", "t", "--compression-codec", "zstd"},
		strings.NewReader("a\nb\n"), &out, &out); code != 0 {
		t.Fatalf("code %d\n%s", code, out.String())
	}
	out.Reset()
	if code := tools.Main([]string{"kafka-console-consumer", "--bootstrap-server", open, "--command-config", config, "--topic", "t", "--from-beginning", "--max-messages", "2"},
		strings.NewReader(""), &out, io.Discard); code != 0 || out.String() != "a\nb\n" {
		t.Errorf("code %d, %q", code, out.String())
	}
}
