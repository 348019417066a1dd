"""One process that serves JDBC and Spark Connect over one session of ours; ends when its input does.

python server.py WAREHOUSE THRIFT_PORT CONNECT_PORT
"""

from __future__ import annotations

import sys

import sqlx


def main(warehouse: str, thrift_port: str, connect_port: str) -> None:
    spark = sqlx.session(
        app="sqlx servers",
        master="local[2]",
        warehouse=warehouse,
        conf={
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.port": connect_port,
            "spark.hadoop.hive.server2.thrift.port": thrift_port,
            "spark.hadoop.hive.server2.thrift.bind.host": "localhost",
            "spark.driver.memory": "1500m",
            "spark.log.level": "ERROR",
            "spark.sql.shuffle.partitions": "2",
            "spark.ui.enabled": "false",
        },
    )
    server = spark._jvm.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
    server.startWithSparkSession(spark._jsparkSession, False)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
