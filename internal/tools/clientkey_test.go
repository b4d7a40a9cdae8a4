package tools

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
	"time"
)

// lockedKey is the key that OpenSSL encrypted with the password key-secret below.
const lockedKey = `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgtzanN3BJf/LR1d7x
F5f24M+GcJsUIpgMRAxfCTzggE2hRANCAATpt5yKJhqXjCAarilypv4vV/45pkgm
rNcbvFawA8TF0Bm8C5LaFbrVrIQv1RKEuSp6niMWyPxjsMcVsyQLi1cp
-----END PRIVATE KEY-----
`

// One key, as OpenSSL encrypts it in each way that is read.
var lockedKeys = map[string]string{
	"HMAC of SHA-1": `-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHeMEkGCSqGSIb3DQEFDTA8MBsGCSqGSIb3DQEFDDAOBAgEPanMr2VibwICA+gw
HQYJYIZIAWUDBAEqBBDsOQNwb0jaGViLYtGMIOLwBIGQDaSNW8YMMzx7bFJWU4jF
dBkTsks8ytv5VGgZj/YROGG6M7j9/G/dUmNZ7DLgIV/TqyEEHlovC8f+IIbhXxjW
NYPRCjRWLo0gwInw7d4jytH/lVoeW9oOgSCP52SKc847YzR02wdCAPsn6NGLpKiy
9ZIoNzwwyYiecEyPYA8iwRrmPc1x+qip1oZ+VYbxF8CC
-----END ENCRYPTED PRIVATE KEY-----
`,
	"HMAC of SHA-224": `-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAiepiXL32w+wwICA+gw
DAYIKoZIhvcNAggFADAdBglghkgBZQMEASoEEJD/BXWmyOMFd916iiM8Ri0EgZAN
27BAg4n+7D7IkJ0IuZLk2FegD4gRHmSakky+Qdo5mwoCI+LeJY0MAgM0KV9mc3jH
3RFOTQox7irNKupz4XcRyVAFRW2ESaBi23trFs3Vqpu3pHOHSmA1GOXEFkp3n6oo
7Dsd3Msr+W9u9fCjT9aM3g6VHMDRZQLzts6fZ2by/l4gD7AvtyHyjOqC4vb+DEE=
-----END ENCRYPTED PRIVATE KEY-----
`,
	"HMAC of SHA-256": `-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgPQT/o3Y/kxgICA+gw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEEh3OifOSp6WlWQFkNlg260EgZAK
/rEYCAf91yIXYM50ZDNTW+wF+dBAmC8jTVpq132UzlXRPcW8TuWv68+5jCFCXWPz
PBJPfsQMckMwrdh35odNJ/cXI67ATqrzJYvkzgCodekl+bnlhJYaHTV/EppnsrQd
AM2qDQWLClXJqwj2+0qIcgDkaaToW5iSb5kTrNp/4nNuw8nOs+geU9wU5k+pKt0=
-----END ENCRYPTED PRIVATE KEY-----
`,
	"HMAC of SHA-384": `-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAhibDyR9UhUcQICA+gw
DAYIKoZIhvcNAgoFADAdBglghkgBZQMEASoEECGlribOOGuH6QnZO5GoXQwEgZBv
WQmoEgTizgtnljRm3IRVxZ9KS8j4LckH9aFrI/LudUFpHr/EaUV9QDE9VTPgfVpD
M8VBQQ5mwg68LDwUX0AVPNGx4XK0HApIz6kb2eDzdr/SF82bL3C6Jt3PjFv7c+gl
tiCdSZRtrNb3VUHqYKUV1Ru/N8Ga2EarR6dpbmbtJfN58eAG8OthcoRHV8u5RDQ=
-----END ENCRYPTED PRIVATE KEY-----
`,
	"HMAC of SHA-512": `-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAjSehi33soYaQICA+gw
DAYIKoZIhvcNAgsFADAdBglghkgBZQMEASoEEHmOcQVJnOqg/nG90mkFwlEEgZAj
4Xjhttc0jChhLhJsBcyR4j+D3omtzXdT+8KWwNcuAq6/038Cr0g4whOLSGE2JPar
cbtlasxaa7EsfdhXsM6py8Q1302jyXLdX930Jy3zCC5O/GZr9osWbgI5LvG8eg3S
Qwt6+T073nBTit+LLfD8SxZKkmPf9wM8aCk8i2fJMEUpTFhBaSuQPiXsZyuiOYo=
-----END ENCRYPTED PRIVATE KEY-----
`,
	"scrypt": `-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHkME8GCSqGSIb3DQEFDTBCMCEGCSsGAQQB2kcECzAUBAh+hR0dRVfmNAICBAAC
AQgCAQEwHQYJYIZIAWUDBAEqBBCO1mG8c3RzWHKeD0hf5cW6BIGQ+69PVFmpuZa6
sFfkse8x9dbKez6DjeLG4OpdgD7DSY4WTKepLug5lMZegbYgrbs7tLqzxIybVgsG
EOBeK1JAcQZZthKWfwrRLIHBhzxzuRzr+OP5lE/cj+qqzp/t/hhWS8msk5YJrkQt
4osVMZ5o2tTxbyiiI0UbCAl20H8niCCQtPj67wCYthBbMFsC3ipO
-----END ENCRYPTED PRIVATE KEY-----
`,
}

// And in the ways that are not.
var lockedOldKeys = map[string]string{
	"PBES1": `-----BEGIN ENCRYPTED PRIVATE KEY-----
MIGxMBwGCiqGSIb3DQEMAQMwDgQI4pkpXVxEUy8CAggABIGQZljgzcvbwTbHRAe5
h19LhJefEbltwYxYcvqMLpMXpND4sOYZ48pa+vqwh95SRMzaIscm7rvEdD0g/6Kf
iXrFjREWn+j7rLQsZKKhpzMclW4ReMyZDZW4/7BWNDC3I11sb0xzexV1kJRwRUXu
LECrv+XIqxg3WxG8OQq2hGr9qSADznvMxZK9JuOREFl+NYIr
-----END ENCRYPTED PRIVATE KEY-----
`,
	"PEM's own": `-----BEGIN EC PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED
DEK-Info: AES-128-CBC,5FEDBF0AA305350FB128BEE51CEB1ACC

6ilHibjbnZjC+juF1u9EpCC1LhFY6fpgoQROkpLPxilk86ULoQJ47vhtQDnyZYGG
qg/Yr+l8SarhA6uOGC7xx2xkCnJ5SP4wuAcr5UG3BIz6eiIbWNvti8cVEQx10T66
JIUsC0XQsNZ0dOwWy7Cqdo0qIEOd7O09W7tuV/sorEg=
-----END EC PRIVATE KEY-----
`,
}

func TestEncryptedKeys(t *testing.T) {
	read := func(text, password string) (keys []any, err error) {
		err = pemBlocks([]byte(text), "PRIVATE KEY", func(label string, der []byte) error {
			key, err := privateKey(label, der, password)
			keys = append(keys, key)
			return err
		})
		return keys, err
	}
	plain, err := read(lockedKey, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range lockedKeys {
		keys, err := read(text, "key-secret")
		if err != nil || len(keys) != 1 || !keys[0].(*ecdsa.PrivateKey).Equal(plain[0]) {
			t.Errorf("%s: %v, %v", name, keys, err)
		}
		if _, err := read(text, "wrong"); err == nil || !strings.Contains(err.Error(), "incorrect password") {
			t.Errorf("%s, a wrong password: %v", name, err)
		}
		if _, err := read(text, ""); err == nil || !strings.Contains(err.Error(), "the key is encrypted, and ssl.key.password is not given") {
			t.Errorf("%s, no password: %v", name, err)
		}
	}
	for name, text := range lockedOldKeys {
		if _, err := read(text, "key-secret"); err == nil || !strings.Contains(err.Error(), "openssl pkcs8 -topk8") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A damaged key is an error, wherever the damage is: ciphers would panic.
func TestDamagedKeys(t *testing.T) {
	for name, text := range lockedKeys {
		block, _ := pem.Decode([]byte(text))
		for at := range block.Bytes {
			damaged := append([]byte(nil), block.Bytes...)
			damaged[at] ^= 1
			if name == "scrypt" && at < 80 {
				continue // what it costs would be another
			}
			_, _ = decryptKey(damaged, "key-secret") // bytes of the key may well be others
			if _, err := decryptKey(block.Bytes[:at], "key-secret"); err == nil {
				t.Fatalf("%s: its first %d bytes are a key", name, at)
			}
		}
	}

	// A vector and a text of odd size.
	var outer struct {
		Algorithm struct {
			ID     asn1.ObjectIdentifier
			Params struct{ Derive, Scheme pkix.AlgorithmIdentifier }
		}
		Data []byte
	}
	block, _ := pem.Decode([]byte(lockedKeys["HMAC of SHA-256"]))
	for _, damage := range []func(){
		func() { outer.Data = outer.Data[:len(outer.Data)-1] },
		func() { outer.Algorithm.Params.Scheme.Parameters.FullBytes = []byte{4, 3, 1, 2, 3} },
	} {
		if _, err := asn1.Unmarshal(block.Bytes, &outer); err != nil {
			t.Fatal(err)
		}
		damage()
		der, err := asn1.Marshal(outer)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decryptKey(der, "key-secret"); err == nil || !strings.Contains(err.Error(), "damaged") {
			t.Errorf("%v", err)
		}
	}
}

// A keystore's certificates stand in the order in which they were added; those of the key are sent, its own first.
func TestChainOf(t *testing.T) {
	type pair struct {
		key  *ecdsa.PrivateKey
		cert *x509.Certificate
	}
	issue := func(name string, by *pair) *pair {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
		}
		p := &pair{key: key}
		if by == nil {
			by = &pair{key, template}
		}
		der, err := x509.CreateCertificate(rand.Reader, template, by.cert, key.Public(), by.key)
		if err != nil {
			t.Fatal(err)
		}
		if p.cert, err = x509.ParseCertificate(der); err != nil {
			t.Fatal(err)
		}
		return p
	}
	root, stranger := issue("root", nil), issue("stranger", nil)
	impostor := issue("between", stranger) // by name alone it signed the client's
	between := issue("between", root)
	client := issue("client", between)

	got := chainOf(client.key, []*x509.Certificate{root.cert, stranger.cert, impostor.cert, client.cert, between.cert})
	want := []*x509.Certificate{client.cert, between.cert, root.cert}
	if len(got) != len(want) || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("%v", got)
	}
	if got := chainOf(client.key, []*x509.Certificate{root.cert}); len(got) != 1 {
		t.Errorf("without the key's own: %v", got)
	}
}
