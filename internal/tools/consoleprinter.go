package tools

import (
	"bufio"
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// idleAfterError keeps a cluster that is away from being asked in a tight loop.
	idleAfterError = 50 * time.Millisecond
	// closeTimeout bounds the commit and the leave at the end.
	closeTimeout = 10 * time.Second
)

// A consolePrinter polls and prints for the console consumers, until it has enough, waits too long, nobody reads what it prints, or it
// is interrupted. All of it runs on its caller's goroutine.
type consolePrinter struct {
	env       Env
	cl        *kgo.Client
	formatter formatter
	logger    string        // who speaks in the log
	most      int64         // messages; -1: without end
	perPoll   int64         // messages that are taken from the client at once, and printed before output is flushed
	timeout   time.Duration // between messages
	fatal     func(kgo.Fetches) *javaError
	taken     func(fetches kgo.Fetches)         // before they are printed
	done      func(r *kgo.Record, refused bool) // after each; refused: it could not be shown
	goOn      string                            // what is said to be done with a message that cannot be shown; "": it ends the tool
	out       *bufio.Writer
	count     int64
}

// run polls and prints. Its error is that of a record that cannot be shown; whatever else ends it is logged.
func (c *consolePrinter) run(ctx context.Context) error {
	c.out = bufio.NewWriterSize(c.env.Stdout, 64<<10)
	defer c.out.Flush()
	deadline := time.Now().Add(c.timeout)
	for c.most < 0 || c.count < c.most {
		want := c.perPoll
		if c.most >= 0 {
			want = min(want, c.most-c.count)
		}
		poll, cancel := context.WithDeadline(ctx, deadline)
		fetches := c.cl.PollRecords(poll, int(want))
		late := poll.Err() != nil
		cancel()
		c.taken(fetches)
		if stop, err := c.print(fetches); stop || err != nil {
			return err
		}
		if fetches.NumRecords() > 0 {
			deadline = time.Now().Add(c.timeout)
		}
		fatal := c.fatal(fetches)
		switch {
		case ctx.Err() != nil:
			return nil
		case fatal != nil:
			c.terminate(fatal)
			return nil
		case fetches.NumRecords() > 0:
		case late:
			c.terminate(throw(kafkaErrors+"TimeoutException", ""))
			return nil
		case fetches.Err() != nil:
			time.Sleep(idleAfterError)
		}
	}
	return nil
}

// terminate says why it ends.
func (c *consolePrinter) terminate(e *javaError) {
	logLine(c.env.Stderr, "ERROR", "Error processing message, terminating consumer process: ", c.logger, e)
}

// print shows records. stop says that nobody reads the output any more.
func (c *consolePrinter) print(fetches kgo.Fetches) (stop bool, err error) {
	for r := range fetches.RecordsAll() {
		c.count++
		err := c.formatter.write(c.out, r)
		e, refused := err.(*javaError)
		c.done(r, refused)
		switch {
		case err == nil:
		case !refused: // the output, not the record
			return c.closed(), nil
		case c.goOn == "":
			return true, e
		default:
			c.out.Flush()
			logLine(c.env.Stderr, "ERROR", "Error processing message, "+c.goOn+" this message: ", c.logger, e)
		}
	}
	if c.out.Flush() != nil {
		return c.closed(), nil
	}
	return false, nil
}

func (c *consolePrinter) closed() bool {
	fmt.Fprintln(c.env.Stderr, "Unable to write to standard out, closing consumer.")
	return true
}
