package tools

import (
	"fmt"
	"strconv"
)

// javaInt parses a number as Integer.parseInt and Long.parseLong do, and complains in their words.
func javaInt(text string, bits int) (int64, error) {
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		return 0, throw(numberFormat, fmt.Sprintf("For input string: \"%s\"", text))
	}
	return n, nil
}
