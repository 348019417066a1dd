package sqlx.peers;

import java.time.Duration;
import java.util.Set;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.sink2.Sink;
import org.apache.flink.api.connector.sink2.SinkWriter;
import org.apache.flink.api.connector.sink2.WriterInitContext;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.table.connector.ChangelogMode;
import org.apache.flink.table.connector.ProviderContext;
import org.apache.flink.table.connector.sink.DynamicTableSink;
import org.apache.flink.table.connector.sink.SinkV2Provider;
import org.apache.flink.table.connector.source.DataStreamScanProvider;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.ScanTableSource;
import org.apache.flink.table.connector.source.abilities.SupportsWatermarkPushDown;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.TimestampData;
import org.apache.flink.table.factories.DynamicTableSinkFactory;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.runtime.typeutils.InternalTypeInfo;
import org.apache.flink.table.types.logical.RowType;

/** Tables of Flink over mapped rows, and one that sums an answer up: as little as a source and a sink can cost. */
public final class MappedConnector {
    private static final ConfigOption<String> FILE = ConfigOptions.key("file").stringType().noDefaultValue();
    private static final ConfigOption<String> SIDE = ConfigOptions.key("side").stringType().noDefaultValue();

    private MappedConnector() {}

    /** 'connector' = 'mapped'. */
    public static final class SourceFactory implements DynamicTableSourceFactory {
        @Override
        public DynamicTableSource createDynamicTableSource(Context context) {
            var options = context.getCatalogTable().getOptions();
            RowType type = (RowType) context.getCatalogTable().getResolvedSchema().toPhysicalRowDataType().getLogicalType();
            return new Source(options.get("file"), options.get("side").equals("orders"), type);
        }

        @Override
        public String factoryIdentifier() {
            return "mapped";
        }

        @Override
        public Set<ConfigOption<?>> requiredOptions() {
            return Set.of(FILE, SIDE);
        }

        @Override
        public Set<ConfigOption<?>> optionalOptions() {
            return Set.of();
        }
    }

    private static final class Source implements ScanTableSource, SupportsWatermarkPushDown {
        private final String file;
        private final boolean isOrders;
        private final RowType type;
        private WatermarkStrategy<RowData> watermarks = WatermarkStrategy.noWatermarks();

        Source(String file, boolean isOrders, RowType type) {
            this.file = file;
            this.isOrders = isOrders;
            this.type = type;
        }

        @Override
        public ChangelogMode getChangelogMode() {
            return ChangelogMode.insertOnly();
        }

        @Override
        public void applyWatermark(WatermarkStrategy<RowData> strategy) {
            watermarks = strategy;
        }

        @Override
        public ScanRuntimeProvider getScanRuntimeProvider(ScanContext context) {
            Rows rows = Rows.of(file);
            TypeInformation<RowData> kind = InternalTypeInfo.of(type);
            GeneratorFunction<Long, RowData> make = new Reader(file, isOrders);
            // Neither side runs away from the other: what waits in the join would be the whole of it.
            WatermarkStrategy<RowData> aligned = watermarks.withWatermarkAlignment(
                "sides", Duration.ofMillis(60_000_000), Duration.ofMillis(100));
            return new DataStreamScanProvider() {
                @Override
                public DataStream<RowData> produceDataStream(ProviderContext ignored, StreamExecutionEnvironment where) {
                    var source = new DataGeneratorSource<>(make, rows.count(), kind);
                    return where.fromSource(source, aligned, isOrders ? "orders" : "rates", kind).setParallelism(1);
                }

                @Override
                public boolean isBounded() {
                    return false;
                }
            };
        }

        @Override
        public DynamicTableSource copy() {
            Source copied = new Source(file, isOrders, type);
            copied.watermarks = watermarks;
            return copied;
        }

        @Override
        public String asSummaryString() {
            return "mapped";
        }
    }

    private static final class Reader implements GeneratorFunction<Long, RowData> {
        private final String file;
        private final boolean isOrders;
        private transient Rows rows;

        Reader(String file, boolean isOrders) {
            this.file = file;
            this.isOrders = isOrders;
        }

        @Override
        public RowData map(Long row) {
            if (rows == null) {
                rows = Rows.of(file);
            }
            long key = rows.at(row, 0);
            TimestampData time = TimestampData.fromEpochMillis(rows.at(row, 1));
            double value = Double.longBitsToDouble(rows.at(row, 3));
            return isOrders ? GenericRowData.of(key, rows.at(row, 2), value, time) : GenericRowData.of(key, value, time);
        }
    }

    /** 'connector' = 'summed'. */
    public static final class SinkFactory implements DynamicTableSinkFactory {
        @Override
        public DynamicTableSink createDynamicTableSink(Context context) {
            return new Summed();
        }

        @Override
        public String factoryIdentifier() {
            return "summed";
        }

        @Override
        public Set<ConfigOption<?>> requiredOptions() {
            return Set.of();
        }

        @Override
        public Set<ConfigOption<?>> optionalOptions() {
            return Set.of();
        }
    }

    private static final class Summed implements DynamicTableSink {
        @Override
        public ChangelogMode getChangelogMode(ChangelogMode requested) {
            return ChangelogMode.insertOnly();
        }

        @Override
        public SinkRuntimeProvider getSinkRuntimeProvider(Context context) {
            return SinkV2Provider.of(new SummedSink());
        }

        @Override
        public DynamicTableSink copy() {
            return new Summed();
        }

        @Override
        public String asSummaryString() {
            return "summed";
        }
    }

    private static final class SummedSink implements Sink<RowData> {
        @Override
        public SinkWriter<RowData> createWriter(WriterInitContext context) {
            return new SummedWriter();
        }
    }

    private static final class SummedWriter implements SinkWriter<RowData> {
        private long rows;
        private long matched;
        private long sum;

        @Override
        public void write(RowData row, Context context) {
            boolean isMatch = !row.isNullAt(1);
            rows++;
            matched += isMatch ? 1 : 0;
            sum += Rows.Answer.of(row.getLong(0), isMatch ? Double.doubleToRawLongBits(row.getDouble(1)) : 0);
        }

        @Override
        public void flush(boolean endOfInput) {
            if (endOfInput) {
                Rows.Answer.add(rows, matched, sum);
            }
        }

        @Override
        public void close() {}
    }
}
