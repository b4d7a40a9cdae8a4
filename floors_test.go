package quire_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// The house, from the ground up. A package imports only from floors below its own.
var floors = [][]string{
	{"internal/vfs", "internal/record", "internal/config", "internal/kmeta", "internal/kmeta/gen", "internal/golden", "internal/auth"},
	{"internal/segments"},
	{"internal/storage", "internal/classic", "internal/metadata", "internal/wire"},
	{"internal/replica", "internal/controller", "internal/group", "internal/txn"},
	{"internal/server"},
	{"", "quiretest", "internal/tools"},
	{"cmd/quire"},
}

// Within a floor some rooms stand on others: the node's wiring needs an order there.
var within = map[string]string{
	"quiretest":      "",
	"internal/tools": "",
}

func TestFloors(t *testing.T) {
	const module = "github.com/quire-log/quire"
	floor := map[string]int{}
	for n, rooms := range floors {
		for _, room := range rooms {
			floor[strings.TrimSuffix(module+"/"+room, "/")] = n
		}
	}
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", "./...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Imports    []string
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		own, known := floor[p.ImportPath]
		if !known {
			if strings.HasPrefix(p.ImportPath, module+"/bench") || strings.HasPrefix(p.ImportPath, module+"/clients") {
				continue // outside the house
			}
			t.Errorf("%s stands on no floor: add it to floors", p.ImportPath)
			continue
		}
		for _, i := range p.Imports {
			below, ours := floor[i]
			if !ours || below < own {
				continue
			}
			room := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
			if to, ok := within[room]; ok && i == strings.TrimSuffix(module+"/"+to, "/") {
				continue
			}
			t.Errorf("%s (floor %d) imports %s (floor %d)", p.ImportPath, own, i, below)
		}
	}
}
