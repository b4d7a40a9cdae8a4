package server

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
)

// Who comes while as many as may are answered is told to come again; afterwards there is room.
func TestAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		h := atMost(2, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hold }))
		get := func() *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			return w
		}
		codes := make(chan int, 2)
		for range 2 {
			go func() { codes <- get().Code }()
		}
		synctest.Wait()
		if w := get(); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("the third: %d, %v", w.Code, w.Header())
		}
		close(hold)
		for range 2 {
			if code := <-codes; code != http.StatusOK {
				t.Errorf("one of two: %d", code)
			}
		}
		synctest.Wait()
		if w := get(); w.Code != http.StatusOK {
			t.Errorf("afterwards: %d", w.Code)
		}
	})
}
