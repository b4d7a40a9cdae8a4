package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/wire"
)

// DescribeCluster, versions 0-2: v1 asks for brokers or controllers, and only the listener of the kind asked for answers;
// v2 can list fenced brokers too.

const (
	endpointBrokers     = 1
	endpointControllers = 2
)

func (n *Node) handleDescribeCluster(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.DescribeClusterRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.DescribeClusterResponse)
	if r.Version >= 1 && r.EndpointType != endpointBrokers {
		resp.ErrorCode = kerr.UnsupportedEndpointType.Code
		message := "Unsupported endpoint type " + itoa(int(r.EndpointType))
		if r.EndpointType == endpointControllers {
			resp.ErrorCode = kerr.MismatchedEndpointType.Code
			message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER"
		}
		resp.ErrorMessage = &message
		return wire.Reply(resp)
	}
	img := n.controller.Image()
	v := n.view(img, req.Conn)
	resp.ClusterID, resp.ControllerID, resp.EndpointType = n.clusterID, n.id, endpointBrokers
	for b := range img.Brokers() {
		host, port, ok := v.address(b)
		if !ok || b.Fenced && !r.IncludeFencedBrokers {
			continue
		}
		rb := kmsg.NewDescribeClusterResponseBroker()
		rb.NodeID, rb.Host, rb.Port, rb.Rack, rb.IsFenced = b.ID, host, port, b.Rack, b.Fenced
		resp.Brokers = append(resp.Brokers, rb)
	}
	if r.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = clusterOperations
	}
	return wire.Reply(resp)
}
