package sqlx.peers;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Rows of one side as a mapped file of four numbers each: key, event time, id, value as its bits. Event times of Flink and
 * Kafka are whole milliseconds; those of the data, microseconds, are taken for such, and all lengths with them.
 */
final class Rows {
    static final int WIDTH = 4 * Long.BYTES;
    private static final Map<String, Rows> OPEN = new ConcurrentHashMap<>();

    /** Which part of the rows is read, from the beginning. */
    static volatile double part = 1.0;

    private final ByteBuffer[] pieces;
    private final long all;
    private static final int PIECE = 1 << 24;

    private Rows(String path) {
        try (FileChannel file = FileChannel.open(Path.of(path))) {
            all = file.size() / WIDTH;
            pieces = new ByteBuffer[(int) ((all + PIECE - 1) / PIECE)];
            for (int n = 0; n < pieces.length; n++) {
                long start = (long) n * PIECE * WIDTH;
                long size = Math.min((long) PIECE * WIDTH, file.size() - start);
                pieces[n] = file.map(FileChannel.MapMode.READ_ONLY, start, size).order(ByteOrder.LITTLE_ENDIAN);
            }
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    static Rows of(String path) {
        return OPEN.computeIfAbsent(path, Rows::new);
    }

    long count() {
        return (long) (all * part);
    }

    long at(long row, int column) {
        return pieces[(int) (row / PIECE)].getLong((int) (row % PIECE) * WIDTH + column * Long.BYTES);
    }

    /** What is known of an answer: rows, matches, and a sum that is equal for equal bags of rows. */
    static final class Answer {
        static final AtomicLong ROWS = new AtomicLong();
        static final AtomicLong MATCHED = new AtomicLong();
        static final AtomicLong SUM = new AtomicLong();

        static void add(long rows, long matched, long sum) {
            ROWS.addAndGet(rows);
            MATCHED.addAndGet(matched);
            SUM.addAndGet(sum);
        }

        static void clear() {
            ROWS.set(0);
            MATCHED.set(0);
            SUM.set(0);
        }

        static long of(long id, long rateBits) {
            return id * 0x9E3779B97F4A7C15L ^ rateBits;
        }
    }
}
