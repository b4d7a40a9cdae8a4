// Members of groups of kafkajs, as ../README.md says: members.js BOOTSTRAP. Its mode is its round robin alone.
const { Kafka, logLevel } = require('kafkajs')

const say = line => process.stdout.write(line + '\n')
const members = new Map()

class Member {
  constructor(id, group, topic) {
    Object.assign(this, { id, topic })
    const kafka = new Kafka({ clientId: id, brokers: [process.argv[2]], logLevel: logLevel.NOTHING, retry: { initialRetryTime: 200, maxRetryTime: 2000, retries: 60 } })
    this.consumer = kafka.consumer({ groupId: group, sessionTimeout: 10000, heartbeatInterval: 1000, rebalanceTimeout: 30000, maxWaitTimeInMs: 200, retry: { initialRetryTime: 200, maxRetryTime: 2000, retries: 60 } })
    const { GROUP_JOIN, REBALANCING, CRASH } = this.consumer.events
    this.consumer.on(GROUP_JOIN, e => this.assigned(e.payload.memberAssignment[topic] || []))
    this.consumer.on(REBALANCING, () => this.assigned([]))
    this.consumer.on(CRASH, e => { if (!e.payload.restart) say(`${id} error ${e.payload.error}`) })
  }

  assigned(partitions) { say(`${this.id} assigned ${[...partitions].sort((a, b) => a - b).join(',') || '-'}`) }

  async join() {
    await this.consumer.connect()
    await this.consumer.subscribe({ topic: this.topic, fromBeginning: true })
    await this.consumer.run({ autoCommit: false, eachBatchAutoResolve: false, eachBatch: b => this.batch(b) })
  }

  async batch({ batch, resolveOffset, heartbeat, isRunning, isStale }) {
    if (!isRunning() || isStale()) return
    for (const m of batch.messages) say(`${this.id} read ${batch.partition} ${m.offset} ${m.value}`)
    const last = batch.messages[batch.messages.length - 1].offset
    const offset = String(Number(last) + 1)
    try {
      await this.consumer.commitOffsets([{ topic: this.topic, partition: batch.partition, offset }])
    } catch (e) {
      say(`${this.id} failed ${e.message}`)
      throw e
    }
    resolveOffset(last)
    say(`${this.id} committed ${batch.partition} ${offset}`)
    await heartbeat()
  }

  async leave() {
    await this.consumer.disconnect()
    say(`${this.id} left`)
  }
}

let ends = Promise.resolve()
const leave = id => {
  const m = members.get(id)
  members.delete(id)
  ends = Promise.all([ends, m.leave()])
}
require('readline').createInterface({ input: process.stdin }).on('line', line => {
  const [verb, id, group, topic] = line.split(' ')
  if (verb === 'join') {
    const m = new Member(id, group, topic)
    members.set(id, m)
    m.join().catch(e => say(`${id} error ${e}`))
  } else leave(id)
}).on('close', async () => {
  for (const id of [...members.keys()]) leave(id)
  await ends
  process.exit(0)
})
