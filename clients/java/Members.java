import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.StringDeserializer;

/** Members of groups, as README.md says: Members BOOTSTRAP. Modes: range, cooperative-sticky, consumer. */
public class Members {
    static void say(String line) {
        synchronized (System.out) {
            System.out.println(line);
            System.out.flush();
        }
    }

    /** A member is one consumer, on a thread of its own. */
    static class Member extends Thread implements ConsumerRebalanceListener {
        final String id, topic;
        final KafkaConsumer<byte[], String> consumer;
        final AtomicBoolean leaving = new AtomicBoolean();
        final Map<TopicPartition, OffsetAndMetadata> read = new HashMap<>(); // and not committed
        final TreeSet<Integer> assigned = new TreeSet<>();

        Member(String bootstrap, String id, String group, String topic, String mode) {
            this.id = id;
            this.topic = topic;
            Properties p = new Properties();
            p.put("bootstrap.servers", bootstrap);
            p.put("group.id", group);
            p.put("client.id", id);
            p.put("auto.offset.reset", "earliest");
            p.put("enable.auto.commit", "false");
            if (mode.equals("consumer")) p.put("group.protocol", "consumer");
            else {
                p.put("session.timeout.ms", "10000");
                p.put("heartbeat.interval.ms", "1000");
                p.put("partition.assignment.strategy", mode.equals("range")
                    ? "org.apache.kafka.clients.consumer.RangeAssignor" : "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
            }
            consumer = new KafkaConsumer<>(p, new ByteArrayDeserializer(), new StringDeserializer());
        }

        @Override public void run() {
            try (consumer) {
                consumer.subscribe(List.of(topic), this);
                while (!leaving.get()) {
                    for (var r : consumer.poll(Duration.ofMillis(200))) {
                        say(id + " read " + r.partition() + " " + r.offset() + " " + r.value());
                        read.put(new TopicPartition(topic, r.partition()), new OffsetAndMetadata(r.offset() + 1));
                    }
                    commit(read);
                }
                commit(read);
            } catch (Exception e) {
                say(id + " error " + e);
                return;
            }
            say(id + " left");
        }

        /** commit tries; what was not committed because the group changes is tried again after the next poll. */
        void commit(Map<TopicPartition, OffsetAndMetadata> positions) {
            if (positions.isEmpty()) return;
            positions = Map.copyOf(positions);
            try {
                consumer.commitSync(positions, Duration.ofSeconds(60));
            } catch (RebalanceInProgressException e) {
                say(id + " failed " + e);
                return;
            } catch (CommitFailedException e) {
                say(id + " failed " + e);
                read.keySet().removeAll(positions.keySet());
                return;
            }
            positions.forEach((tp, at) -> say(id + " committed " + tp.partition() + " " + at.offset()));
            read.keySet().removeAll(positions.keySet());
        }

        void assigned() {
            say(id + " assigned " + (assigned.isEmpty() ? "-" : assigned.stream().map(String::valueOf).collect(Collectors.joining(","))));
        }

        @Override public void onPartitionsAssigned(Collection<TopicPartition> ps) {
            ps.forEach(tp -> assigned.add(tp.partition()));
            assigned();
        }

        @Override public void onPartitionsRevoked(Collection<TopicPartition> ps) {
            Map<TopicPartition, OffsetAndMetadata> theirs = new HashMap<>(read);
            theirs.keySet().retainAll(ps);
            commit(theirs);
            onPartitionsLost(ps);
        }

        @Override public void onPartitionsLost(Collection<TopicPartition> ps) {
            read.keySet().removeAll(ps);
            ps.forEach(tp -> assigned.remove(tp.partition()));
            assigned();
        }
    }

    public static void main(String[] args) throws Exception {
        Map<String, Member> members = new ConcurrentHashMap<>();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] w = line.split(" ");
            if (w[0].equals("join")) {
                Member m = new Member(args[0], w[1], w[2], w[3], w[4]);
                members.put(w[1], m);
                m.start();
            } else members.get(w[1]).leaving.set(true);
        }
        for (Member m : members.values()) m.leaving.set(true);
        for (Member m : members.values()) m.join();
    }
}
