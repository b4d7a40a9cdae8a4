package server

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/wire"
)

// ApiVersions, versions 0-4. v1 added the throttle time; v3 (flexible, but for the response's header) the client's software
// and the features; v4 may say that a supported range begins at 0. An unknown version is answered by package wire.

var softwareName = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?$`)

func (n *Node) handleApiVersions(_ context.Context, req *wire.Request) wire.Response {
	var r kmsg.ApiVersionsRequest
	if err := req.Decode(&r); err != nil {
		return wire.Close(err)
	}
	resp := r.ResponseKind().(*kmsg.ApiVersionsResponse)
	if r.Version >= 3 {
		if !softwareName.MatchString(r.ClientSoftwareName) || !softwareName.MatchString(r.ClientSoftwareVersion) {
			resp.ErrorCode = kerr.InvalidRequest.Code
			return wire.Reply(resp)
		}
		req.Conn.SetClientSoftware(r.ClientSoftwareName, r.ClientSoftwareVersion)
	}
	for _, a := range n.served {
		k := kmsg.NewApiVersionsResponseApiKey()
		k.ApiKey, k.MinVersion, k.MaxVersion = a.key.Int16(), a.min, a.max
		if a.listedMin >= 0 {
			k.MinVersion = a.listedMin
		}
		resp.ApiKeys = append(resp.ApiKeys, k)
	}
	img := n.controller.Image()
	for _, f := range metadata.SupportedFeatures() {
		if f.Min == 0 && r.Version < 4 {
			continue // clients before v4 refuse a range that begins at 0
		}
		s := kmsg.NewApiVersionsResponseSupportedFeature()
		s.Name, s.MinVersion, s.MaxVersion = f.Name, f.Min, f.Max
		resp.SupportedFeatures = append(resp.SupportedFeatures, s)
	}
	for name, level := range img.Features() {
		f := kmsg.NewApiVersionsResponseFinalizedFeature()
		f.Name, f.MinVersionLevel, f.MaxVersionLevel = name, level, level
		resp.FinalizedFeatures = append(resp.FinalizedFeatures, f)
	}
	slices.SortFunc(resp.FinalizedFeatures, func(a, b kmsg.ApiVersionsResponseFinalizedFeature) int {
		return strings.Compare(a.Name, b.Name)
	})
	resp.FinalizedFeaturesEpoch = int64(img.Offset())
	return wire.Reply(resp)
}
