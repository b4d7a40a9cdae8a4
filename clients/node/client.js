// kafkajs: client.js produce|consume BOOTSTRAP TOPIC CODEC COUNT. It reads through kafkajs's own broker class, since
// its consumer always joins a group.
const { Kafka, CompressionTypes, CompressionCodecs, logLevel } = require('kafkajs')
const Cluster = require('kafkajs/src/cluster')
const { createLogger } = require('kafkajs/src/loggers')
const LoggerConsole = require('kafkajs/src/loggers/console')
const createSocketFactory = require('kafkajs/src/network/socketFactory')
CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy')

const [verb, bootstrap, topic, codec, count] = process.argv.slice(2)
const bytes = s => (s === null ? null : Buffer.from(s, 'base64'))
const text = b => (b === null || b === undefined ? null : Buffer.from(b).toString('base64'))

async function produce() {
  const records = JSON.parse(require('fs').readFileSync(0))
  const kafka = new Kafka({ clientId: 'kafkajs', brokers: [bootstrap], logLevel: logLevel.ERROR })
  const producer = kafka.producer({ idempotent: codec === 'none' })
  await producer.connect()
  const headers = list => list.reduce((h, [n, v]) => {
    h[n] = n in h ? [].concat(h[n], bytes(v)) : bytes(v)
    return h
  }, {})
  await producer.send({
    topic,
    compression: { none: CompressionTypes.None, gzip: CompressionTypes.GZIP, snappy: CompressionTypes.Snappy }[codec],
    messages: records.map(r => ({ key: bytes(r.key), value: bytes(r.value), headers: headers(r.headers), partition: 0 })),
  })
  await producer.disconnect()
}

async function consume() {
  const cluster = new Cluster({
    brokers: [bootstrap],
    clientId: 'kafkajs',
    socketFactory: createSocketFactory(),
    logger: createLogger({ level: logLevel.ERROR, logCreator: LoggerConsole }),
    connectionTimeout: 10000,
    requestTimeout: 30000,
    retry: { retries: 5 },
  })
  await cluster.connect()
  await cluster.addTargetTopic(topic)
  const [{ leader }] = cluster.findTopicPartitionMetadata(topic)
  const broker = await cluster.findBroker({ nodeId: String(leader) })
  for (let offset = 0, n = 0; n < Number(count); ) {
    const { responses } = await broker.fetch({ maxWaitTime: 1000, minBytes: 1, maxBytes: 1 << 20, topics: [{ topic, partitions: [{ partition: 0, fetchOffset: offset, maxBytes: 1 << 20 }] }], isolationLevel: 1 })
    const { messages } = responses[0].partitions[0]
    for (const m of messages) {
      if (Number(m.offset) < offset) continue
      const headers = []
      for (const [name, v] of Object.entries(m.headers)) for (const one of Array.isArray(v) ? v : [v]) headers.push([name, text(one)])
      console.log(JSON.stringify({ key: text(m.key), value: text(m.value), headers }))
      offset = Number(m.offset) + 1
      n++
    }
  }
  await cluster.disconnect()
}

;(verb === 'produce' ? produce() : consume()).catch(e => {
  console.error(e)
  process.exit(1)
})
