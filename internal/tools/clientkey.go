package tools

import (
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"

	"github.com/youmark/pkcs8"
)

// Private keys come as PKCS #8, encrypted or not, or plain in the older forms of RSA and EC. Of encryption PBES2 is read: with PBKDF2
// over any HMAC that Java and OpenSSL choose, or scrypt. What is older is refused with the command that converts it.

var errOldEncryption = errors.New("a key that is encrypted in an old way; quire's tools read PKCS #8 with PBES2: openssl pkcs8 -topk8 -v2 aes-256-cbc -in OLD -out NEW makes it of one")

// privateKey reads the key of a PEM block; a password that no key needs is not looked at.
func privateKey(label string, der []byte, password string) (any, error) {
	switch label {
	case "ENCRYPTED PRIVATE KEY":
		if password == "" {
			return nil, errors.New("the key is encrypted, and ssl.key.password is not given")
		}
		return decryptKey(der, password)
	case "RSA PRIVATE KEY":
		return x509.ParsePKCS1PrivateKey(der)
	case "EC PRIVATE KEY":
		return x509.ParseECPrivateKey(der)
	default:
		return x509.ParsePKCS8PrivateKey(der)
	}
}

// oidPBES2 is PBES2 of RFC 8018, oidPBKDF2 its usual way from password to key.
var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
)

// hmacs are the pseudo-random functions of PBKDF2, by the last number of their object identifiers in 1.2.840.113549.2.
var hmacs = map[int]func() hash.Hash{7: sha1.New, 8: sha256.New224, 9: sha256.New, 10: sha512.New384, 11: sha512.New, 12: sha512.New512_224, 13: sha512.New512_256}

// iterationsMax bounds the work that a file asks for: half a minute of it.
const iterationsMax = 20_000_000

// pbkdf2Params stand in for those of the package pkcs8, which knows two of the functions alone.
type pbkdf2Params struct {
	Salt       []byte
	Iterations int
	KeySize    int                      `asn1:"optional"`
	PRF        pkix.AlgorithmIdentifier `asn1:"optional"`
}

func init() {
	pkcs8.RegisterKDF(oidPBKDF2, func() pkcs8.KDFParameters { return new(pbkdf2Params) })
}

func (p *pbkdf2Params) DeriveKey(password []byte, size int) ([]byte, error) {
	prf := sha1.New
	if oid := p.PRF.Algorithm; len(oid) > 0 {
		if prf = hmacs[oid[len(oid)-1]]; prf == nil || !oid[:len(oid)-1].Equal(asn1.ObjectIdentifier{1, 2, 840, 113549, 2}) {
			return nil, fmt.Errorf("PBKDF2 by %v, which quire's tools do not know", oid)
		}
	}
	if p.Iterations < 1 || p.Iterations > iterationsMax {
		return nil, fmt.Errorf("%d iterations of PBKDF2; quire's tools do 1 to %d", p.Iterations, iterationsMax)
	}
	return pbkdf2.Key(prf, string(password), p.Salt, p.Iterations, size)
}

// decryptKey decrypts a key in PKCS #8.
func decryptKey(der []byte, password string) (key any, err error) {
	var outer struct {
		Algorithm pkix.AlgorithmIdentifier
		Data      []byte
	}
	if rest, err := asn1.Unmarshal(der, &outer); err != nil || len(rest) > 0 {
		return nil, errors.New("the key is damaged: it is not in the form of PKCS #8")
	}
	if !outer.Algorithm.Algorithm.Equal(oidPBES2) {
		return nil, errOldEncryption
	}
	defer whole(&err)
	return pkcs8.ParsePKCS8PrivateKey(der, []byte(password))
}

// whole makes an error of a panic: ciphers panic when they are given a vector or a text of odd size, and no package that reads keys looks
// at these first.
func whole(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("it is damaged: %v", p)
	}
}
