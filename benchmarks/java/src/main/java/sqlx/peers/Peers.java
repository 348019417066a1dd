package sqlx.peers;

import com.sun.management.OperatingSystemMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.stream.Stream;

/** Runs one peer over a fiftieth of the rows and then over all of them, as often as asked; a line of JSON for each of these. */
public final class Peers {
    private Peers() {}

    /** How a peer is run once; it returns the bytes of its state at the end. */
    interface Peer {
        long run(String left, String right, long retentionMs, Path work) throws Exception;
    }

    public static void main(String[] arguments) throws Exception {
        String name = arguments[0];
        Peer peer = switch (name) {
            case "flink-rocksdb" -> new FlinkPeer("rocksdb");
            case "flink-hashmap" -> new FlinkPeer("hashmap");
            case "kafka-streams" -> new KafkaStreamsPeer();
            default -> throw new IllegalArgumentException(name);
        };
        OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long retentionMs = Long.parseLong(arguments[3]);
        int shortRuns = Integer.parseInt(arguments[4]);
        int runs = Integer.parseInt(arguments[5]);
        for (int number = 0; number < shortRuns + runs; number++) {
            Rows.Answer.clear();
            Rows.part = number < shortRuns ? 0.02 : 1.0;
            Path work = Files.createTempDirectory("peer");
            long began = System.nanoTime();
            long cpu = system.getProcessCpuTime();
            long compiled = compilerMs();
            long state = peer.run(arguments[1], arguments[2], retentionMs, work);
            double seconds = (System.nanoTime() - began) / 1e9;
            double cpuSeconds = (system.getProcessCpuTime() - cpu) / 1e9;
            double compilerSeconds = (compilerMs() - compiled) / 1e3;
            delete(work);
            if (number >= shortRuns) {
                System.out.printf(
                    "RESULT {\"seconds\": %.3f, \"cpu_seconds\": %.3f, \"compiler_seconds\": %.3f, "
                        + "\"state_bytes\": %d, \"answer\": \"%d:%d:%d\"}%n",
                    seconds, cpuSeconds, compilerSeconds, state, Rows.Answer.ROWS.get(), Rows.Answer.MATCHED.get(), Rows.Answer.SUM.get());
            }
        }
        System.exit(0);
    }

    private static long compilerMs() {
        return ManagementFactory.getCompilationMXBean().getTotalCompilationTime();
    }

    static long bytes(Path folder) throws IOException {
        try (Stream<Path> files = Files.walk(folder)) {
            return files.filter(Files::isRegularFile).mapToLong(file -> file.toFile().length()).sum();
        }
    }

    private static void delete(Path folder) throws IOException {
        try (Stream<Path> files = Files.walk(folder)) {
            files.sorted((a, b) -> b.compareTo(a)).forEach(file -> file.toFile().delete());
        }
    }
}
