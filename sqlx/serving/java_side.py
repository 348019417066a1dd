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
import org.apache.spark.connect.proto.ExecutePlanResponse;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.Command;
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
    public static void use(BiPredicate found, long mostRows, String tooMany) {
        login = found;
        most = mostRows;
        refusal = tooMany;
    }
    public ServerCall.Listener interceptCall(ServerCall call, Metadata headers, ServerCallHandler next) {
        if (login != null && !mayEnter((String) headers.get(TOKEN))) {
            call.close(Status.UNAUTHENTICATED.withDescription(
                "Unknown user, or wrong password: connect with ;token=NAME:PASSWORD"), new Metadata());
            return new Nothing();
        }
        return next.startCall(most > 0 ? new Counted(call, most, refusal) : call, headers);
    }
    private static boolean mayEnter(String header) {
        if (header == null || !header.startsWith("Bearer ")) return false;
        String token = header.substring(7);
        int colon = token.indexOf(':');
        return colon > 0 && login.test(token.substring(0, colon), token.substring(colon + 1));
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
        if (plan instanceof Command || plan instanceof ParsedStatement
            || plan.getClass().getSimpleName().equals("CompoundBody")) return false;
        scala.collection.Iterator children = plan.children().iterator();
        while (children.hasNext()) {
            if (!isQuery((LogicalPlan) children.next())) return false;
        }
        return true;
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
