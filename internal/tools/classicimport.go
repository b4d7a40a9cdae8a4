package tools

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/quire-log/quire/internal/classic"
	"github.com/quire-log/quire/internal/record"
	"github.com/quire-log/quire/internal/vfs"
)

// Headers of an imported record: they say where it was, and where an interrupted import goes on.
const (
	headerSource = "quire.classic.source" // the partition's name, such as my_topic_0
	headerOffset = "quire.classic.offset" // of the entry, in decimal
	headerIndex  = "quire.classic.index"  // of the message in a compressed entry, in decimal; others have none
)

const (
	// A batch is gathered up to so many bytes and records, then sent as a transaction, then waited for: it counts as a whole or not at
	// all, and nothing follows one that does not. A larger message is a batch of its own.
	importBatchBytes   = 900_000
	importBatchRecords = 50_000
	// importRecordMax is what the client takes; what a topic takes is the broker's to say.
	importRecordMax = 512 << 20
	// recordOverheadMax is what a record has at most besides its value and headers' texts.
	recordOverheadMax = 128

	// A topic that was just made may take a while to be known everywhere: it is asked for so often, after such pauses.
	importPause = 250 * time.Millisecond
	importTries = 40

	// The last record that an import wrote is looked for in so many of the last records, then in ever more.
	resumeWindow   = 1000
	resumeGrowth   = 10
	resumePatience = 10 * time.Second // without a record, where one is expected
)

func classicImport(env Env, args []string) int {
	f := newClassicFlags(env, "import", "DIR --topic T --bootstrap-server B [OPTION]...", "Produces every message of a log into a topic of today, in order, each with its old offset in a header. Partition n becomes\n"+
		"partition n. What an earlier run has imported is not imported again, however that ended: each batch is a transaction, and a run ends\nthe one before it that is under way still. Consumers read it with isolation.level=read_committed.\nIt stops at what is no valid entry.")
	topic := f.String("topic", "", "`TOPIC` to produce into; it is created if it is missing")
	server := f.String("bootstrap-server", "", "`HOST:PORT,...` to connect to")
	partition := f.Int32("partition", -1, "`N` of the topic's partition to produce into, of a single log (default: the one that the directory is named for)")
	f.Lookup("partition").DefValue = "0" // the text says the default
	skip := f.Bool("skip-invalid", false, "go on behind what is not valid; all of it is told on standard error")
	properties := f.String("command-config", "", "`FILE` of properties for the client")
	dir, code, ok := f.dir(args)
	if !ok {
		return code
	}
	if *topic == "" || *server == "" {
		return f.wrong(errors.New("--topic and --bootstrap-server are needed"))
	}
	complaints := &sharedWriter{w: env.Stderr}
	defer complaints.close()
	i := importer{env: env, complaints: complaints, name: f.name, topic: *topic, skip: *skip, config: clientConfig{}}
	if *properties != "" {
		read, err := loadProperties(*properties)
		if err != nil {
			return f.failed(err)
		}
		i.config = read
	}
	i.config["bootstrap.servers"] = *server
	logs, err := classicLogs(dir)
	if err != nil {
		return f.failed(err)
	}
	if *partition >= 0 && len(logs) > 1 {
		return f.wrong(fmt.Errorf("--partition is for one log, and %s holds %d", dir, len(logs)))
	}
	jobs, err := importJobs(logs, *partition)
	if err != nil {
		return f.failed(err)
	}
	// The first signal stops the run behind the batch that is under way; the second stops it at once, and that batch may count or not.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var abort context.CancelFunc
	i.sending, abort = context.WithCancel(context.Background())
	defer abort()
	signals, watched := env.interrupted(), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-signals:
			cancel()
		case <-ctx.Done():
		}
		select {
		case <-signals:
			abort()
		case <-i.sending.Done():
		}
	}()
	err = i.run(ctx, jobs)
	interrupted := ctx.Err() != nil
	cancel()
	abort()
	<-watched
	complaints.close()
	switch {
	case interrupted:
		fmt.Fprintf(env.Stderr, "%s: interrupted; run it again to go on\n", f.name)
		return 1
	case err != nil:
		return f.failed(err)
	case i.skipped > 0:
		fmt.Fprintf(env.Stderr, "%s: %d places were not valid and left out\n", f.name, i.skipped)
		return 1
	}
	return 0
}

// An importJob is a log and the partition that it goes to.
type importJob struct {
	classicLog
	partition int32
}

// importJobs decides where each log goes; partition is what was asked for, -1: nothing.
func importJobs(logs []classicLog, partition int32) ([]importJob, error) {
	var jobs []importJob
	topics := map[string]bool{}
	for _, l := range logs {
		to := l.tp.Partition
		if partition >= 0 {
			to = partition
		} else if l.tp == (classic.TopicPartition{}) {
			return nil, fmt.Errorf("%s: the name says no partition: --partition does", l.path)
		}
		topics[l.tp.Topic] = true
		jobs = append(jobs, importJob{l, to})
	}
	if len(topics) > 1 {
		return nil, fmt.Errorf("logs of several topics are here, and one topic to import them into: import each partition's directory, or a directory with one of them (%v)", slices.Sorted(maps.Keys(topics)))
	}
	return jobs, nil
}

// An importer is one run of import.
type importer struct {
	env Env
	// complaints is standard error, to which the clients' own goroutines write, too.
	complaints io.Writer
	name       string
	topic      string
	skip       bool
	config     clientConfig
	conn       []kgo.Opt
	sending    context.Context // of batches
	skipped    int
}

func (i *importer) run(ctx context.Context, jobs []importJob) (err error) {
	if i.conn, _, err = i.config.connection(i.complaints, "Producer", "quire-classic-import"); err != nil {
		return err
	}
	err = i.makeTopic(ctx, jobs)
	if errors.Is(err, kerr.TopicAlreadyExists) { // an interrupted run's request arrived after all
		err = i.makeTopic(ctx, jobs)
	}
	if err != nil {
		return err
	}
	for _, job := range jobs {
		if err := i.log(ctx, job); err != nil {
			return fmt.Errorf("%s: %w", job.name, err)
		}
	}
	return nil
}

// producerFor makes the client that imports a log. Its transactional id is the log's and the partition's, so that its start ends whatever
// an earlier run has left open: that run's last batch counts then or does not, and can no longer come.
func (i *importer) producerFor(ctx context.Context, job importJob) (*kgo.Client, error) {
	producer, err := kgo.NewClient(append(slices.Clone(i.conn),
		kgo.TransactionalID(fmt.Sprintf("quire-classic-import-%s-%d-%s", i.topic, job.partition, job.name)),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ManualFlushing(),
		kgo.ProducerBatchMaxBytes(importRecordMax),
		kgo.BrokerMaxWriteBytes(importRecordMax+1<<20),
		kgo.MaxBufferedBytes(2*importRecordMax),
		kgo.MaxBufferedRecords(2*importBatchRecords),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	)...)
	if err != nil {
		return nil, err
	}
	if _, _, err := producer.ProducerID(ctx); err != nil {
		producer.Close()
		return nil, fmt.Errorf("beginning transactions: %w", err)
	}
	return producer, nil
}

// makeTopic creates the topic, or looks whether it has the partitions that are needed. Its client remembers for a while that
// there was no such topic, and is used for nothing else.
func (i *importer) makeTopic(ctx context.Context, jobs []importJob) error {
	client, err := kgo.NewClient(i.conn...)
	if err != nil {
		return err
	}
	defer client.Close()
	admin := kadm.NewClient(client)
	needed := int32(0)
	for _, job := range jobs {
		needed = max(needed, job.partition+1)
	}
	details, err := admin.ListTopics(ctx, i.topic)
	if err != nil {
		return err
	}
	d := details[i.topic]
	switch {
	case errors.Is(d.Err, kerr.UnknownTopicOrPartition) || d.Topic == "":
		_, err := admin.CreateTopic(ctx, needed, -1, nil, i.topic)
		return err
	case d.Err != nil:
		return fmt.Errorf("topic %s: %w", i.topic, d.Err)
	case int32(len(d.Partitions)) < needed:
		return fmt.Errorf("topic %s has %d partitions, and %d are needed", i.topic, len(d.Partitions), needed)
	}
	return nil
}

// An importedAt is the place of the last message that is in the topic.
type importedAt struct {
	offset classic.Offset
	index  int // -1: the entry is not compressed
}

// log imports one log.
func (i *importer) log(ctx context.Context, job importJob) error {
	producer, err := i.producerFor(ctx, job)
	if err != nil {
		return err
	}
	defer producer.Close()
	last, found, err := i.lastImported(ctx, kadm.NewClient(producer), job)
	if err != nil {
		return fmt.Errorf("looking in %s, partition %d, for what is imported: %w", i.topic, job.partition, err)
	}
	s, err := classic.Scan(vfs.OS(), job.path)
	if err != nil {
		return err
	}
	defer s.Close()
	if found {
		s.SkipTo(last.offset)
	}
	bar := newImportBar(i.env.Stderr, job.name, s.Bytes())
	defer bar.end()
	b := importBatch{ctx: i.sending, producer: producer, topic: i.topic, partition: job.partition, source: job.name}
	for s.Next() {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		item := s.Item()
		bar.at(s.Done())
		if found && item.Offset < last.offset {
			continue
		}
		fault := item.Err
		if fault == nil && item.Entry == nil {
			fault = fmt.Errorf("the entry has %d bytes, too many for a record", item.Size)
		}
		if fault == nil {
			done := -1
			if found && item.Offset == last.offset {
				done = last.index + 1 // messages of this entry; of one that is not compressed, all
				if last.index < 0 {
					continue
				}
			}
			if fault, err = b.addEntry(item, done); err != nil {
				return err
			}
		}
		if fault != nil {
			if err := i.invalid(&b, item, fault); err != nil {
				return err
			}
		}
	}
	if err := errors.Join(s.Err(), b.send()); err != nil {
		return err
	}
	bar.end()
	note := ""
	if found {
		note = fmt.Sprintf(", after offset %d, where an earlier run ended", last.offset)
	}
	fmt.Fprintf(i.env.Stdout, "%s: imported %d messages into %s, partition %d%s\n", job.name, b.sent, i.topic, job.partition, note)
	return nil
}

// invalid is for what cannot be imported: it ends the import, behind all that came before, or is told.
func (i *importer) invalid(b *importBatch, item classic.Item, fault error) error {
	err := fmt.Errorf("%s: no valid entry at byte %d, offset %d: %w", item.File, item.Pos, item.Offset, fault)
	if i.skip {
		i.skipped++
		fmt.Fprintf(i.complaints, "%s: %s: %v\n", i.name, b.source, err)
		return nil
	}
	if e := b.send(); e != nil {
		return e
	}
	return fmt.Errorf("imported %d messages, then %w", b.sent, err)
}

// An importBatch is what is sent together.
type importBatch struct {
	ctx       context.Context // of sending
	producer  *kgo.Client
	topic     string
	partition int32
	source    string

	records []*kgo.Record
	bytes   int
	sent    int64
}

// addEntry adds the messages of an entry but those before number skip, and sends what is enough. Fault is what is wrong with the
// entry: what of it could be read is not added.
func (b *importBatch) addEntry(item classic.Item, skip int) (fault, err error) {
	codec, fault := item.Codec()
	if fault != nil {
		return fault, nil
	}
	var payloads [][]byte
	fault = item.Entry.Messages(classicInflateMax, func(p []byte) error {
		payloads = append(payloads, slices.Clone(p))
		return nil
	})
	if fault != nil {
		return fault, nil
	}
	for n, p := range payloads {
		if n < skip {
			continue
		}
		r := &kgo.Record{Topic: b.topic, Partition: b.partition, Value: p, Headers: []kgo.RecordHeader{
			{Key: headerSource, Value: []byte(b.source)},
			{Key: headerOffset, Value: strconv.AppendInt(nil, int64(item.Offset), 10)},
		}}
		if codec != record.None {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: headerIndex, Value: strconv.AppendInt(nil, int64(n), 10)})
		}
		size := recordOverheadMax + len(p)
		for _, h := range r.Headers {
			size += len(h.Key) + len(h.Value)
		}
		if b.bytes+size > importBatchBytes || len(b.records) >= importBatchRecords {
			if err := b.send(); err != nil {
				return nil, err
			}
		}
		b.records, b.bytes = append(b.records, r), b.bytes+size
	}
	return nil, nil
}

// send produces what was gathered as one transaction, and waits for it.
func (b *importBatch) send() error {
	if len(b.records) == 0 {
		return nil
	}
	if err := b.producer.BeginTransaction(); err != nil {
		return err
	}
	var first error
	for _, r := range b.records {
		b.producer.Produce(b.ctx, r, func(r *kgo.Record, err error) {
			if err != nil && first == nil { // promises are called one after the other
				at, _ := placeOf(r, b.source)
				first = fmt.Errorf("the message at offset %d was not taken: %w", at.offset, err)
			}
		})
	}
	if err := b.producer.Flush(b.ctx); err != nil { // else all promises were called
		return err
	}
	if first != nil {
		return errors.Join(first, b.producer.EndTransaction(b.ctx, kgo.TryAbort))
	}
	if err := endTransaction(b.ctx, b.producer, b.topic, kgo.TryCommit); err != nil {
		return fmt.Errorf("the transaction of %d messages, which may count or not: %w", len(b.records), err)
	}
	b.sent += int64(len(b.records))
	b.records, b.bytes = b.records[:0], 0
	return nil
}

// placeOf reads the headers of a record; false: it was not imported from source.
func placeOf(r *kgo.Record, source string) (at importedAt, ok bool) {
	at.index = -1
	ours := false
	for _, h := range r.Headers {
		switch h.Key {
		case headerSource:
			ours = string(h.Value) == source
		case headerOffset:
			n, err := strconv.ParseInt(string(h.Value), 10, 64)
			at.offset, ok = classic.Offset(n), err == nil
		case headerIndex:
			n, err := strconv.Atoi(string(h.Value))
			if err != nil {
				return at, false
			}
			at.index = n
		}
	}
	return at, ok && ours
}

// lastImported finds the last record of the job's source in its partition that counts. No other is on its way: see producerFor.
func (i *importer) lastImported(ctx context.Context, admin *kadm.Client, job importJob) (last importedAt, found bool, err error) {
	start, end, err := i.bounds(ctx, admin, job.partition)
	if err != nil {
		return last, false, err
	}
	to := end
	for window := int64(resumeWindow); !found && to > start; window *= resumeGrowth {
		from := max(start, to-window)
		if last, found, err = i.lastWithin(ctx, admin, job, from, to); err != nil {
			return last, false, err
		}
		to = from
	}
	return last, found, nil
}

// bounds asks where the partition begins, and where what counts in it ends. A topic that was just made may take a while to be known everywhere.
func (i *importer) bounds(ctx context.Context, admin *kadm.Client, partition int32) (start, end int64, err error) {
	for try := 0; ; try++ {
		if start, end, err = i.askBounds(ctx, admin, partition); err == nil || !kerr.IsRetriable(err) || try == importTries {
			return start, end, err
		}
		select {
		case <-ctx.Done():
			return 0, 0, ctx.Err()
		case <-time.After(importPause):
		}
	}
}

func (i *importer) askBounds(ctx context.Context, admin *kadm.Client, partition int32) (start, end int64, err error) {
	starts, err := admin.ListStartOffsets(ctx, i.topic)
	if err != nil {
		return 0, 0, err
	}
	ends, err := admin.ListCommittedOffsets(ctx, i.topic)
	if err != nil {
		return 0, 0, err
	}
	s, ok1 := starts.Lookup(i.topic, partition)
	e, ok2 := ends.Lookup(i.topic, partition)
	if err := cmp.Or(s.Err, e.Err); err != nil {
		return 0, 0, err
	}
	if !ok1 || !ok2 {
		return 0, 0, kerr.UnknownTopicOrPartition
	}
	return s.Offset, e.Offset, nil
}

// lastWithin finds the last record of the job's source among those from one offset up to another.
func (i *importer) lastWithin(ctx context.Context, admin *kadm.Client, job importJob, from, to int64) (last importedAt, found bool, err error) {
	consumer, err := kgo.NewClient(append(slices.Clone(i.conn),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{i.topic: {job.partition: kgo.NewOffset().At(from)}}),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), // which may be the last
	)...)
	if err != nil {
		return last, false, err
	}
	defer consumer.Close()
	silences := 0
	for next := from; next < to; {
		poll, cancel := context.WithTimeout(ctx, resumePatience)
		fetches := consumer.PollFetches(poll)
		silent := poll.Err() != nil && ctx.Err() == nil
		cancel()
		if ctx.Err() != nil {
			return last, false, ctx.Err()
		}
		if silent {
			// The last offsets may have no records any more, or the broker hangs; to begin too early would write records twice. So it
			// is asked for something else, and if it answers, once more for records.
			if silences++; silences > 1 {
				return last, found, nil
			}
			if _, _, err := i.bounds(ctx, admin, job.partition); err != nil {
				return last, false, err
			}
			continue
		}
		silences = 0
		if err := fetches.Err(); err != nil {
			return last, false, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset < to {
				if at, ok := placeOf(r, job.name); ok {
					last, found = at, true
				}
			}
			next = r.Offset + 1
		})
	}
	return last, found, nil
}
