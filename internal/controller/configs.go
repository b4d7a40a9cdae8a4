package controller

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (c *Controller) AlterConfigs(ctx context.Context, r *kmsg.AlterConfigsRequest) *kmsg.AlterConfigsResponse {
	panic("unwritten")
}
func (c *Controller) IncrementalAlterConfigs(ctx context.Context, r *kmsg.IncrementalAlterConfigsRequest) *kmsg.IncrementalAlterConfigsResponse {
	panic("unwritten")
}
