package tools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// admin asks a cluster questions and tells failures in the words of Kafka's AdminClient. It opens a connection with the
// first call, and sends no more than it is asked to.
type admin struct {
	cl         *kgo.Client
	apiTimeout time.Duration // of one call, retries included
	reqTimeout time.Duration
	dial       *dialWatch
	versions   *kmsg.ApiVersionsResponse // nil until asked

	controllers *controllerRoute // nil: brokers are asked
}

const (
	defaultAPITimeoutMs     = 60000
	defaultRequestTimeoutMs = 30000
	// Between two tries to connect.
	dialBackoffMin = 50 * time.Millisecond
	dialBackoffMax = time.Second
)

// newAdmin makes a client of the properties. Its errors are those of Java's constructor.
func newAdmin(env Env, c clientConfig, clientID string) (*admin, error) {
	api, err := c.millis("default.api.timeout.ms", 32, defaultAPITimeoutMs)
	if err != nil {
		return nil, err
	}
	request, err := c.millis("request.timeout.ms", 32, defaultRequestTimeoutMs)
	if err != nil {
		return nil, err
	}
	opts, dial, err := c.connection(env.Stderr, "AdminClient", clientID)
	if err == nil {
		var cl *kgo.Client
		if cl, err = kgo.NewClient(append(opts, kgo.RetryTimeout(api))...); err == nil {
			return &admin{cl: cl, apiTimeout: api, reqTimeout: request, dial: dial}, nil
		}
	}
	return nil, throw(kafkaException, "Failed to create new KafkaAdminClient").because(err)
}

func (a *admin) close() {
	if a.controllers != nil {
		a.controllers.close()
	}
	a.cl.Close()
}

// request sends a request to whom it is for.
func (a *admin) request(ctx context.Context, req kmsg.Request) (kmsg.Response, error) {
	if r, ok := req.(*brokerRequest); ok {
		return a.cl.Broker(int(r.broker)).RetriableRequest(ctx, r.Request)
	}
	if a.controllers != nil {
		return a.controllers.request(ctx, a, req)
	}
	return a.cl.Request(ctx, req)
}

// connection returns what every client of the properties has in common. Each Java client wraps its error in words of its own.
func (c clientConfig) connection(stderr io.Writer, kind, clientID string) ([]kgo.Opt, *dialWatch, error) {
	encrypts, logsIn, err := c.securityProtocol()
	if err != nil {
		return nil, nil, err
	}
	seeds, err := c.bootstrap(stderr)
	if err != nil {
		return nil, nil, err
	}
	if id := c["client.id"]; id != "" {
		clientID = id
	}
	dial, err := c.dialer()
	if err != nil {
		return nil, nil, err
	}
	watch := &dialWatch{stderr: stderr, kind: kind, clientID: clientID, encrypts: encrypts}
	opts := []kgo.Opt{
		kgo.SeedBrokers(seeds...),
		kgo.ClientID(clientID),
		kgo.SoftwareNameAndVersion("quire-tools", kafkaVersion),
		kgo.DisableClientMetrics(),
		kgo.WithHooks(watch),
		kgo.Dialer(dialMembers(dial)),
	}
	if logsIn {
		login, err := c.login()
		if err != nil {
			return nil, nil, err
		}
		opts = append(opts, kgo.SASL(login))
	}
	return opts, watch, nil
}

// dialWatch notes whether any broker was reached, and says once that one was not.
type dialWatch struct {
	stderr         io.Writer
	kind, clientID string
	encrypts       bool
	reached        atomic.Bool

	mu     sync.Mutex // guards told, and is held while it is told: a client that is closed says nothing more
	told   bool
	closed bool
}

// OnClientClosed is called by franz-go; connections that were being made may still fail after it.
func (d *dialWatch) OnClientClosed(*kgo.Client) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}

// OnBrokerConnect is called by franz-go after each attempt.
func (d *dialWatch) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err == nil {
		d.reached.Store(true)
		return
	}
	var dialed *net.OpError
	refused := isHandshakeFailure(err)
	if !refused && !errors.As(err, &dialed) || errors.Is(err, context.Canceled) { // given up by us
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.told || d.closed {
		return
	}
	d.told = true
	node := meta.NodeID
	if node < 0 {
		node = -1 // a seed; franz-go numbers them downwards
	}
	level, what := "WARN", "could not be established. Node may not be available."
	if refused {
		level, what = "ERROR", "failed authentication due to: "+asJava(err).text()
	}
	logLine(d.stderr, level, fmt.Sprintf("[%s clientId=%s] Connection to node %d (/%s) %s", d.kind, d.clientID, node, net.JoinHostPort(meta.Host, fmt.Sprint(meta.Port)), what),
		"org.apache.kafka.clients.NetworkClient", nil)
}

// call sends a request until it is answered, or default.api.timeout.ms is over. name is what Java calls it.
func (a *admin) call(name string, req kmsg.Request) (kmsg.Response, error) {
	ctx, cancel := context.WithTimeout(context.Background(), a.apiTimeout)
	defer cancel()
	for backoff := dialBackoffMin; ; backoff = min(2*backoff, dialBackoffMax) {
		resp, err := a.request(ctx, req)
		var dialed *net.OpError
		switch {
		case err == nil:
			return resp, nil
		case loginFailure(err) != nil:
			return nil, loginFailure(err)
		case errors.As(err, &dialed) && ctx.Err() == nil:
		case !a.dial.reached.Load():
			return nil, throw(kafkaErrors+"TimeoutException", "Timed out waiting for a node assignment. Call: "+name)
		case ctx.Err() != nil:
			return nil, throw(kafkaErrors+"TimeoutException", fmt.Sprintf("Call(callName=%s) timed out after %d ms", name, a.apiTimeout.Milliseconds()))
		default:
			return nil, asJava(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(backoff):
		}
	}
}

// call sends a request and returns its response in its own type.
func call[R kmsg.Response](a *admin, name string, req kmsg.Request) (R, error) {
	var zero R
	resp, err := a.call(name, req)
	if err != nil {
		return zero, err
	}
	typed, ok := resp.(R)
	if !ok {
		return zero, fmt.Errorf("%s was answered by a %T", name, resp)
	}
	return typed, nil
}

// supports reports whether the broker knows an API.
func (a *admin) supports(name string, key int16) (bool, error) {
	if a.versions == nil {
		resp, err := call[*kmsg.ApiVersionsResponse](a, name, kmsg.NewPtrApiVersionsRequest())
		if err != nil {
			return false, err
		}
		a.versions = resp
	}
	for _, k := range a.versions.ApiKeys {
		if k.ApiKey == key {
			return true, nil
		}
	}
	return false, nil
}

// metadata asks about topics; nil asks about all.
func (a *admin) metadata(callName string, topics []string) (*kmsg.MetadataResponse, error) {
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	for _, topic := range topics {
		if topic == "" {
			return nil, throw(kafkaErrors+"InvalidTopicException", "The given topic name '' cannot be represented in a request.")
		}
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &topic
		req.Topics = append(req.Topics, t)
	}
	return call[*kmsg.MetadataResponse](a, callName, req)
}

// present reports whether a broker is in the cluster.
func (a *admin) present(id int32) (bool, error) {
	endpoints := brokerEndpoints
	if a.controllers != nil {
		endpoints = controllerEndpoints
	}
	resp, err := a.cluster(endpoints, false)
	if err != nil {
		return false, err
	}
	for _, b := range resp.Brokers {
		if b.NodeID == id {
			return true, nil
		}
	}
	return false, nil
}

// noNodeUnless is the failure of a call that no broker answered: err where the one that was reached would have none of this client.
func noNodeUnless(err error, call string) error {
	if e, ok := errors.AsType[*javaError](err); ok && (e.class == sslAuthentication || e.class == saslAuthentication) {
		return err
	}
	return noNode(call)
}

// noNode is what Java's client says, after its time is over, of a call to a broker that there is not.
func noNode(call string) *javaError {
	return throw(kafkaErrors+"TimeoutException", "Timed out waiting for a node assignment. Call: "+call)
}
