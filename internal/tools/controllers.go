package tools

import (
	"context"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The endpoints that DescribeCluster lists.
const (
	brokerEndpoints     int8 = 1
	controllerEndpoints int8 = 2
)

// newAdminOf makes a client of --bootstrap-server, or of --bootstrap-controller, in which case it speaks with the active
// controller alone. Neither or both is the caller's complaint.
func newAdminOf(env Env, props clientConfig, servers, controllers string) (*admin, error) {
	if servers != "" || controllers == "" {
		props["bootstrap.servers"] = servers
		return newAdmin(env, props, "adminclient-1")
	}
	props["bootstrap.servers"] = controllers
	a, err := newAdmin(env, props, "adminclient-1")
	if err == nil {
		a.controllers = &controllerRoute{env: env, props: props}
	}
	return a, err
}

// controllerRoute finds the active controller. Controllers answer no Metadata request, so the client cannot do it by itself.
type controllerRoute struct {
	env    Env
	props  clientConfig
	active *admin // nil until found
}

// request sends a request to the active controller; DescribeCluster goes to whom the user named.
func (r *controllerRoute) request(ctx context.Context, a *admin, req kmsg.Request) (kmsg.Response, error) {
	if _, ok := req.(*kmsg.DescribeClusterRequest); ok {
		return r.describe(ctx, a)
	}
	if r.active == nil {
		resp, err := r.describe(ctx, a)
		if err != nil {
			return nil, err
		}
		if e := brokerError(resp.ErrorCode, resp.ErrorMessage); e != nil {
			return nil, e
		}
		for _, b := range resp.Brokers {
			if b.NodeID != resp.ControllerID {
				continue
			}
			props := clientConfig{}
			for k, v := range r.props {
				props[k] = v
			}
			props["bootstrap.servers"] = net.JoinHostPort(b.Host, fmt.Sprint(b.Port))
			if r.active, err = newAdmin(r.env, props, "adminclient-1"); err != nil {
				return nil, err
			}
		}
		if r.active == nil {
			return nil, throw(kafkaErrors+"TimeoutException", "Timed out waiting for a node assignment. Call: describeCluster")
		}
	}
	return r.active.anySeed().RetriableRequest(ctx, req)
}

func (r *controllerRoute) describe(ctx context.Context, a *admin) (*kmsg.DescribeClusterResponse, error) {
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType = controllerEndpoints
	resp, err := a.anySeed().RetriableRequest(ctx, req)
	if err != nil {
		return nil, err
	}
	return resp.(*kmsg.DescribeClusterResponse), nil
}

func (r *controllerRoute) close() {
	if r.active != nil {
		r.active.close()
	}
}

// anySeed is one of the addresses that the user gave.
func (a *admin) anySeed() *kgo.Broker { return a.cl.SeedBrokers()[0] }

// brokersOnly is Java's complaint about a call that controllers do not serve; nil when brokers are asked.
func (a *admin) brokersOnly() error {
	if a.controllers == nil {
		return nil
	}
	return throw(kafkaErrors+"UnsupportedEndpointTypeException", "This Admin API is not yet supported when communicating directly with the controller quorum.")
}
