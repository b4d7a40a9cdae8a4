package config

import (
	"errors"
	"io"
	"strings"

	"github.com/magiconair/properties"
)

// propertiesBytesMax bounds a server.properties: a thousand times what anybody writes.
const propertiesBytesMax = 16 << 20

// ReadProperties reads a server.properties in Java's syntax (ISO 8859-1, escapes, no expansion). Of a key given twice the last value holds.
func ReadProperties(r io.Reader) (map[string]string, error) {
	text, err := io.ReadAll(io.LimitReader(r, propertiesBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(text) > propertiesBytesMax {
		return nil, errors.New("properties: larger than 16 MiB")
	}
	// Expansion is off, since Java's Properties knows none: ${x} in a password is a password.
	loader := properties.Loader{Encoding: properties.ISO_8859_1, DisableExpansion: true}
	p, err := loader.LoadBytes(text)
	if err != nil {
		return nil, errors.New(propertiesComplaint(err))
	}
	return p.Map(), nil
}

// propertiesComplaint is the parser's complaint, which names a line; of one that is no pair it shows only what it began with.
func propertiesComplaint(err error) string {
	text := err.Error()
	if strings.HasSuffix(text, `: ""`) {
		text = strings.TrimSuffix(text, `""`) + "a line needs a key before its value"
	}
	return text
}
