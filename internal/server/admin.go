package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// An admin serves operators over HTTP: /metrics for Prometheus, /livez (the process answers), /readyz (clients are served, and
// changes can be written), /groups/events (what happened to groups, as JSON),
// /groups/lag (how far they are behind).
type admin struct {
	server  *http.Server
	address net.Addr
	serving sync.WaitGroup
}

const (
	// adminAtOnce are the requests for metrics and explanations that are answered at once; others are told to come again. Each may
	// read some of a log, and make an answer of many rows.
	adminAtOnce = 4
	// adminWriteTimeout is how long a client may take to read an answer.
	adminWriteTimeout = time.Minute
)

// atMost has a handler serve so many requests at once.
func atMost(requests int, h http.Handler) http.Handler {
	turns := make(chan struct{}, requests)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case turns <- struct{}{}:
			defer func() { <-turns }()
			h.ServeHTTP(w, r)
		default:
			w.Header().Set("Retry-After", "1")
			http.Error(w, fmt.Sprintf("%d requests are being answered: come again in a second", requests), http.StatusServiceUnavailable)
		}
	})
}

// startAdmin listens on admin.listener; without one it returns nil, which is an admin that serves nobody. A second node on a machine
// that was told nothing finds the default port taken: that is no reason not to serve clients.
func startAdmin(n *Node) (*admin, error) {
	address := n.value("admin.listener").Text
	if address == "" {
		return nil, nil
	}
	l, err := n.options.Listen("tcp", address)
	if err != nil {
		if _, asked := n.options.Properties["admin.listener"]; asked {
			return nil, fmt.Errorf("admin.listener: %w", err)
		}
		n.log.Warn("no metrics are served: set admin.listener to another address, or to nothing", "error", err)
		return nil, nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(n.metrics.registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}))
	n.explainRoutes(mux)
	mux.HandleFunc("GET /groups/events", n.showGroupEvents)
	mux.HandleFunc("GET /groups/lag", n.showLags)
	root := http.NewServeMux()
	root.Handle("/", atMost(adminAtOnce, mux))
	root.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	root.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !n.ready.Load() {
			http.Error(w, "not ready", http.StatusServiceUnavailable)
			return
		}
		if err := n.controller.Failed(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	a := &admin{address: l.Addr(), server: &http.Server{
		Handler: root, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: adminWriteTimeout, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}}
	a.serving.Go(func() {
		if err := a.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			n.log.Error("the admin listener ended", "error", err)
		}
	})
	n.log.Info("serving metrics", "address", l.Addr().String())
	return a, nil
}

// close ends the listener and, after a moment, what it still serves.
func (a *admin) close() {
	if a == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if a.server.Shutdown(ctx) != nil {
		a.server.Close()
	}
	a.serving.Wait()
}

// AdminAddr is the address of the admin listener, "" if there is none.
func (n *Node) AdminAddr() string {
	if n.admin == nil {
		return ""
	}
	return n.admin.address.String()
}
