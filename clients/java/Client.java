import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Apache Kafka's Java clients: Client produce|consume BOOTSTRAP TOPIC CODEC COUNT; consume takes several TOPIC:COUNT as one run. */
public class Client {
    static final ObjectMapper json = new ObjectMapper();

    static byte[] bytes(JsonNode n) { return n.isNull() ? null : Base64.getDecoder().decode(n.asText()); }

    static String text(byte[] b) { return b == null ? null : Base64.getEncoder().encodeToString(b); }

    public static void main(String[] args) throws Exception {
        Properties p = new Properties();
        p.put("bootstrap.servers", args[1]);
        if (args[0].equals("produce")) {
            p.put("compression.type", args[3]);
            p.put("linger.ms", "50");
            try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer())) {
                List<Future<RecordMetadata>> sent = new ArrayList<>();
                for (JsonNode r : json.readTree(System.in)) {
                    List<Header> headers = new ArrayList<>();
                    for (JsonNode h : r.get("headers")) headers.add(new RecordHeader(h.get(0).asText(), bytes(h.get(1))));
                    sent.add(producer.send(new ProducerRecord<>(args[2], 0, bytes(r.get("key")), bytes(r.get("value")), headers)));
                }
                for (Future<RecordMetadata> f : sent) f.get();
            }
            return;
        }
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(p, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            TopicPartition tp = new TopicPartition(args[2], 0);
            consumer.assign(List.of(tp));
            consumer.seekToBeginning(List.of(tp));
            int left = Integer.parseInt(args[4]);
            for (long end = System.currentTimeMillis() + 30000; left > 0; ) {
                if (System.currentTimeMillis() > end) throw new IllegalStateException(left + " records did not come");
                for (var r : consumer.poll(Duration.ofMillis(500))) {
                    ObjectNode o = json.createObjectNode().put("key", text(r.key())).put("value", text(r.value()));
                    ArrayNode headers = o.putArray("headers");
                    for (Header h : r.headers()) headers.addArray().add(h.key()).add(text(h.value()));
                    System.out.println(o);
                    left--;
                }
            }
        }
    }
}
