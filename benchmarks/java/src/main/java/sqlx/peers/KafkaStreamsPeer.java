package sqlx.peers;

import java.nio.ByteBuffer;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.Properties;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.LongSerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Joined;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * A KStream joined with a versioned KTable (KIP-914) in RocksDB. It runs in Kafka's own driver for tests: one thread,
 * without a broker, without a changelog and without a network, all of which a deployment pays for besides.
 */
final class KafkaStreamsPeer implements Peers.Peer {
    @Override
    public long run(String left, String right, long retentionMs, Path work) throws Exception {
        StreamsBuilder builder = new StreamsBuilder();
        KTable<Long, byte[]> rates = builder.table(
            "rates",
            Consumed.with(Serdes.Long(), Serdes.ByteArray()),
            Materialized.<Long, byte[]>as(
                    Stores.persistentVersionedKeyValueStore("rates", Duration.ofMillis(retentionMs)))
                .withKeySerde(Serdes.Long()).withValueSerde(Serdes.ByteArray()).withLoggingDisabled());
        long[] found = new long[3];
        builder.stream("orders", Consumed.with(Serdes.Long(), Serdes.ByteArray()))
            .leftJoin(rates, KafkaStreamsPeer::joined, Joined.with(Serdes.Long(), Serdes.ByteArray(), Serdes.ByteArray()))
            .foreach((key, row) -> {
                boolean matched = row[1] != 0;
                found[0]++;
                found[1] += matched ? 1 : 0;
                found[2] += Rows.Answer.of(row[0], row[1]);
            });
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "peer");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nobody:9092");
        settings.put(StreamsConfig.STATE_DIR_CONFIG, work.toString());
        try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), settings, Instant.EPOCH)) {
            TestInputTopic<Long, byte[]> orders = topic(driver, "orders");
            TestInputTopic<Long, byte[]> versions = topic(driver, "rates");
            feed(Rows.of(left), Rows.of(right), orders, versions);
            Rows.Answer.add(found[0], found[1], found[2]);
            return Peers.bytes(work);
        }
    }

    private static TestInputTopic<Long, byte[]> topic(TopologyTestDriver driver, String name) {
        return driver.createInputTopic(name, new LongSerializer(), new ByteArraySerializer());
    }

    private static long[] joined(byte[] order, byte[] rate) {
        return new long[] {ByteBuffer.wrap(order).getLong(), rate == null ? 0 : ByteBuffer.wrap(rate).getLong()};
    }

    /** Both sides in the order of event time. */
    private static void feed(
            Rows left, Rows right, TestInputTopic<Long, byte[]> orders, TestInputTopic<Long, byte[]> rates) {
        long l = 0;
        long r = 0;
        while (l < left.count() || r < right.count()) {
            boolean isRate = l == left.count() || (r < right.count() && right.at(r, 1) <= left.at(l, 1));
            Rows rows = isRate ? right : left;
            long row = isRate ? r++ : l++;
            ByteBuffer value = ByteBuffer.allocate(isRate ? 8 : 16).putLong(isRate ? rows.at(row, 3) : rows.at(row, 2));
            if (!isRate) {
                value.putLong(rows.at(row, 3));
            }
            (isRate ? rates : orders).pipeInput(rows.at(row, 0), value.array(), rows.at(row, 1));
        }
    }
}
