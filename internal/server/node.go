package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quire-log/quire/internal/config"
	"github.com/quire-log/quire/internal/controller"
	"github.com/quire-log/quire/internal/kmeta"
	"github.com/quire-log/quire/internal/metadata"
	"github.com/quire-log/quire/internal/replica"
	"github.com/quire-log/quire/internal/storage"
	"github.com/quire-log/quire/internal/vfs"
	"github.com/quire-log/quire/internal/wire"
)

// Options of a node. Properties are those of server.properties; what they leave out makes a whole node on ./data at 127.0.0.1:9092.
type Options struct {
	Properties map[string]string
	FS         vfs.FS // nil: the operating system's
	Log        *slog.Logger
	// Listen replaces net.Listen, for tests.
	Listen func(network, address string) (net.Listener, error)
}

// A Node is a running broker. Its handlers are methods in files by family: produce.go, fetch.go, listoffsets.go, producerid.go, metadata.go, topics.go, configs.go, …
type Node struct {
	id         int32
	clusterID  string
	log        *slog.Logger
	loggers    *loggers
	options    Options
	static     map[string]string // server.properties, with defaults
	logs       *storage.Manager
	replicas   *replica.Manager
	controller *controller.Controller
	wire       *wire.Server

	configs     logConfigs
	served      []api
	listeners   []*listener
	admin       *admin // nil: none was asked for
	metrics     *metrics
	events      storage.EventRing
	brokerEpoch int64
	autoCreate  bool // auto.create.topics.enable
	describeMax int  // max.request.partition.size.limit

	fetchSessions *fetchSessions
	fetchMaxBytes int32 // fetch.max.bytes
	producerIDs   *producerIDs

	groups       *shards[*groupMachine]
	groupEvents  groupEvents
	transactions *transactions
	notCreated   atomic.Pointer[string] // why a coordinator's topic was not created, last

	// newest is the image that replicas are being made to follow: logs get their settings by it, before clients see it.
	newest    atomic.Pointer[metadata.Image]
	following atomic.Bool // replicas follow the controller's images: not before logs are loaded
	ready     atomic.Bool // clients are served
	serving   sync.WaitGroup
	stopOnce  sync.Once
	stopErr   error
}

// Start returns a node that serves. On the way it opens, in this order: the data directories (locked), the metadata log, the
// partitions' logs, the replicas; then the broker is unfenced, and only when all that it leads takes a produce do listeners accept (I3).
func Start(ctx context.Context, o Options) (_ *Node, err error) {
	if o.FS == nil {
		o.FS = vfs.OS()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Listen == nil {
		o.Listen = net.Listen
	}
	loggers := newLoggers(o.Log)
	n := &Node{options: o, log: loggers.named(loggerServer), loggers: loggers, static: config.Complete(o.Properties)}
	n.configs.node = n
	defer func() {
		if err != nil {
			n.abort()
		}
	}()
	warnings, err := config.CheckStatic(o.Properties)
	for _, w := range warnings {
		n.log.Warn(w)
	}
	if err != nil {
		return nil, err
	}
	if n.listeners, err = parseListeners(n.static); err != nil {
		return nil, err
	}
	if err := n.prepareLogins(); err != nil {
		return nil, err
	}
	if err := n.reservePorts(); err != nil {
		return nil, err
	}
	n.autoCreate = n.value("auto.create.topics.enable").Bool()
	n.describeMax = int(n.value("max.request.partition.size.limit").Int64())

	if err := n.openLogs(); err != nil {
		return nil, err
	}
	n.replicas = replica.NewManager(replica.Options{
		NodeID: n.id, Logs: n.logs, ConfigFor: n.configs.of, MinISR: n.minISR, Log: loggers.named(loggerReplica),
	})
	if err := n.openController(); err != nil {
		return nil, err
	}
	if err := n.register(ctx); err != nil {
		return nil, err
	}
	if err := n.lead(ctx); err != nil {
		return nil, err
	}
	n.logs.Start()
	n.coordinate(n.controller.Image())
	if err := n.listen(); err != nil {
		return nil, err
	}
	return n, nil
}

// value resolves a broker option by the file alone.
func (n *Node) value(key string) config.Value {
	o, ok := config.Lookup(config.Broker(), key)
	if !ok {
		panic("no broker option " + key)
	}
	return config.BrokerValue(o, config.Layers{Static: n.static})
}

// reservePorts finds out early that a port is taken, before anything is recovered or written. A port that the system chooses is bound
// for good, since the node's registration names it.
func (n *Node) reservePorts() error {
	for _, l := range n.listeners {
		if l.controller {
			n.log.Info("the controllers' listener is not opened: a single node is its own quorum", "listener", l.name, "address", l.address())
			continue
		}
		if err := l.bind(n.options.Listen); err != nil {
			return err
		}
		if l.dynamic {
			continue
		}
		// Until the node is ready a client had better be refused than kept waiting.
		l.bound.Close()
		l.bound = nil
	}
	return nil
}

// openLogs locks the data directories, formats what is empty, and reads them.
func (n *Node) openLogs() error {
	dirs := splitList(n.static["log.dirs"])
	if len(dirs) == 0 {
		dirs = splitList(n.static["log.dir"])
	}
	if len(dirs) == 0 {
		return errors.New("at least one log directory must be defined via log.dirs or log.dir")
	}
	for i := range dirs {
		dirs[i] = path.Clean(dirs[i])
	}
	metadataDir := dirs[0]
	if dir := n.static["metadata.log.dir"]; dir != "" {
		metadataDir = path.Clean(dir)
	}
	all := dirs
	if !slices.Contains(dirs, metadataDir) {
		all = append(slices.Clone(dirs), metadataDir)
	}
	nodeID := int32(-1)
	if id := n.value("node.id"); !id.Null {
		nodeID = int32(id.Int64())
	}
	// Locked before anything is looked at: of two nodes that are started at once one alone may format.
	locks, err := storage.LockDirs(n.options.FS, all)
	if err != nil {
		return err
	}
	defer locks.Close()
	meta, err := n.format(n.options.FS, all, nodeID)
	if err != nil {
		return err
	}
	n.id, n.clusterID = meta.NodeID, meta.ClusterID
	if voters := splitList(n.static["controller.quorum.voters"]); len(voters) == 1 && !strings.HasPrefix(voters[0], itoa(int(n.id))+"@") {
		return fmt.Errorf("controller.quorum.voters=%s: this node, %d, is not among the voters", voters[0], n.id)
	}
	n.static["node.id"], n.static["broker.id"] = itoa(int(n.id)), itoa(int(n.id))
	ms := func(key string) int64 { return n.value(key).Int64() }
	n.logs, err = storage.OpenManager(storage.ManagerOptions{
		FS: n.options.FS, Dirs: dirs, MetadataDir: metadataDir, Locks: locks, NodeID: n.id, ClusterID: n.clusterID, MetadataRequired: true,
		RecoveryThreads:           int(ms("num.recovery.threads.per.data.dir")),
		FlushCheckpointMs:         ms("log.flush.offset.checkpoint.interval.ms"),
		LogStartCheckpointMs:      ms("log.flush.start.offset.checkpoint.interval.ms"),
		HighWatermarkCheckpointMs: ms("replica.high.watermark.checkpoint.interval.ms"),
		FlushSchedulerMs:          ms("log.flush.scheduler.interval.ms"),
		RetentionCheckMs:          ms("log.retention.check.interval.ms"),
		InitialTaskDelayMs:        ms("log.initial.task.delay.ms"),
		ProducerExpirationCheckMs: ms("producer.id.expiration.check.interval.ms"),
		SegmentDeleteDelayMs:      ms("log.segment.delete.delay.ms"),
		Cleaner:                   cleanerConfig(config.Layers{Static: n.static}),
		DiskPercent:               n.value("retention.disk.percent").Float(),
		Disk: storage.DiskOptions{
			WatermarkBytes: ms("disk.watermark.bytes"), ReserveBytes: ms("disk.reserve.bytes"), CheckMs: ms("disk.check.interval.ms"),
		},
		ConfigFor: func(topic string) storage.Config { return n.configs.of(n.newest.Load(), topic) },
		Events:    n.event,
		Returned:  n.takeBack,
		Log:       n.loggers.named(loggerStorage),
		HighWatermark: func(tp storage.TopicPartition) (storage.Offset, bool) {
			if n.replicas == nil { // a start that failed, before there were any
				return 0, false
			}
			return n.replicas.HighWatermark(tp)
		},
	})
	return err
}

// event tells what storage decided about somebody's data.
func (n *Node) event(e storage.Event) {
	n.events.Add(e)
	if e.Partition.Topic == "" { // of a directory: storage says it with more
		return
	}
	level := slog.LevelInfo
	switch e.Kind {
	case "roll", "scan": // no more than what a log does all day, and at every start after a kill
		level = slog.LevelDebug
	case "future-timestamp":
		level = slog.LevelWarn
	case "recover":
		if e.Partition == storage.MetadataPartition { // whatever it lost is lost to every client
			level = slog.LevelWarn
		}
	}
	n.loggers.named(loggerStorage).Log(context.Background(), level, e.Kind, "partition", e.Partition.String(), "offset", e.Offset, "cause", e.Cause)
}

// openController opens the metadata log and begins this node's reign over it.
func (n *Node) openController() error {
	c := storage.DefaultConfig()
	c.SegmentBytes = int32(n.value("metadata.log.segment.bytes").Int64())
	c.SegmentMs = n.value("metadata.log.segment.ms").Int64()
	c.MaxMessageBytes = 8 << 20
	c.RetentionMs, c.RetentionBytes = -1, -1 // its start moves with snapshots alone
	log, err := n.logs.MetadataLog(c)
	if err != nil {
		return err
	}
	var bootstrap []kmeta.Record
	if log.EndOffset() == 0 {
		if bootstrap, err = n.readBootstrap(path.Dir(log.Dir())); err != nil {
			return err
		}
	}
	n.controller, err = controller.Open(controller.Options{
		NodeID: n.id, ClusterID: n.clusterID, FS: n.options.FS, Log: log, Dir: log.Dir(),
		Bootstrap: bootstrap, Static: n.static, Logger: n.loggers.named(loggerController),
		Apply: func(img *metadata.Image, d *metadata.Delta) error {
			if !n.following.Load() {
				return nil // lead applies all at once
			}
			n.newest.Store(img)
			n.followConfigs(img, d)
			if err := n.replicas.Apply(img, d); err != nil {
				return err
			}
			for _, t := range d.Created {
				n.log.Info("topic created", "topic", t.Name, "partitions", len(t.Partitions), "age", n.logs.AgeBoundsFor(n.configs.of(img, t.Name)).Says)
			}
			n.followCoordinators(img, d)
			return nil
		},
	})
	return err
}

// register says who this node is. Its broker stays fenced until the logs are loaded.
func (n *Node) register(ctx context.Context) (err error) {
	r := controller.Registration{BrokerID: n.id, PreviousEpoch: n.logs.PreviousBrokerEpoch()}
	for _, l := range n.listeners {
		if l.controller {
			r.ControllerEndpoints = append(r.ControllerEndpoints, l.endpoint())
		} else {
			r.Endpoints = append(r.Endpoints, l.endpoint())
		}
	}
	if rack := n.value("broker.rack"); !rack.Null {
		r.Rack = &rack.Text
	}
	r.Directories = n.usableDirectories()
	n.brokerEpoch, err = n.controller.Register(ctx, r)
	return err
}

func (n *Node) usableDirectories() (ids []kmeta.UUID) {
	for _, d := range n.logs.Dirs() {
		if d.Err == nil {
			ids = append(ids, kmeta.UUID(d.ID))
		}
	}
	return ids
}

// takeBack has partitions serve again whose logs were taken back. One of a directory that could not be read at the start makes that known,
// one whose log has lost records begins a new leader epoch, by which consumers and followers see that.
func (n *Node) takeBack() {
	if err := n.controller.AddDirectories(context.Background(), n.id, n.usableDirectories()); err != nil && !errors.Is(err, controller.ErrClosed) {
		n.log.Error("a data directory that came back was not registered", "error", err)
	}
	var shorter []controller.TopicPartition
	for _, p := range n.replicas.Shorter() {
		n.log.Warn("a log came back shorter than it was: its partition is led in a new epoch", "partition", p.TopicPartition().String(), "was", int64(p.Log().EndOffset()))
		shorter = append(shorter, controller.TopicPartition{TopicID: p.TopicID(), Partition: p.TopicPartition().Partition})
	}
	if len(shorter) > 0 {
		if err := n.controller.RaiseLeaderEpochs(context.Background(), n.id, shorter); err != nil && !errors.Is(err, controller.ErrClosed) {
			// They serve nevertheless: nobody but a client that asks for the end of an epoch is told less than the truth.
			n.log.Error("leader epochs of partitions that lost records were not raised", "error", err)
		}
	}
	n.replicas.Retake()
}

// lead loads the logs of the partitions that metadata gives this node, unfences the broker, and takes the leadership that follows.
func (n *Node) lead(ctx context.Context) error {
	img := n.controller.Image()
	n.newest.Store(img)
	err := n.logs.LoadLogs(ctx, func(tp storage.TopicPartition, id storage.TopicID) bool {
		t := n.newest.Load().Topic(tp.Topic)
		return t != nil && storage.TopicID(t.ID) == id && tp.Partition >= 0 && int(tp.Partition) < len(t.Partitions) &&
			slices.Contains(t.Partitions[tp.Partition].Replicas, n.id)
	})
	if err != nil {
		return err
	}
	if err := n.controller.Unfence(ctx, n.id); err != nil {
		return err
	}
	img = n.controller.Image()
	n.newest.Store(img)
	n.following.Store(true)
	n.followStorage(img)
	n.replicas.Load(img)
	return nil
}

// listen opens the listeners, and from then on clients are served.
func (n *Node) listen() (err error) {
	n.metrics = newMetrics(n)
	n.fetchSessions = newFetchSessions(int(n.value("max.incremental.fetch.session.cache.slots").Int64()))
	n.fetchMaxBytes = int32(n.value("fetch.max.bytes").Int64())
	n.producerIDs = newProducerIDs(func(ctx context.Context) (int64, int32, error) {
		return n.controller.AllocateProducerIDs(ctx, n.id, n.brokerEpoch)
	})
	n.served = n.apis()
	n.wire = wire.NewServer(n.table(), wire.Limits{
		RequestBytesMax: int32(n.value("socket.request.max.bytes").Int64()),
		IdleMax:         time.Duration(n.value("connections.max.idle.ms").Int64()) * time.Millisecond,
	}, n.loggers.named(loggerWire))
	n.limitConnections(n.controller.Image())
	if n.admin, err = startAdmin(n); err != nil {
		return err
	}
	for _, l := range n.listeners {
		if l.controller {
			continue
		}
		if err := l.bind(n.options.Listen); err != nil {
			return err
		}
	}
	for _, l := range n.listeners {
		if l.controller {
			continue
		}
		n.serving.Go(func() {
			if err := n.wire.Serve(wire.Listener{Name: l.name, Listener: l.bound, Login: l.login}); err != nil {
				n.log.Error("a listener ended", "listener", l.name, "error", err)
			}
		})
		n.log.Info("serving", "listener", l.name, "protocol", l.protocol, "address", l.bound.Addr().String(), "node", n.id, "cluster", n.clusterID)
	}
	n.ready.Store(true)
	return nil
}

func (n *Node) listenerNamed(name string) *listener {
	for _, l := range n.listeners {
		if l.name == name && !l.controller {
			return l
		}
	}
	return nil
}

// Addr is the address of the first listener that clients use, with its port as it came to be. Of a listener on all addresses it is
// the one that reaches it from this machine.
func (n *Node) Addr() string {
	for _, l := range n.listeners {
		if l.controller {
			continue
		}
		host, port := splitAddr(l.bound.Addr())
		if wildcard(host) {
			host = "localhost"
		}
		return net.JoinHostPort(host, itoa(int(port)))
	}
	return ""
}

// Close stops cleanly: listeners, requests, leadership, logs, checkpoints, clean mark. Abort stops at once, writing nothing.
// Requests that still run when ctx ends lose their connection. Of Close and Abort the first counts.
func (n *Node) Close(ctx context.Context) error {
	n.stopOnce.Do(func() {
		n.ready.Store(false)
		n.admin.close()
		var errs []error
		n.stopCoordinators() // what clients wait for long is answered, so that they look elsewhere
		if err := n.wire.Shutdown(ctx); err != nil {
			n.log.Warn("connections were cut", "error", err)
		}
		n.serving.Wait()
		// The rest must not be cut short by ctx: it is what makes the next start a clean one.
		ctx := context.WithoutCancel(ctx)
		errs = append(errs, n.controller.ControlledShutdown(ctx, n.id), n.controller.Close())
		n.replicas.Close()
		errs = append(errs, n.logs.Close(n.brokerEpoch))
		n.stopErr = errors.Join(errs...)
	})
	return n.stopErr
}

// Abort stops at once, as a kill would, but leaves no goroutine.
func (n *Node) Abort() { n.stopOnce.Do(n.abort) }

// abort ends what has been started, be it a whole node or part of one.
func (n *Node) abort() {
	n.ready.Store(false)
	n.admin.close()
	n.stopCoordinators()
	if n.wire != nil {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		n.wire.Shutdown(now)
	}
	n.serving.Wait()
	for _, l := range n.listeners {
		if l.bound != nil {
			l.bound.Close() // bound, and perhaps never served
		}
	}
	if n.controller != nil {
		n.controller.Close()
	}
	if n.replicas != nil {
		n.replicas.Close()
	}
	if n.logs != nil {
		n.logs.Abort()
	}
}
