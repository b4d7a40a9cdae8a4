import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.InvalidProducerEpochException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Java's transactional producer and read_committed consumer: Transactions BOOTSTRAP prints ok or FAIL a check. */
public class Transactions {
    static String bootstrap;
    static boolean failed;

    interface Check { void run() throws Exception; }

    static void check(String name, Check c) {
        try {
            c.run();
            System.out.println("ok   java transactions: " + name);
        } catch (Throwable e) {
            failed = true;
            System.out.println("FAIL java transactions: " + name + ": " + e);
        }
    }

    static void want(Object got, Object want) {
        if (!got.equals(want)) throw new IllegalStateException("got " + got + ", want " + want);
    }

    static KafkaProducer<String, String> producer(String id) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("transactional.id", id);
        p.put("max.block.ms", "120000");
        KafkaProducer<String, String> producer = new KafkaProducer<>(p, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    static KafkaConsumer<String, String> consumer(String isolation, String group, String protocol) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("isolation.level", isolation);
        p.put("enable.auto.commit", "false");
        p.put("auto.offset.reset", "earliest");
        if (group != null) p.put("group.id", group);
        p.put("group.protocol", protocol);
        return new KafkaConsumer<>(p, new StringDeserializer(), new StringDeserializer());
    }

    /** read is all values of a topic's partition as one isolation level sees them now. */
    static List<String> read(String topic, String isolation) {
        List<String> values = new ArrayList<>();
        TopicPartition tp = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> c = consumer(isolation, null, "classic")) {
            c.assign(List.of(tp));
            c.seekToBeginning(List.of(tp));
            long end = c.endOffsets(List.of(tp), Duration.ofMinutes(1)).get(tp);
            for (long by = System.currentTimeMillis() + 120000; c.position(tp, Duration.ofMinutes(1)) < end; ) {
                if (System.currentTimeMillis() > by) throw new IllegalStateException("at " + c.position(tp) + " of " + end);
                for (var r : c.poll(Duration.ofMillis(200))) values.add(r.value());
            }
        }
        return values;
    }

    static void send(KafkaProducer<String, String> p, String topic, String... values) {
        for (String v : values) p.send(new ProducerRecord<>(topic, 0, null, v));
    }

    static void topic(Admin admin, String name) throws Exception { admin.createTopics(List.of(new NewTopic(name, 1, (short) 1))).all().get(); }

    /** pipe reads a topic in a group, writes what it read elsewhere, and commits its place in the same transaction. */
    static void pipe(String protocol) throws Exception {
        String in = "pipe-in-" + protocol, out = "pipe-out-" + protocol, group = "pipe-" + protocol;
        TopicPartition tp = new TopicPartition(in, 0);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", (Object) bootstrap)); KafkaProducer<String, String> p = producer("piper-" + protocol)) {
            topic(admin, in);
            topic(admin, out);
            p.beginTransaction();
            send(p, in, "1", "2", "3");
            p.commitTransaction();
            boolean[] rounds = {false, true}; // the first one aborts, so the second reads the same again
            for (boolean commits : rounds) {
                try (KafkaConsumer<String, String> c = consumer("read_committed", group, protocol)) {
                    c.subscribe(List.of(in));
                    List<String> got = new ArrayList<>();
                    p.beginTransaction();
                    for (long by = System.currentTimeMillis() + 120000; got.size() < 3; ) {
                        if (System.currentTimeMillis() > by) throw new IllegalStateException("read " + got);
                        for (var r : c.poll(Duration.ofMillis(200))) {
                            got.add(r.value());
                            send(p, out, r.value() + "!");
                        }
                    }
                    want(got, List.of("1", "2", "3"));
                    p.flush(); // of what still lingers an abort sends nothing
                    p.sendOffsetsToTransaction(Map.of(tp, new OffsetAndMetadata(c.position(tp))), c.groupMetadata());
                    if (commits) p.commitTransaction(); else p.abortTransaction();
                }
                Map<TopicPartition, OffsetAndMetadata> at = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
                want(at.get(tp) == null ? -1L : at.get(tp).offset(), commits ? 4L : -1L); // three records and the marker
            }
        }
        want(read(out, "read_committed"), List.of("1!", "2!", "3!"));
        want(read(out, "read_uncommitted"), List.of("1!", "2!", "3!", "1!", "2!", "3!"));
    }

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", (Object) bootstrap))) {
            topic(admin, "transactions");
            topic(admin, "fencing");
        }
        try (KafkaProducer<String, String> p = producer("one")) {
            check("what is committed is read", () -> {
                p.beginTransaction();
                send(p, "transactions", "a", "b");
                p.commitTransaction();
                want(read("transactions", "read_committed"), List.of("a", "b"));
            });
            check("what is aborted is not", () -> {
                p.beginTransaction();
                send(p, "transactions", "c");
                p.flush();
                p.abortTransaction();
                want(read("transactions", "read_committed"), List.of("a", "b"));
                want(read("transactions", "read_uncommitted"), List.of("a", "b", "c"));
            });
            check("what is open is not yet, nor what comes after it", () -> {
                p.beginTransaction();
                send(p, "transactions", "d");
                p.flush();
                try (KafkaProducer<String, String> other = producer("other")) {
                    other.beginTransaction();
                    send(other, "transactions", "e");
                    other.commitTransaction();
                }
                want(read("transactions", "read_committed"), List.of("a", "b"));
                p.commitTransaction();
                want(read("transactions", "read_committed"), List.of("a", "b", "d", "e"));
            });
        }
        check("a producer is fenced by the next one of its id", () -> {
            try (KafkaProducer<String, String> old = producer("fenced")) {
                old.beginTransaction();
                send(old, "fencing", "lost");
                old.flush();
                try (KafkaProducer<String, String> next = producer("fenced")) {
                    try {
                        send(old, "fencing", "late");
                        old.commitTransaction();
                        throw new IllegalStateException("the old one committed");
                    } catch (ProducerFencedException | InvalidProducerEpochException e) {
                        // as it must be
                    }
                    next.beginTransaction();
                    send(next, "fencing", "kept");
                    next.commitTransaction();
                }
                want(read("fencing", "read_committed"), List.of("kept"));
            }
        });
        for (String protocol : new String[] {"classic", "consumer"})
            check("offsets within a transaction, group protocol " + protocol, () -> pipe(protocol));
        System.exit(failed ? 1 : 0);
    }
}
