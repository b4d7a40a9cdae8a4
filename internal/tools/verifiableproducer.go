package tools

import (
	"context"
	"encoding/json"
	"maps"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func verifiableProducerParser() *argParser {
	return &argParser{
		prog:         "verifiable-producer",
		description:  `This tool produces increasing integers to the specified topic and prints JSON metadata to stdout on each "send" request, making externally visible which messages have been acked and which have not.`,
		showDefaults: true,
		arguments: []*argument{
			{flags: []string{"--topic"}, metavar: "TOPIC", required: true, help: "Produce messages to this topic."},
			{flags: []string{"--max-messages"}, metavar: "MAX-MESSAGES", typ: "Integer", def: "-1", help: "Produce this many messages. If -1, produce messages until the process is killed externally."},
			{flags: []string{"--throughput"}, metavar: "THROUGHPUT", typ: "Integer", def: "-1", help: "If set >= 0, throttle maximum message throughput to *approximately* THROUGHPUT messages/sec."},
			{flags: []string{"--acks"}, metavar: "ACKS", typ: "Integer", def: "-1", choices: []string{"0", "1", "-1"}, help: "Acks required on each produced message. See Kafka docs on acks for details."},
			{flags: []string{"--producer.config"}, metavar: "CONFIG-FILE", help: "(DEPRECATED) Producer config properties file. This option will be removed in a future version. Use --command-config instead."},
			{flags: []string{"--message-create-time"}, typ: "Long", def: "-1", metavar: "CREATE-TIME", help: "Send messages with creation time starting at the arguments value, in milliseconds since epoch"},
			{flags: []string{"--value-prefix"}, metavar: "VALUE-PREFIX", typ: "Integer", help: "If specified, each produced value will have this prefix with a dot separator"},
			{flags: []string{"--repeating-keys"}, metavar: "REPEATING-KEYS", typ: "Integer", help: "If specified, each produced record will have a key starting at 0 increment by 1 up to the number specified (exclusive), then the key is set to 0 again"},
			{flags: []string{"--command-config"}, metavar: "CONFIG-FILE", help: clientConfigHelp},
			verifiableConnection("REQUIRED: " + brokerListHelp),
		},
	}
}

// kafkaVerifiableProducer is kafka-verifiable-producer.
func kafkaVerifiableProducer(env Env, args []string) int {
	return runVerifiable(env, args, verifiableProducerParser(), "producer.config", func(values *argValues, fromFile clientConfig) (int, error) {
		return verifiableProduce(env, values, fromFile)
	})
}

func verifiableProduce(env Env, values *argValues, fromFile clientConfig) (int, error) {
	props := clientConfig{"bootstrap.servers": values.text("bootstrap-server"), "acks": values.text("acks"), "retries": "0"}
	maps.Copy(props, fromFile)
	config, err := props.producer(env.Stderr, "producer-1")
	if err != nil {
		return 1, err
	}
	var opts []kgo.Opt
	if created, _ := values.number("message-create-time"); created >= 0 {
		opts = append(opts, kgo.RecordDeliveryTimeout(0)) // franz-go counts from the record's own time
	}
	cl, err := config.client(opts...)
	if err != nil {
		return 1, err
	}
	p := &verifiableProducer{eventWriter: eventWriter{env: env}, cl: cl, topic: values.text("topic"), producer: consoleProducer{env: env, config: config, cl: cl}}
	p.most, _ = values.number("max-messages")
	p.perSecond, _ = values.number("throughput")
	p.createTime, _ = values.number("message-create-time")
	p.keys, p.withKeys = values.number("repeating-keys")
	p.prefix = values.text("value-prefix")
	return p.run(), nil
}

// A verifiableProducer writes 0, 1, 2 and so on. Its callbacks count what was acknowledged.
type verifiableProducer struct {
	eventWriter
	cl         *kgo.Client
	producer   consoleProducer // whose checks before a send are Java's
	topic      string
	most       int64 // -1: until a signal
	perSecond  int64 // below 0: as fast as it goes
	createTime int64 // ms of the first; below 0: the clock's
	keys       int64
	withKeys   bool
	prefix     string

	sent  int64
	acked atomic.Int64
}

func (p *verifiableProducer) run() int {
	ctx, end := untilInterrupted(p.env)
	began := time.Now()
	p.write("startup_complete")
	for i := int64(0); (p.most < 0 || i < p.most) && ctx.Err() == nil; i++ {
		p.send(i, began)
		p.pace(ctx, began)
	}
	sig := end()
	closing, cancel := context.WithTimeout(context.Background(), closeTimeout)
	_ = p.cl.Flush(closing) // each failure is told by its record's callback
	cancel()
	p.cl.Close()
	p.write("shutdown_complete")
	average := 1000 * (float64(p.acked.Load()) / float64(max(1, time.Since(began).Milliseconds())))
	p.write("tool_data", field{"sent", p.sent}, field{"acked", p.acked.Load()}, field{"target_throughput", p.perSecond},
		field{"avg_throughput", json.RawMessage(javaFloat(average, 64))})
	if sig != nil {
		return signalCode(sig)
	}
	return 0
}

func (p *verifiableProducer) send(i int64, began time.Time) {
	r := &kgo.Record{Topic: p.topic, Value: strconv.AppendInt(nil, i, 10)}
	if p.prefix != "" {
		r.Value = append([]byte(p.prefix+"."), r.Value...)
	}
	if p.withKeys {
		r.Key = strconv.AppendInt(nil, i%max(p.keys, 1), 10)
	}
	if p.createTime >= 0 {
		r.Timestamp = time.UnixMilli(p.createTime + time.Since(began).Milliseconds())
	}
	p.sent++
	fail := func(err error) {
		e := p.producer.asJava(r, err)
		var message any = e.message
		if e.message == "" && !e.blank {
			message = nil
		}
		p.write("producer_send_error", field{"topic", r.Topic}, field{"key", nullable(r.Key)}, field{"value", nullable(r.Value)},
			field{"exception", "class " + e.class}, field{"message", message})
	}
	if err := p.producer.check(r); err != nil {
		fail(err)
		return
	}
	p.cl.Produce(context.Background(), r, func(r *kgo.Record, err error) {
		if err != nil {
			fail(err)
			return
		}
		p.acked.Add(1)
		p.write("producer_send_success", field{"key", nullable(r.Key)}, field{"value", nullable(r.Value)}, field{"offset", r.Offset},
			field{"topic", r.Topic}, field{"partition", r.Partition})
	})
}

// pace waits as long as the throughput asks for.
func (p *verifiableProducer) pace(ctx context.Context, began time.Time) {
	switch {
	case p.perSecond == 0: // nothing more is sent
		<-ctx.Done()
	case p.perSecond > 0:
		due := began.Add(time.Duration(float64(p.sent) / float64(p.perSecond) * float64(time.Second)))
		if wait := time.Until(due); wait > 0 {
			t := time.NewTimer(wait)
			defer t.Stop()
			select {
			case <-ctx.Done():
			case <-t.C:
			}
		}
	}
}
