package tools

import (
	"context"
	"net"
)

// netDialer returns how to open a connection, with the buffers of its socket of the sizes that send.buffer.bytes and
// receive.buffer.bytes ask for. Unless they are set the sizes are the kernel's, which lets them grow as a connection needs it; Java's
// clients always set them, which takes that from the kernel.
func (c clientConfig) netDialer() (dialFunc, error) {
	const kernels = -1
	send, err := c.atLeast("send.buffer.bytes", 32, kernels, kernels)
	if err != nil {
		return nil, err
	}
	receive, err := c.atLeast("receive.buffer.bytes", 32, kernels, kernels)
	if err != nil {
		return nil, err
	}
	dial := (&net.Dialer{Timeout: dialTimeout}).DialContext
	if send == kernels && receive == kernels {
		return dial, nil
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		if tcp, ok := conn.(*net.TCPConn); ok {
			if send != kernels && err == nil {
				err = tcp.SetWriteBuffer(int(send))
			}
			if receive != kernels && err == nil {
				err = tcp.SetReadBuffer(int(receive))
			}
		}
		if err != nil {
			_ = conn.Close()
			return nil, err
		}
		return conn, nil
	}, nil
}
