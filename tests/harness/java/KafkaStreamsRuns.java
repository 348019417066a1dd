import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Runs of Kafka Streams itself: a case a line on standard input (`op`, and `input` as [topic, key, value, time in ms]),
 * what each of its records sent out a line on standard output.
 *
 * Tables are read from `T`, `L` and `R`, a stream from `S`; keys and values are text. Windows have a long retention:
 * the library's default hides some of them (semantics.md 13.10, 14.9).
 */
public final class KafkaStreamsRuns {
  private static final Duration LONG = Duration.ofDays(1);
  private static final ObjectMapper JSON = new ObjectMapper();

  private final StreamsBuilder builder = new StreamsBuilder();
  private final JsonNode op;
  private int stores;

  private KafkaStreamsRuns(JsonNode op) {
    this.op = op;
  }

  public static void main(String[] arguments) throws IOException {
    Path work = Path.of(arguments[0]);
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      JsonNode asked = JSON.readTree(line);
      out.println(JSON.writeValueAsString(new KafkaStreamsRuns(asked.get("op")).run(asked.get("input"), work)));
    }
  }

  private ObjectNode run(JsonNode input, Path work) throws IOException {
    topology().to("results");
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, "runs");
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, "nobody:9092");
    settings.put(StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory(work, "run").toString());
    settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
    settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
    settings.put("__emit.interval.ms.kstreams.windowed.aggregation__", 0L);
    ObjectNode answer = JSON.createObjectNode();
    ArrayNode outputs = answer.putArray("output");
    try (TopologyTestDriver driver = new TopologyTestDriver(builder.build(), settings, Instant.EPOCH)) {
      TestOutputTopic<String, String> results =
          driver.createOutputTopic("results", new StringDeserializer(), new StringDeserializer());
      for (JsonNode record : input) {
        driver.createInputTopic(record.get(0).asText(), new StringSerializer(), new StringSerializer())
            .pipeInput(record.get(1).textValue(), record.get(2).textValue(), record.get(3).asLong());
        ArrayNode rows = outputs.addArray();
        for (TestRecord<String, String> row : results.readRecordsToList()) {
          rows.addArray().add(row.key()).add(row.value()).add(row.timestamp());
        }
      }
    } catch (RuntimeException failure) {  // such as a full buffer: what came before it is in the answer
      answer.put("failure", root(failure).toString());
    }
    return answer;
  }

  private static Throwable root(Throwable failure) {
    return failure.getCause() == null ? failure : root(failure.getCause());
  }

  private KStream<String, String> topology() {
    switch (op.get("kind").asText()) {
      case "stream_table_join": return streamTable();
      case "table_table_join": return limited(tableTable()).toStream();
      case "fk_join": return limited(foreign()).toStream();
      case "table_ops": return limited(stepped(table("T", "table"))).toStream();
      case "table_agg": return limited(grouped(stepped(table("T", "table")))).toStream();
      case "join_agg": return limited(grouped(tableTable())).toStream();
      case "stream_agg": return stream().groupByKey().aggregate(() -> "", KafkaStreamsRuns::add).toStream();
      case "window_agg": return windowed();
      default: throw new IllegalArgumentException(op.toString());
    }
  }

  private KStream<String, String> stream() {
    return builder.stream("S");
  }

  /** The table of a topic, versioned or not, as the case says under a name. */
  private KTable<String, String> table(String topic, String name) {
    JsonNode table = op.get(name);
    String store = "store" + stores++;
    if (!table.get("versioned").asBoolean()) {
      return builder.table(topic, Materialized.<String, String>as(Stores.inMemoryKeyValueStore(store)));
    }
    Duration retention = Duration.ofMillis(table.get("retention").asLong());
    return builder.table(
        topic, Materialized.<String, String>as(Stores.persistentVersionedKeyValueStore(store, retention)));
  }

  /** "filter": what does not end in x; "map": "m:" before the value. */
  private KTable<String, String> stepped(KTable<String, String> table) {
    KTable<String, String> found = table;
    for (JsonNode step : op.path("steps")) {
      found = step.asText().equals("filter")
          ? found.filter((key, value) -> !value.endsWith("x"))
          : found.mapValues(value -> "m:" + value);
    }
    return found;
  }

  private static String pair(String left, String right) {
    return "(" + left + "," + right + ")";
  }

  private boolean isJoin(String kind) {
    return op.get("join").asText().equals(kind);
  }

  private KStream<String, String> streamTable() {
    KTable<String, String> table = stepped(table("T", "table"));
    Joined<String, String, String> joined = Joined.as("join");
    joined = op.hasNonNull("grace") ? joined.withGracePeriod(Duration.ofMillis(op.get("grace").asLong())) : joined;
    joined = joined.withKeySerde(Serdes.String()).withValueSerde(Serdes.String());
    return isJoin("left")
        ? stream().leftJoin(table, KafkaStreamsRuns::pair, joined)
        : stream().join(table, KafkaStreamsRuns::pair, joined);
  }

  private KTable<String, String> tableTable() {
    KTable<String, String> left = table("L", "left");
    KTable<String, String> right = table("R", "right");
    if (isJoin("inner")) {
      return left.join(right, KafkaStreamsRuns::pair);
    }
    return isJoin("left")
        ? left.leftJoin(right, KafkaStreamsRuns::pair)
        : left.outerJoin(right, KafkaStreamsRuns::pair);
  }

  /** Left rows are "foreign key|value"; nothing before the bar is no foreign key. */
  private KTable<String, String> foreign() {
    KTable<String, String> left = table("L", "left");
    KTable<String, String> right = table("R", "right");
    java.util.function.Function<String, String> key =
        value -> value.startsWith("|") ? null : value.substring(0, value.indexOf('|'));
    return isJoin("left")
        ? left.leftJoin(right, key, KafkaStreamsRuns::pair)
        : left.join(right, key, KafkaStreamsRuns::pair);
  }

  /** Rows are "group:value", of a join "(group:value,right)"; a group shows its values in order. */
  private KTable<String, String> grouped(KTable<String, String> table) {
    return table
        .groupBy((key, row) -> {
          String value = row.startsWith("(") ? row.substring(1) : row;
          return KeyValue.pair(value.substring(0, value.indexOf(':')), value.substring(value.indexOf(':') + 1));
        })
        .aggregate(() -> "", KafkaStreamsRuns::add, (key, value, all) -> {
          List<String> values = values(all);
          values.remove(value);
          return String.join(" ", values);
        });
  }

  private static String add(String key, String value, String all) {
    List<String> values = values(all);
    values.add(value);
    Collections.sort(values);
    return String.join(" ", values);
  }

  private static String merge(String key, String first, String second) {
    List<String> values = values(first);
    values.addAll(values(second));
    Collections.sort(values);
    return String.join(" ", values);
  }

  private static List<String> values(String all) {
    return all.isEmpty() ? new ArrayList<>() : new ArrayList<>(List.of(all.split(" ")));
  }

  private KTable<String, String> limited(KTable<String, String> table) {
    JsonNode limits = op.path("suppress");
    if (!limits.isObject()) {
      return table;
    }
    Duration time = Duration.ofMillis(limits.get("time").asLong());
    if (!limits.has("max_records")) {
      return table.suppress(Suppressed.untilTimeLimit(time, Suppressed.BufferConfig.unbounded()));
    }
    Suppressed.EagerBufferConfig most = Suppressed.BufferConfig.maxRecords(limits.get("max_records").asLong());
    return table.suppress(limits.get("when_full").asText().equals("emit")
        ? Suppressed.untilTimeLimit(time, most)
        : Suppressed.untilTimeLimit(time, most.shutDownWhenFull()));
  }

  private KStream<String, String> windowed() {
    JsonNode window = op.get("window");
    Duration grace = Duration.ofMillis(window.get("grace").asLong());
    boolean isFinal = op.get("emit").asText().equals("final");
    EmitStrategy emit = isFinal ? EmitStrategy.onWindowClose() : EmitStrategy.onWindowUpdate();
    KGroupedStream<String, String> rows = stream().groupByKey();
    if (window.get("type").asText().equals("session")) {
      Duration gap = Duration.ofMillis(window.get("gap").asLong());
      return shown(rows.windowedBy(SessionWindows.ofInactivityGapAndGrace(gap, grace)).emitStrategy(emit)
          .aggregate(() -> "", KafkaStreamsRuns::add, KafkaStreamsRuns::merge, kept()));
    }
    Duration size = Duration.ofMillis(window.get("size").asLong());
    if (window.get("type").asText().equals("sliding")) {
      return shown(rows.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(size, grace)).emitStrategy(emit)
          .aggregate(() -> "", KafkaStreamsRuns::add, kept()));
    }
    Duration advance = Duration.ofMillis(window.path("advance").asLong(window.get("size").asLong()));
    return shown(rows.windowedBy(TimeWindows.ofSizeAndGrace(size, grace).advanceBy(advance)).emitStrategy(emit)
        .aggregate(() -> "", KafkaStreamsRuns::add, kept()));
  }

  private static <S extends StateStore> Materialized<String, String, S> kept() {
    return Materialized.<String, String, S>as("windows").withRetention(LONG)
        .withKeySerde(Serdes.String()).withValueSerde(Serdes.String());
  }

  private KStream<String, String> shown(KTable<Windowed<String>, String> windows) {
    KTable<Windowed<String>, String> table = windows;
    if (op.hasNonNull("then_time_limit")) {
      Duration time = Duration.ofMillis(op.get("then_time_limit").asLong());
      table = table.suppress(Suppressed.untilTimeLimit(time, Suppressed.BufferConfig.unbounded()));
    }
    return table.toStream((key, value) -> key.key() + "@" + key.window().start() + "," + key.window().end());
  }
}
