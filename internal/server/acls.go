package server

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/wire"
)

// DescribeAcls, CreateAcls and DeleteAcls, versions 1-3, as a broker without an authorizer answers them: v2 is flexible, v3 may name
// users as resources. The one that reads and those that write say so in different words, as Kafka's do.
const (
	noAuthorizerOnBroker = "No Authorizer is configured on the broker"
	noAuthorizer         = "No Authorizer is configured."
)

func (n *Node) handleDescribeACLs(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.DescribeACLsRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.DescribeACLsResponse)
	resp.ErrorCode, resp.ErrorMessage = kerr.SecurityDisabled.Code, kmsg.StringPtr(noAuthorizerOnBroker)
	return wire.Reply(resp)
}

func (n *Node) handleCreateACLs(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.CreateACLsRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.CreateACLsResponse)
	for range r.Creations {
		result := kmsg.NewCreateACLsResponseResult()
		result.ErrorCode, result.ErrorMessage = kerr.SecurityDisabled.Code, kmsg.StringPtr(noAuthorizer)
		resp.Results = append(resp.Results, result)
	}
	return wire.Reply(resp)
}

func (n *Node) handleDeleteACLs(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.DeleteACLsRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.DeleteACLsResponse)
	for range r.Filters {
		result := kmsg.NewDeleteACLsResponseResult()
		result.ErrorCode, result.ErrorMessage = kerr.SecurityDisabled.Code, kmsg.StringPtr(noAuthorizer)
		resp.Results = append(resp.Results, result)
	}
	return wire.Reply(resp)
}
