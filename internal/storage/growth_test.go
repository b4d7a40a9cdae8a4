package storage

import (
	"testing"
	"time"
)

// Topics are blamed for what they are to blame for.
func TestGrowthSays(t *testing.T) {
	began := time.Unix(0, 0)
	g := &growth{samples: []topicSizes{
		{began, map[string]int64{"orders": 0, "audit": 1 << 20}},
		{began.Add(time.Hour), map[string]int64{"orders": 2 << 20, "audit": 0}},
	}}
	const mebibyte = 1 << 20 / 3600.0 // a second, of one an hour
	for _, c := range []struct {
		g       *growth
		filling float64
		want    string
	}{
		{g, 2 * mebibyte, "orders 2 MiB an hour"},
		{g, 4 * mebibyte, "orders 2 MiB an hour"},
		{g, 12 * mebibyte, "what is not in these topics 10 MiB an hour, orders 2 MiB an hour"},
		{&growth{}, mebibyte, "not these topics"},
	} {
		if got := c.g.says(c.filling); got != c.want {
			t.Errorf("%g bytes a second: %q, want %q", c.filling, got, c.want)
		}
	}
}
