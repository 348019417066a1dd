"""``sqlx serve``: JDBC/ODBC (Thrift) and Spark Connect from one process, over one catalog."""
