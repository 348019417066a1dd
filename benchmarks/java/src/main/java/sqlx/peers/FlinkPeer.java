package sqlx.peers;

import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;

/** The event-time temporal join of Flink SQL (FOR SYSTEM_TIME AS OF), with two slots in one process. */
final class FlinkPeer implements Peers.Peer {
    private final String backend;

    FlinkPeer(String backend) {
        this.backend = backend;
    }

    @Override
    public long run(String left, String right, long retentionMs, Path work) throws Exception {
        Configuration settings = new Configuration();
        settings.setString("state.backend.type", backend);
        settings.setString("execution.checkpointing.dir", work.resolve("checkpoints").toUri().toString());
        settings.setString("execution.checkpointing.interval", "5 s");
        settings.setString("execution.checkpointing.incremental", "true");
        settings.setString("taskmanager.memory.managed.size", "1 gb");
        settings.setString("taskmanager.numberOfTaskSlots", "2");
        settings.setString("pipeline.object-reuse", "true");
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(2, settings);
        StreamTableEnvironment tables = StreamTableEnvironment.create(environment);
        tables.executeSql("""
            CREATE TABLE orders (k BIGINT, id BIGINT, qty DOUBLE, ts TIMESTAMP_LTZ(3),
              WATERMARK FOR ts AS ts) WITH ('connector' = 'mapped', 'file' = '%s', 'side' = 'orders')""".formatted(left));
        tables.executeSql("""
            CREATE TABLE rates (k BIGINT, rate DOUBLE, ts TIMESTAMP_LTZ(3),
              WATERMARK FOR ts AS ts, PRIMARY KEY (k) NOT ENFORCED)
            WITH ('connector' = 'mapped', 'file' = '%s', 'side' = 'rates')""".formatted(right));
        tables.executeSql("CREATE TABLE joined (id BIGINT, rate DOUBLE) WITH ('connector' = 'summed')");
        var running = tables.executeSql("""
            INSERT INTO joined SELECT o.id, r.rate
            FROM orders AS o LEFT JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.k = r.k""");
        return mostBytesUntilEnd(running, work);
    }

    /** Of its checkpoints, which are deleted at the end. */
    private static long mostBytesUntilEnd(TableResult running, Path work) throws Exception {
        long most = 0;
        while (true) {
            try {
                running.await(500, TimeUnit.MILLISECONDS);
                return most;
            } catch (TimeoutException goesOn) {
                most = Math.max(most, bytesNow(work));
            }
        }
    }

    private static long bytesNow(Path work) {
        try {
            return Peers.bytes(work);
        } catch (UncheckedIOException | java.io.IOException changing) {
            return 0;
        }
    }
}
