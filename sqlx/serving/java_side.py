"""The few lines of Java that a server needs, compiled by Janino, which Spark carries.

Hive makes its login check from the name of a class, and Spark Connect its interceptors, each in threads with class
loaders of their own. So the classes go into a folder that is on the driver's class path from the start.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

PACKAGE = "sqlx.serving"
LOGIN, CONNECT_DOOR = f"{PACKAGE}.Login", f"{PACKAGE}.ConnectLogin"
_SOURCE = """
package sqlx.serving;

import io.netty.handler.ssl.SslContextBuilder;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Collection;
import java.util.function.BiPredicate;
import javax.net.ssl.KeyManagerFactory;
import javax.security.sasl.AuthenticationException;
import org.apache.hive.service.auth.AuthenticationProviderFactory;
import org.apache.hive.service.auth.PasswdAuthenticationProvider;
import org.apache.spark.connect.proto.AddArtifactsRequest;
import org.apache.spark.connect.proto.Command;
import org.apache.spark.connect.proto.ExecutePlanRequest;
import org.apache.spark.connect.proto.ExecutePlanResponse;
import org.apache.spark.connect.proto.WriteStreamOperationStart;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.GlobalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LocalLimit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.ParsedStatement;
import org.apache.spark.sql.catalyst.plans.logical.Repartition;
import org.apache.spark.sql.connect.service.SparkConnectInterceptorRegistry;
import org.apache.spark.sql.connect.service.SparkConnectService;
import org.sparkproject.connect.grpc.ForwardingServerCall;
import org.sparkproject.connect.grpc.Metadata;
import org.sparkproject.connect.grpc.Server;
import org.sparkproject.connect.grpc.ServerCall;
import org.sparkproject.connect.grpc.ServerCallHandler;
import org.sparkproject.connect.grpc.ServerInterceptor;
import org.sparkproject.connect.grpc.Status;
import org.sparkproject.connect.grpc.netty.GrpcSslContexts;
import org.sparkproject.connect.grpc.netty.NettyServerBuilder;

/** What Hive's settings name as the check of a login. */
public class Login implements PasswdAuthenticationProvider {
    private static volatile BiPredicate login;
    public static void use(BiPredicate found) { login = found; }
    public void Authenticate(String user, String password) throws AuthenticationException {
        if (login == null || !login.test(user, password)) {
            throw new AuthenticationException("Unknown user, or wrong password.");
        }
    }
}

/** Hive's own check of a login by LDAP, for Spark Connect. */
public class Ldap {
    public static void check(String user, String password) throws AuthenticationException {
        AuthenticationProviderFactory.getAuthenticationProvider(AuthenticationProviderFactory.AuthMethods.LDAP)
            .Authenticate(user, password);
    }
}

/** Asks each call to Spark Connect for NAME:PASSWORD as its token, and counts the rows that it returns. */
public class ConnectLogin implements ServerInterceptor {
    private static volatile BiPredicate login;
    private static volatile long most;
    private static volatile String refusal;
    private static final Metadata.Key TOKEN = Metadata.Key.of("Authorization", Metadata.ASCII_STRING_MARSHALLER);
    private static volatile String noCode;
    // Who opened which session: its id comes from the client, as the name in its calls does.
    private static final java.util.Map OWNERS = java.util.Collections.synchronizedMap(
        new java.util.LinkedHashMap() {
            protected boolean removeEldestEntry(java.util.Map.Entry eldest) { return size() > 100000; }
        });
    public static String userOf(String session) { return (String) OWNERS.get(session); }
    static boolean isOwn(String session, String name) {
        Object found = OWNERS.putIfAbsent(session, name);
        return found == null || found.equals(name);
    }
    public static void use(BiPredicate found, long mostRows, String tooMany, String noForeignCode) {
        login = found;
        most = mostRows;
        refusal = tooMany;
        noCode = noForeignCode;
    }
    public ServerCall.Listener interceptCall(ServerCall call, Metadata headers, ServerCallHandler next) {
        String name = login == null ? null : nameIn((String) headers.get(TOKEN));
        if (login != null && name == null) {
            call.close(Status.UNAUTHENTICATED.withDescription(
                "Unknown user, or wrong password: connect with ;token=NAME:PASSWORD"), new Metadata());
            return new Nothing();
        }
        ServerCall.Listener answering = next.startCall(most > 0 ? new Counted(call, most, refusal) : call, headers);
        return noCode.isEmpty() && name == null ? answering : new Checked(answering, call, noCode, name);
    }
    /** Who has logged in; null where that failed. */
    private static String nameIn(String header) {
        if (header == null || !header.startsWith("Bearer ")) return null;
        String token = header.substring(7);
        int colon = token.indexOf(':');
        if (colon <= 0 || !login.test(token.substring(0, colon), token.substring(colon + 1))) return null;
        return token.substring(0, colon);
    }
}

class Nothing extends ServerCall.Listener {}

/** Ends a call that returns more rows than are allowed. */
class Counted extends ForwardingServerCall.SimpleForwardingServerCall {
    private final long most;
    private final String refusal;
    private boolean ended;
    Counted(ServerCall call, long most, String refusal) {
        super(call);
        this.most = most;
        this.refusal = refusal;
    }
    public void sendMessage(Object message) {
        if (!ended && message instanceof ExecutePlanResponse && ((ExecutePlanResponse) message).hasArrowBatch()) {
            ExecutePlanResponse.ArrowBatch batch = ((ExecutePlanResponse) message).getArrowBatch();
            if (batch.getStartOffset() + batch.getRowCount() > most) {
                ended = true;
                super.close(Status.RESOURCE_EXHAUSTED.withDescription(refusal), new Metadata());
            }
        }
        if (!ended) super.sendMessage(message);
    }
    public void close(Status status, Metadata trailers) { if (!ended) super.close(status, trailers); }
}

/** A parser in front of a session's own: a query that a JDBC client sends fails when it has too many rows. */
public class RowLimit implements java.lang.reflect.InvocationHandler {
    private static final ThreadLocal INSIDE = new ThreadLocal();
    private final ParserInterface parser;
    private final long most;
    private final String refusal;
    private RowLimit(ParserInterface parser, long most, String refusal) {
        this.parser = parser;
        this.most = most;
        this.refusal = refusal;
    }
    public static void inject(org.apache.spark.sql.SparkSessionExtensions extensions, final long most,
            final String refusal) {
        extensions.injectParser(new scala.runtime.AbstractFunction2() {
            public Object apply(Object session, Object parser) {
                return java.lang.reflect.Proxy.newProxyInstance(RowLimit.class.getClassLoader(),
                    new Class[] {ParserInterface.class}, new RowLimit((ParserInterface) parser, most, refusal));
            }
        });
    }
    public Object invoke(Object proxy, java.lang.reflect.Method method, Object[] args) throws Throwable {
        boolean isOutermost = INSIDE.get() == null && method.getName().startsWith("parsePlan")
            && Thread.currentThread().getName().startsWith("HiveServer2-");
        if (isOutermost) INSIDE.set(Boolean.TRUE);
        try {
            Object result = method.invoke(parser, args);
            return isOutermost && isQuery((LogicalPlan) result) ? limited((LogicalPlan) result) : result;
        } catch (java.lang.reflect.InvocationTargetException error) {
            throw error.getCause();
        } finally {
            if (isOutermost) INSIDE.remove();
        }
    }
    private LogicalPlan limited(LogicalPlan plan) throws Throwable {
        Expression few = parser.parseExpression(
            "if(monotonically_increasing_id() < " + most + "L, true, raise_error('" + refusal + "'))");
        Expression count = parser.parseExpression(String.valueOf(Math.min(most + 1, 2147483647L)));
        // Spark drops a limit that it knows to be large enough, and with it the one partition that the numbers need.
        return new Filter(few, new Repartition(1, false, new GlobalLimit(count, new LocalLimit(count, plan))));
    }
    private static boolean isQuery(LogicalPlan plan) {
        String name = plan.getClass().getSimpleName();
        if (plan instanceof org.apache.spark.sql.catalyst.plans.logical.Command || plan instanceof ParsedStatement
            || name.equals("CompoundBody") || name.equals("InsertIntoDir")) return false;
        scala.collection.Iterator children = plan.children().iterator();
        while (children.hasNext()) {
            if (!isQuery((LogicalPlan) children.next())) return false;
        }
        return true;
    }
}

/** Refuses what would lead a client out of SQL, by the analysed plan: programs, foreign code, files elsewhere. */
public class Guard extends scala.runtime.AbstractFunction1 {
    private static final String PROGRAMS = " ScriptTransformation ";
    private static final String CODE = " AddJarsCommand AddFilesCommand AddArchivesCommand CreateFunctionCommand"
        + " MapPartitions MapElements TypedFilter MapGroups FlatMapGroupsWithState CoGroup AppendColumns ";
    private static final String JAVA = " CallMethodViaReflection ScalaUDF ScalaAggregator ";
    private static final String PYTHON = " PythonUDF PythonUDAF PythonUDTF ";
    private static volatile String[] allowed = new String[0];
    private final String[] folders;
    private final String[] locked, limits;
    private final String secret, refusal;
    private Guard(String[] folders, String[] locked, String[] limits, String secret, String refusal) {
        this.folders = folders;
        this.locked = locked;
        this.limits = limits;
        this.secret = secret;
        this.refusal = refusal;
    }
    public static void inject(org.apache.spark.sql.SparkSessionExtensions extensions, String[] folders,
            String[] locked, String[] limits, String secret, String refusal) {
        allowed = folders;
        final Guard guard = new Guard(folders, locked, limits, secret, refusal);
        extensions.injectCheckRule(new scala.runtime.AbstractFunction1() {
            public Object apply(Object session) { return guard; }
        });
    }
    public Object apply(Object plan) {
        limits();
        look((LogicalPlan) plan, false);
        return scala.runtime.BoxedUnit.UNIT;
    }
    private void look(LogicalPlan plan, boolean isInView) {
        String name = plan.getClass().getSimpleName();
        if (PROGRAMS.contains(" " + name + " ")) refuse("TRANSFORM … USING, which runs programs");
        if (CODE.contains(" " + name + " ")) refuse("code of a client (" + name + ")");
        if (name.equals("SetCommand")) setting(plan);
        if (name.equals("CreateViewCommand") && String.valueOf(ask(plan, "viewType")).startsWith("GlobalTemp")
            && !String.valueOf(ask(ask(plan, "name"), "table")).startsWith("__sqlx_"))
            refuse("a global temporary view, which would be everybody's");
        if (!isInView) places(plan, name);
        eachOf(plan.expressions().iterator(), isInView);
        boolean inside = isInView || name.equals("View");
        eachOf(plan.children().iterator(), inside);
        eachOf(plan.innerChildren().iterator(), inside);
    }
    private void eachOf(scala.collection.Iterator items, boolean isInView) {
        while (items.hasNext()) {
            Object item = items.next();
            if (item instanceof LogicalPlan) look((LogicalPlan) item, isInView);
            if (item instanceof Expression) look((Expression) item, isInView);
        }
    }
    private void look(Expression expression, boolean isInView) {
        String name = expression.getClass().getSimpleName();
        if (JAVA.contains(" " + name + " ")) refuse("a call of Java (" + name + ")");
        if (PYTHON.contains(" " + name + " ")) {
            Object env = ask(ask(expression, "func"), "envVars");
            if (!(env instanceof java.util.Map) || !secret.equals(((java.util.Map) env).get("SQLX_SERVER")))
                refuse("Python code of a client (" + name + ")");
        }
        if (expression instanceof org.apache.spark.sql.catalyst.expressions.SubqueryExpression) {
            Object plan = ((org.apache.spark.sql.catalyst.expressions.SubqueryExpression) expression).plan();
            if (plan instanceof LogicalPlan) look((LogicalPlan) plan, isInView);
        }
        eachOf(expression.children().iterator(), isInView);
    }
    private void setting(LogicalPlan plan) {
        Object pair = valueOf(ask(plan, "kv"));
        if (pair == null || valueOf(ask(pair, "_2")) == null) return;
        if (java.util.Arrays.asList(locked).contains(String.valueOf(ask(pair, "_1")))) refuse("SET " + ask(pair, "_1"));
    }
    /** A limit may be set where no statement shows it: in a JDBC URL, or by a call of Spark Connect. */
    private void limits() {
        for (int n = 0; n < locked.length; n++) {
            String found = org.apache.spark.sql.internal.SQLConf.get().getConfString(locked[n], "<undefined>");
            if (!found.equals(limits[n])) refuse("a session with " + locked[n] + " = " + found);
        }
    }
    private void places(LogicalPlan plan, String name) {
        if (name.equals("LogicalRelation") && valueOf(ask(plan, "catalogTable")) == null) {
            Object files = ask(ask(plan, "relation"), "location");
            if (files != null) eachPlace(ask(files, "rootPaths"));
        }
        if (name.equals("StreamingRelation") && valueOf(ask(ask(plan, "dataSource"), "catalogTable")) == null) {
            eachPlace(ask(ask(plan, "dataSource"), "paths"));
            optionPath(ask(ask(plan, "dataSource"), "options"), "path");
        }
        if (name.equals("InsertIntoHadoopFsRelationCommand") && valueOf(ask(plan, "catalogTable")) == null)
            place(ask(plan, "outputPath"));
        if (name.equals("SaveIntoDataSourceCommand") || name.equals("CreateTempViewUsing"))
            optionPath(ask(plan, "options"), "path");
        if (name.equals("CreateNamespace") || name.equals("SetNamespaceProperties"))
            optionPath(ask(plan, "properties"), "location");
        if (name.startsWith("InsertInto") && name.contains("Dir"))
            place(valueOf(ask(ask(plan, "storage"), "locationUri")));
        if (name.equals("LoadDataCommand")) place(ask(plan, "path"));
        if (name.equals("AlterTableSetLocationCommand") || name.startsWith("SetNamespaceLocation"))
            place(ask(plan, "location"));
        if (name.equals("CreateDatabaseCommand")) place(valueOf(ask(plan, "path")));
        if (name.startsWith("CreateTableLike")) place(valueOf(ask(ask(plan, "fileFormat"), "locationUri")));
        if (name.startsWith("Create")) {
            Object table = ask(plan, "tableDesc") != null ? ask(plan, "tableDesc") : ask(plan, "table");
            place(valueOf(ask(ask(table, "storage"), "locationUri")));
        }
        if (name.equals("AlterTableAddPartitionCommand")) {
            scala.collection.Iterable parts = (scala.collection.Iterable) ask(plan, "partitionSpecsAndLocs");
            scala.collection.Iterator each = parts.iterator();
            while (each.hasNext()) place(valueOf(ask(each.next(), "_2")));
        }
    }
    private void optionPath(Object options, String key) {
        if (options instanceof scala.collection.Map) place(valueOf(((scala.collection.Map) options).get(key)));
    }
    private void eachPlace(Object paths) {
        scala.collection.Iterator each = ((scala.collection.Iterable) paths).iterator();
        while (each.hasNext()) place(each.next());
    }
    private void place(Object given) {
        if (given != null && isElsewhere(String.valueOf(given), folders)) refuse("files in " + given);
    }
    /** Whether a path is in none of the folders; where a statement has no plan, by the folders of the server. */
    static boolean isElsewhere(String given) { return isElsewhere(given, allowed); }
    private static boolean isElsewhere(String given, String[] folders) {
        org.apache.hadoop.fs.Path path = new org.apache.hadoop.fs.Path(given);
        if (!path.isAbsolute()) path = new org.apache.hadoop.fs.Path(System.getProperty("user.dir"), path);
        String found = (path.toUri().getScheme() == null ? "file:" : path.toUri().getScheme() + ":")
            + (path.toUri().getAuthority() == null ? "" : "//" + path.toUri().getAuthority())
            + java.net.URI.create(path.toUri().getRawPath().replaceAll("/+", "/")).normalize().getPath();
        for (int n = 0; n < folders.length; n++) {
            if (found.equals(folders[n]) || found.startsWith(folders[n] + "/")) return false;
        }
        return true;
    }
    private static Object valueOf(Object option) {
        return option instanceof scala.Some ? ((scala.Some) option).value() : null;
    }
    static Object ask(Object owner, String name) {
        if (owner == null) return null;
        try {
            java.lang.reflect.Method method = owner.getClass().getMethod(name, new Class[0]);
            method.setAccessible(true);
            return method.invoke(owner, new Object[0]);
        } catch (Exception none) {
            return null;
        }
    }
    private void refuse(String what) { throw new Refused(refusal.replace("{what}", what)); }
}

/** Hands on what Spark says of sessions and statements of clients. */
public class Heard extends org.apache.spark.scheduler.SparkListener {
    private final java.util.function.Consumer sink;
    private Heard(java.util.function.Consumer sink) { this.sink = sink; }
    public static void listen(org.apache.spark.SparkContext context, java.util.function.Consumer sink) {
        context.addSparkListener(new Heard(sink));
    }
    public void onOtherEvent(org.apache.spark.scheduler.SparkListenerEvent event) {
        String name = event.getClass().getSimpleName();
        if (name.startsWith("SparkListenerThriftServer") || name.startsWith("SparkListenerConnect"))
            sink.accept(org.apache.spark.util.JsonProtocol.sparkEventToJsonString(event));
    }
}

/** A statement that a client may not run: the message says what of it. */
class Refused extends org.apache.spark.SparkRuntimeException {
    private final String text;
    Refused(String text) {
        super("INTERNAL_ERROR", new scala.collection.immutable.HashMap().updated("message", text), null,
            new org.apache.spark.QueryContext[0], "");
        this.text = text;
    }
    public String getMessage() { return text; }
    public String getCondition() { return "SERVE.REFUSED"; }
    public String getErrorClass() { return "SERVE.REFUSED"; }
    public String getSqlState() { return "42501"; }
}

/** Ends a call to Spark Connect that brings code of the client's into the server, or names another user's session. */
class Checked extends org.sparkproject.connect.grpc.ForwardingServerCallListener.SimpleForwardingServerCallListener {
    private final ServerCall call;
    private final String refusal, name;
    private boolean ended;
    Checked(ServerCall.Listener next, ServerCall call, String refusal, String name) {
        super(next);
        this.call = call;
        this.refusal = refusal;
        this.name = name;
    }
    public void onMessage(Object message) {
        String what = refusal.isEmpty() ? null : codeIn(message);
        if (what != null) end(refusal.replace("{what}", what));
        Object session = name == null ? null : Guard.ask(message, "getSessionId");
        if (session != null && !ConnectLogin.isOwn((String) session, name)) end("This is a session of another user.");
        if (!ended) super.onMessage(message);
    }
    private void end(String why) {
        if (!ended) call.close(Status.PERMISSION_DENIED.withDescription(why), new Metadata());
        ended = true;
    }
    public void onHalfClose() { if (!ended) super.onHalfClose(); }
    private static String codeIn(Object message) {
        if (message instanceof AddArtifactsRequest) return artifact((AddArtifactsRequest) message);
        if (!(message instanceof ExecutePlanRequest)) return null;
        Command command = ((ExecutePlanRequest) message).getPlan().getCommand();
        if (command.hasWriteStreamOperationStart()) return stream(command.getWriteStreamOperationStart());
        if (command.hasRegisterFunction() || command.hasRegisterTableFunction() || command.hasRegisterDataSource())
            return "functions of a client";
        if (command.hasStreamingQueryListenerBusCommand()) return "a listener of a client";
        if (command.hasExecuteExternalCommand() || command.hasExtension() || isOfPipelines(command))
            return "commands of other systems";
        return null;
    }
    private static boolean isOfPipelines(Command command) {  // PySpark 4.0 has none, nor their method
        return command.getCommandTypeCase().name().equals("PIPELINE_COMMAND");
    }
    private static String stream(WriteStreamOperationStart start) {
        if (start.hasForeachBatch() || start.hasForeachWriter()) return "a function for each micro-batch";
        String[] places = {start.getPath(), (String) start.getOptionsMap().get("path"),
            (String) start.getOptionsMap().get("checkpointLocation")};
        for (int n = 0; n < places.length; n++) {
            if (places[n] != null && !places[n].isEmpty() && Guard.isElsewhere(places[n]))
                return "files in " + places[n];
        }
        return null;
    }
    private static String artifact(AddArtifactsRequest request) {
        String name = "cache/";
        if (request.hasBeginChunk()) name = request.getBeginChunk().getName();
        for (int n = 0; request.hasBatch() && n < request.getBatch().getArtifactsCount(); n++) {
            if (!request.getBatch().getArtifacts(n).getName().startsWith("cache/"))
                name = request.getBatch().getArtifacts(n).getName();
        }
        return name.startsWith("cache/") ? null : "files of a client (" + name + ")";
    }
}

/** Keys of a server. */
public class Keys {
    public static void fromPem(String certificates, String key, String kept, String secret) throws Exception {
        Collection chain = CertificateFactory.getInstance("X.509").generateCertificates(
            new java.io.ByteArrayInputStream(certificates.getBytes(StandardCharsets.US_ASCII)));
        Certificate[] found = (Certificate[]) chain.toArray(new Certificate[chain.size()]);
        byte[] bytes = java.util.Base64.getMimeDecoder().decode(key);
        PrivateKey made = KeyFactory.getInstance(found[0].getPublicKey().getAlgorithm())
            .generatePrivate(new PKCS8EncodedKeySpec(bytes));
        KeyStore keys = KeyStore.getInstance("PKCS12");
        keys.load(null, null);
        keys.setKeyEntry("server", made, secret.toCharArray(), found);
        write(keys, kept, secret);
    }
    public static void fromStore(String file, String password, String kept, String secret) throws Exception {
        KeyStore given = read(file, password), keys = KeyStore.getInstance("PKCS12");
        keys.load(null, null);
        java.util.Enumeration aliases = given.aliases();
        while (aliases.hasMoreElements()) {
            String alias = (String) aliases.nextElement();
            if (given.isKeyEntry(alias)) keys.setKeyEntry("server",
                given.getKey(alias, password.toCharArray()), secret.toCharArray(), given.getCertificateChain(alias));
        }
        if (keys.size() == 0) throw new java.security.KeyStoreException("it holds no private key");
        write(keys, kept, secret);
    }
    static KeyStore read(String file, String password) throws Exception {
        return KeyStore.getInstance(new java.io.File(file), password.toCharArray());
    }
    private static void write(KeyStore keys, String file, String secret) throws Exception {
        FileOutputStream out = new FileOutputStream(file);
        try { keys.store(out, secret.toCharArray()); } finally { out.close(); }
    }
}

/** Spark Connect's own service behind TLS, which its stock server does not offer. */
public class TlsConnect {
    public static Server start(String host, int port, String keystore, String secret, int mostBytes) throws Exception {
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(Keys.read(keystore, secret), secret.toCharArray());
        NettyServerBuilder builder = NettyServerBuilder.forAddress(new InetSocketAddress(host, port));
        builder.sslContext(GrpcSslContexts.configure(SslContextBuilder.forServer(keys)).build());
        builder.maxInboundMessageSize(mostBytes);
        builder.permitKeepAliveTime(10L, java.util.concurrent.TimeUnit.SECONDS);
        builder.permitKeepAliveWithoutCalls(true);
        builder.addService(new SparkConnectService(false));
        SparkConnectInterceptorRegistry.chainInterceptors(builder);
        return builder.build().start();
    }
}
"""


def compile_into(jvm: Any, folder: Path) -> None:
    """Compile the classes.

    Args:
        jvm: Spark's Java.
        folder: a folder that is on its class path.
    """
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(_SOURCE)
    for name, code in compiler.getBytecodes().items():
        path = folder.joinpath(*str(name).split(".")).with_suffix(".class")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(bytes(code))
